"""Which events follow from a change of a node's conditions. Values in, values out.

Mirrors pkg/kubelet/nodestatus/setters.go, v1.36, ReadyCondition, MemoryPressureCondition and its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REASONS: Final = {
    "MemoryPressure": ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    "DiskPressure": ("NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    "PIDPressure": ("NodeHasInsufficientPID", "NodeHasSufficientPID"),
}
"""By condition: the reasons of the events that it has become true, and that it no longer is."""


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the reasons of the events that follow when a node's conditions, type to status, become these.

    A condition of pressure that was not known before tells how it is. Readiness tells only a change.
    """
    found = []
    for name, (under, enough) in _REASONS.items():
        if name in now and (now[name] == "True") != (before[name] == "True" if name in before else None):
            found.append(under if now[name] == "True" else enough)
    ready, was = now.get("Ready"), before.get("Ready")
    if ready is not None and was is not None and ready != was:
        found.append("NodeReady" if ready == "True" else "NodeNotReady")
    return found
