"""The cost of signed commands: two nodes with simulated containers, one signed and one plain, measured in turn."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import Figure, Row, markdown
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node

BATCH = 20
"""The number of pods in one sample of CPU time, which the kernel counts in hundredths of a second."""
AIM = 1.03


@dataclass(frozen=True)
class Signatures:
    """The rows. In them, "engine" means the signed node, and "bare" the plain one."""

    rows: Sequence[Row]

    def __str__(self) -> str:
        lines = [("", "signed", "plain", "ratio", "aim", "met")]
        for row in self.rows:
            met = "yes" if row.met else "NO"
            lines.append((row.what, str(row.engine), str(row.bare), f"{row.ratio:.3f} ×", f"≤ {row.aim} ×", met))
        return markdown(lines)


async def signatures(pods: int) -> Signatures:
    """Start `pods` pods on each node one by one, then in batches for their CPU; return both comparisons."""
    starts: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    async with simulated_node() as plain, simulated_node(signed=True) as signed:
        nodes = {False: plain, True: signed}
        for number in range(pods):
            for is_signed in _in_turn(number):
                starts[is_signed].append(await _start(nodes[is_signed], f"start-{number}"))
        for number in range(max(3, pods // BATCH)):
            sys.stderr.write(f"bench:   batch {number}\n")
            for is_signed in _in_turn(number):
                cpu[is_signed].append(await _lives(nodes[is_signed], f"batch-{number}"))
    return Signatures(
        [
            Row("start of a pod", Figure(tuple(starts[True])), Figure(tuple(starts[False])), AIM),
            Row("worker's CPU of a pod's life", Figure(tuple(cpu[True])), Figure(tuple(cpu[False])), AIM),
        ]
    )


def _in_turn(number: int) -> tuple[bool, bool]:
    """Return for each of the two nodes whether it is signed. They alternate: the second may find a busier machine."""
    return (False, True) if number % 2 else (True, False)


async def _start(node: SimulatedNode, name: str) -> float:
    """Return the milliseconds from a pod's application until it runs."""
    began = time.perf_counter()
    await node.engine.apply(simulated_pod(name))
    ended = await node.engine.until_running(name)
    await node.engine.clear(name)
    return 1000 * (ended - began)


async def _lives(node: SimulatedNode, name: str) -> float:
    """Return the CPU milliseconds that the worker spends on one pod of a batch, from its start to its end."""
    names = [f"{name}-{number}" for number in range(BATCH)]
    before = node.cpu()["worker"]
    await each(names, lambda one: node.engine.apply(simulated_pod(one)))
    await node.until_visible("PodReady = true", BATCH)
    await each(names, node.engine.delete)
    await node.until_visible("", 0)
    return 1000 * (node.cpu()["worker"] - before) / BATCH
