"""Stores probe results in the pod's directory, so that a restart of the worker loses none.

The pod's workflow has the results that count. This copy only lets the next prober continue where the last one stopped:
a container that has started gets no startup probes again, and a ready container stays ready until a probe fails. The
time for which an exec probe has waited for an answer is stored too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from syncpod.agent.probing.slow_answers import NOT_SLOW, Slow
from syncpod.kernel.atomic_file import replace_file
from syncpod.lifecycle.probing import PROBE_TYPES, ProbeResult, ProbeType
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

_NAME = "probes.json"
_RESULTS = ("success", "failure", "unknown")
_SLOW: Final = "slow"
"""The key of the entry with the slow answers of exec probes, by type. The other keys are types of probes."""

Results = Mapping[tuple[str, ProbeType], ProbeResult]
"""Results by container id and type of probe."""
SlowProbes = Mapping[tuple[str, ProbeType], Slow]
"""How slow exec probes are, by container id and type; those that are not slow are left out."""


def read_results(node: NodeContext, uid: str) -> dict[tuple[str, ProbeType], ProbeResult]:
    """Return the stored results; empty if they cannot be read. Blocks. Raises UnsafeName."""
    try:
        return {
            (container_id, type_): results[type_]
            for container_id, results in _kept(node, uid).items()
            for type_ in PROBE_TYPES
            if results.get(type_) in _RESULTS
        }
    except (OSError, ValueError, AttributeError):
        return {}


def read_slow(node: NodeContext, uid: str) -> dict[tuple[str, ProbeType], Slow]:
    """Return how slow the pod's exec probes were; empty if that cannot be read. Blocks. Raises UnsafeName."""
    try:
        return {
            (container_id, type_): Slow(int(found["failures"]), float(found["waited"]))
            for container_id, results in _kept(node, uid).items()
            for type_ in PROBE_TYPES
            if (found := results.get(_SLOW, {}).get(type_)) is not None
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return {}


def write_results(node: NodeContext, uid: str, results: Results, slow: SlowProbes) -> None:
    """Replace the stored file atomically; do nothing if the pod has no directory. Blocks. Raises OSError."""
    directory = pod_directory(node, uid)
    if not directory.is_dir():
        return
    kept: dict[str, dict[str, Any]] = {}
    for (container_id, type_), result in results.items():
        kept.setdefault(container_id, {})[type_] = result
    for (container_id, type_), each in slow.items():
        if each != NOT_SLOW:
            found = {"failures": each.failures, "waited": round(each.waited, 1)}
            kept.setdefault(container_id, {}).setdefault(_SLOW, {})[type_] = found
    replace_file(directory / _NAME, json.dumps(kept), durable=False)


def _kept(node: NodeContext, uid: str) -> Any:
    return json.loads((pod_directory(node, uid) / _NAME).read_bytes())
