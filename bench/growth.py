"""The CPU time of each process for one more pod, by the number of pods that the node already has.

``python -m bench --only growth --pods 2000`` runs that many simulated pods on one node, deletes them, and writes a
table and two plots into docs/simulated.md. The plots are text that forges render (Mermaid's xychart).
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import machine
from bench.figures import markdown
from bench.performance import today, written
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node
from bench.stage import NODE
from syncpod.cli.temporal.pod_apply import apply_pod

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "docs" / "simulated.md"
BEGIN: Final = "<!-- measured: python -m bench --only growth -->"
PARTS: Final = 10
"""Into how many parts the pods are divided; each is one point of the plot."""
_LOOKS_EVERY: Final = 0.2
_DELETED_AT_ONCE: Final = 32


@dataclass(frozen=True)
class Mark:
    """A moment of a run: the number of pods started, or deleted, and each part's CPU seconds, so far."""

    pods: int
    cpu: Mapping[str, float]
    at: float = 0.0
    """Seconds, by a monotonic clock."""


@dataclass(frozen=True)
class Growth:
    """The marks of one run, in their order."""

    applied: Sequence[Mark]
    deleted: Sequence[Mark]


def costs(marks: Sequence[Mark]) -> list[tuple[int, dict[str, float]]]:
    """Return, for each pair of successive marks, the later number of pods and each part's CPU ms for one pod."""
    return [
        (
            after.pods,
            {part: (after.cpu[part] - before.cpu[part]) * 1000 / (after.pods - before.pods) for part in after.cpu},
        )
        for before, after in itertools.pairwise(marks)
    ]


def report(growth: Growth, environment: str) -> str:
    """Return the plots and the table, as Markdown."""
    applied, deleted = costs(growth.applied), costs(growth.deleted)
    parts = list(growth.applied[0].cpu)
    rows: list[Sequence[str]] = [("ms of CPU for each pod", *parts, "all")]
    for what, measured in (("applied", applied), ("deleted", deleted)):
        rows += [
            (f"{what}, up to {pods}", *(f"{cost[part]:.0f}" for part in parts), f"{sum(cost.values()):.0f}")
            for pods, cost in measured
        ]
    took = ", ".join(
        f"{what} in {marks[-1].at - marks[0].at:.0f} s"
        for what, marks in (("applied", growth.applied), ("deleted", growth.deleted))
    )
    begins = f"Measured on {today()}: {growth.applied[-1].pods} pods {took}."
    return "".join(f"\n{part}\n" for part in (begins, _plot(applied, deleted), markdown(rows), environment)) + "\n"


async def growth(pods: int) -> str:
    """Measure with this many pods, write docs/simulated.md, and return its measured part."""
    before = machine.load()
    async with simulated_node() as node:
        names = [f"grown-{number}" for number in range(pods)]

        async def apply(name: str) -> None:
            await apply_pod(node.client, simulated_pod(name), node=NODE, has_attributes=True)

        async def delete(name: str) -> None:
            # Waits for the end: if all pods were deleted at once, the first would be gone only when most work is done.
            await node.engine.delete(name)
            await node.engine.until_ended(name)

        applied = await _marked(node, pods, lambda: node.visible("PodReady = true"), each(names, apply))
        deleted = await _marked(node, pods, lambda: _gone(node, pods), each(names, delete, at_once=_DELETED_AT_ONCE))
    text = report(Growth(applied, deleted), machine.environment("simulated pods", before))
    DOCUMENT.write_text(written(DOCUMENT.read_text(), text, begin=BEGIN))
    return text


async def _gone(node: SimulatedNode, pods: int) -> int:
    """Return how many pods are gone from both server and runtime; the node removes a pod from the runtime last."""
    listed = await node.cri.list_pod_sandboxes()
    return pods - max(await node.visible(), len(listed))


async def _marked(
    node: SimulatedNode, pods: int, count: Callable[[], Awaitable[int]], work: Awaitable[object]
) -> list[Mark]:
    """Do the work, wait until `count` has reached all pods, and return a mark for each tenth of them."""
    marks = [Mark(0, node.cpu(), time.monotonic())]

    async def watch() -> None:
        while marks[-1].pods < pods:
            await asyncio.sleep(_LOOKS_EVERY)
            now = await count()
            if now >= pods or now - marks[-1].pods >= pods / PARTS:
                sys.stderr.write(f"bench:   {now} of {pods}\n")
                marks.append(Mark(now, node.cpu(), time.monotonic()))

    await asyncio.gather(work, watch())
    return marks


def _plot(
    applied: Sequence[tuple[int, Mapping[str, float]]], deleted: Sequence[tuple[int, Mapping[str, float]]]
) -> str:
    """Return one plot for each phase, since their points are at different numbers of pods."""
    return "\n\n".join(
        "\n".join(
            (
                "```mermaid",
                "xychart-beta",
                f'    title "CPU for each pod {what}, by the number of pods so far"',
                f"    x-axis [{', '.join(str(pods) for pods, _ in measured)}]",
                f'    y-axis "ms" 0 --> {_above(applied, deleted)}',
                f"    bar [{', '.join(f'{sum(cost.values()):.0f}' for _, cost in measured)}]",
                "```",
            )
        )
        for what, measured in (("applied", applied), ("deleted", deleted))
    )


def _above(*phases: Sequence[tuple[int, Mapping[str, float]]]) -> int:
    """Return the end of the axis: the next multiple of 20 above all costs."""
    most = max(sum(cost.values()) for measured in phases for _, cost in measured)
    return int(most // 20 + 1) * 20
