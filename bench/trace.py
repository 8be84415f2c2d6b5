"""``python -m bench.trace``: starts pods with tracing on, and prints the trace of the median start as a tree.

Each line shows a span's begin, its duration, and the time in it that no child span covers, in milliseconds. The last
line shows the fraction of a start that no span covers. `bench.telemetry` measures the cost of tracing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from statistics import median

from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from bench import machine
from bench.nodes import Settings, nodes
from syncpod.cli.view.console_spans import Span
from syncpod.cli.view.span_tree import SYNC, SpanTree
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.require import Missing
from tests.worker.collector import Collector, attributes


def _spans(spans: Sequence[ProtoSpan]) -> list[Span]:
    """Return the spans that a collector has received, in the form of the console exporter."""
    return [
        Span(
            name=each.name,
            trace=each.trace_id.hex(),
            id=each.span_id.hex(),
            parent=each.parent_span_id.hex(),
            begun=each.start_time_unix_nano,
            ended=each.end_time_unix_nano,
            attributes=attributes(each),
        )
        for each in spans
    ]


def start_of(spans: Sequence[Span], name: str) -> SpanTree:
    """Return the trace of a pod's last start. Raises LookupError if it has not been exported."""
    for sync in reversed(spans):
        told = sync.attributes
        if (sync.name, told.get("k8s.pod.name")) == (SYNC, name) and "start" in told["syncpod.triggers"]:
            return SpanTree([span for span in spans if span.trace == sync.trace])
    raise LookupError(f"no trace of the start of {name}")


async def _measure(runtime_version: str, runs: int) -> None:
    with Collector() as collector:
        traced = Settings(environment={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.endpoint}/v1/traces"})
        async with nodes(runtime_version, {"traced": traced}) as here:
            for run in range(runs + 1):  # a node's first start loads modules that later starts share
                await here.start("traced", f"traced-{run}")
                await here.delete(f"traced-{run}")
            await here.workers["traced"].stop()  # this exports the remaining spans
        spans = _spans(collector.spans)
        trees = sorted(
            (start_of(spans, f"traced-{run}") for run in range(1, runs + 1)), key=lambda tree: tree.root.took
        )
    chosen = trees[len(trees) // 2]
    sys.stdout.write("\n".join(chosen.lines()) + "\n\n")
    sys.stdout.write(f"no span accounts for {chosen.gaps:.1%} of it; of {runs}: {median(t.gaps for t in trees):.1%}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("--runtime", choices=VERSIONS, default=VERSIONS[-1], help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=9, help="starts (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    before = machine.load()
    try:
        asyncio.run(_measure(chosen.runtime, chosen.runs))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    sys.stdout.write(f"\n{machine.environment(f'containerd {chosen.runtime}', before)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
