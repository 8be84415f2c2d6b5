"""Stores probe results in the pod's directory, so that a restart of the worker loses none.

Results count in the pod's workflow. This copy only lets the next prober continue where the last one stopped: a
container that has started is not probed for startup again, and one that was ready stays ready until a probe fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from syncpod.kernel.atomic_file import replace_file
from syncpod.lifecycle.probing import PROBE_TYPES, ProbeResult, ProbeType
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

_NAME = "probes.json"
_RESULTS = ("success", "failure", "unknown")

Results = Mapping[tuple[str, ProbeType], ProbeResult]
"""Results by container id and type of probe."""


def read_results(node: NodeContext, uid: str) -> dict[tuple[str, ProbeType], ProbeResult]:
    """Return the stored results, none if they cannot be read. Blocks. Raises UnsafeName."""
    try:
        kept = json.loads((pod_directory(node, uid) / _NAME).read_bytes())
        return {
            (container_id, type_): results[type_]
            for container_id, results in kept.items()
            for type_ in PROBE_TYPES
            if results.get(type_) in _RESULTS
        }
    except (OSError, ValueError, AttributeError):
        return {}


def write_results(node: NodeContext, uid: str, results: Results) -> None:
    """Replace the stored results atomically; do nothing if the pod has no directory. Blocks. Raises OSError."""
    directory = pod_directory(node, uid)
    if not directory.is_dir():
        return
    kept: dict[str, dict[str, str]] = {}
    for (container_id, type_), result in results.items():
        kept.setdefault(container_id, {})[type_] = result
    replace_file(directory / _NAME, json.dumps(kept), durable=False)
