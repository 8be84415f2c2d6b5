"""Room on a node: the resources that a pod requests, compared with those that are left.

Mirrors pkg/scheduler/framework/plugins/noderesources/fit.go and least_allocated.go, v1.36. Differences: a resource that
a node does not name is unlimited, as in :mod:`syncpod.node.fit`; a pod without requests counts as zero for the score,
while the scheduler assumes 100m and 200Mi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from syncpod.fleet.offers import NodeOffer
from syncpod.pod.amounts import HUGE_PAGES

PODS: Final = "pods"
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_SCORED: Final = ("cpu", "memory")


def insufficient(wanted: Mapping[str, int], node: NodeOffer) -> Iterator[tuple[str, str]]:
    """Yield a reason and its numbers for each resource that the node has too little of, in the scheduler's order."""
    if PODS in node.allocatable and node.crowd + 1 > node.allocatable[PODS]:
        yield "Too many pods", f"pods: has {node.crowd}, may have {node.allocatable[PODS]}"
    for name in sorted(wanted, key=_in_order):
        limit = node.allocatable.get(name, 0 if name.startswith(HUGE_PAGES) else None)
        used = node.taken.get(name, 0)
        if limit is not None and wanted[name] > 0 and wanted[name] > limit - used:
            yield f"Insufficient {name}", f"{name}: requested {wanted[name]}, taken {used}, allocatable {limit}"


def least_allocated(wanted: Mapping[str, int], node: NodeOffer) -> int:
    """Return the free share of a node with the pod, 0 to 100: the mean of cpu and memory; 0 if it names neither."""
    left = [
        max(0, limit - node.taken.get(name, 0) - wanted.get(name, 0)) * 100 // limit
        for name in _SCORED
        if (limit := node.allocatable.get(name, 0)) > 0
    ]
    return sum(left) // len(left) if left else 0


def _in_order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name
