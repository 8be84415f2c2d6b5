"""``python -m bench.trace``: start pods with traces on, and print the trace of the median one as a tree.

``python -m bench.trace --pod NAME`` starts nothing, and prints the trace of a pod's last start from the log of this
machine's worker, which exports to its console (``OTEL_TRACES_EXPORTER=console``).

Each line has when a span began and how long it took, in milliseconds, and how much of that no span below it accounts
for. At the end stands how much of a start no span at all accounts for. What traces cost, `bench.telemetry` measures.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bench import machine
from bench.console_spans import spans_in
from bench.nodes import Settings, nodes
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import worker_log
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.require import Missing
from tests.worker.collector import Collector, attributes

_SHOWN = ("syncpod.step", "syncpod.why", "k8s.container.name")


class Tree:
    """The spans of one trace, below its sync."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """`spans` are all of one trace; one of them is a ``sync_pod``."""
        (self.root,) = [span for span in spans if span.name == "sync_pod"]
        self._below: dict[bytes, list[Span]] = defaultdict(list)
        for span in sorted(spans, key=lambda each: each.start_time_unix_nano):
            self._below[span.parent_span_id].append(span)

    def unaccounted(self, span: Span) -> int:
        """Return the nanoseconds of a span's time that no span below it accounts for."""
        reached, gaps = span.start_time_unix_nano, 0
        for child in self._below[span.span_id]:
            gaps += max(0, child.start_time_unix_nano - reached)
            reached = max(reached, child.end_time_unix_nano)
        return gaps + max(0, span.end_time_unix_nano - reached)

    @property
    def gaps(self) -> float:
        """The part of the sync's time that no span accounts for: between its spans, and between a step's calls."""
        steps = [span for span in self._below[self.root.span_id] if self._below[span.span_id]]
        return sum(map(self.unaccounted, (self.root, *steps))) / _took(self.root)

    def lines(self) -> list[str]:
        """Return one line for each span."""
        return [f"{'':34}{'at':>8}{'took':>8}{'gaps':>8}", *self._lines(self.root, 0)]

    def _lines(self, span: Span, depth: int) -> list[str]:
        told = attributes(span)
        said = ", ".join(told[name] for name in _SHOWN if told.get(name))
        began = span.start_time_unix_nano - self.root.start_time_unix_nano
        gaps = f"{self.unaccounted(span) / 1e6:8.1f}" if self._below[span.span_id] else f"{'':8}"
        line = f"{'  ' * depth + span.name:34}{began / 1e6:8.1f}{_took(span) / 1e6:8.1f}{gaps}  {said}".rstrip()
        return [line, *(below for each in self._below[span.span_id] for below in self._lines(each, depth + 1))]


def _took(span: Span) -> int:
    return span.end_time_unix_nano - span.start_time_unix_nano


def start_of(spans: Sequence[Span], name: str) -> Tree:
    """Return the trace of a pod's last start. Raises LookupError if it has not been exported."""
    for sync in reversed(spans):
        told = attributes(sync)
        if (sync.name, told.get("k8s.pod.name")) == ("sync_pod", name) and "start" in told["syncpod.triggers"]:
            return Tree([span for span in spans if span.trace_id == sync.trace_id])
    raise LookupError(f"no trace of the start of {name}")


async def _measure(runtime_version: str, runs: int) -> None:
    with Collector() as collector:
        traced = Settings(environment={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.endpoint}/v1/traces"})
        async with nodes(runtime_version, {"traced": traced}) as here:
            for run in range(runs + 1):  # the first start of a node loads what later ones have
                await here.start("traced", f"traced-{run}")
                await here.delete(f"traced-{run}")
            await here.workers["traced"].stop()  # which exports what is left
        trees = sorted(
            (start_of(collector.spans, f"traced-{run}") for run in range(1, runs + 1)),
            key=lambda tree: _took(tree.root),
        )
    chosen = trees[len(trees) // 2]
    sys.stdout.write("\n".join(chosen.lines()) + "\n\n")
    sys.stdout.write(f"no span accounts for {chosen.gaps:.1%} of it; of {runs}: {median(t.gaps for t in trees):.1%}\n")


def _show(pod_name: str, log: Path) -> int:
    """Print the trace of a pod's last start from a worker's log; return 1 if it is not there."""
    try:
        tree = start_of(list(spans_in(log.read_text(errors="replace"))), pod_name)
    except (OSError, LookupError) as error:
        sys.stderr.write(f"bench: {error} in {log}: a worker exports within 5 s if OTEL_TRACES_EXPORTER=console\n")
        return 1
    sys.stdout.write("\n".join(tree.lines()) + f"\n\nno span accounts for {tree.gaps:.1%} of it\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("--runtime", choices=VERSIONS, default=VERSIONS[-1], help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=9, help="starts (default: %(default)s)")
    parser.add_argument("--pod", metavar="NAME", help="print the trace of this pod's last start, from a worker's log")
    parser.add_argument("--log", type=Path, metavar="FILE", help="that log (default: the one of this machine's worker)")
    chosen = parser.parse_args(arguments)
    if chosen.pod:
        return _show(chosen.pod, chosen.log or worker_log(settings().state_dir))
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
