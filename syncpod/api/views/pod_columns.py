"""The columns of ``get pods``, from a Pod's JSON; the status is from `syncpod.lifecycle.printed_status`.

This module does not use the models, whose import takes longer than the rest of ``get pods``. A missing field has its
default. Mirrors pkg/printers/internalversion/printers.go, v1.36, printPod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.api.listed import NOTHING_RECORDED, Recorded
from syncpod.api.views.durations import age, read_moment, short_duration
from syncpod.lifecycle.printed_status import part_of, printed_status
from syncpod.node.orphan_mark import STATUS, why_orphaned

HEADER: Final = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
WIDE: Final = ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")

_NONE: Final = "<none>"


@dataclass(frozen=True)
class Summary:
    """A pod in one line."""

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: datetime | None
    """When a container last ended and was restarted; None = not known."""

    def restarts_cell(self, now: datetime, mark: str = "") -> str:
        """Write the restarts as ``3 (10s ago)``, with a mark after the number."""
        if not self.restarts or self.last_restart is None:
            return f"{self.restarts}{mark}"
        return f"{self.restarts}{mark} ({short_duration(now - self.last_restart)} ago)"


def summarize(pod: Mapping[str, Any]) -> Summary:
    """Return the pod in one line."""
    printed = printed_status(pod)
    return Summary(
        ready=printed.ready,
        total=printed.total,
        status=STATUS if why_orphaned(pod) else printed.word,
        restarts=printed.restarts,
        last_restart=_last_end(printed.counted),
    )


def row(pod: Mapping[str, Any], now: datetime, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of a pod's line. A pod without a workflow has the last published state, marked with ``?``."""
    summary, metadata = summarize(pod), part_of(pod, "metadata")
    mark = "?" if summary.status == STATUS else ""
    cells = (
        metadata.get("name", ""),
        f"{summary.ready}/{summary.total}{mark}",
        summary.status,
        summary.restarts_cell(now, mark),
        age(read_moment(metadata.get("creationTimestamp")), now),
    )
    return (*cells, *_wide(pod)) if wide else cells


def uncertain_row(
    pod: Mapping[str, Any], now: datetime, recorded: Recorded = NOTHING_RECORDED, *, wide: bool = False
) -> tuple[str, ...]:
    """Return the cells of a pod whose workflow did not answer: the server's last record, marked with ``?``."""
    metadata = part_of(pod, "metadata")
    status = recorded.status or part_of(pod, "status").get("phase") or "Unknown"
    restarts = "?" if recorded.restarts is None else f"{recorded.restarts}?"
    began = age(read_moment(metadata.get("creationTimestamp")), now)  # when the latest of its workflow's runs began
    lived = age(read_moment(recorded.created), now) if recorded.created else f"{began}?"
    cells = (metadata.get("name", ""), "?", f"{status}?", restarts, lived)
    if not wide:
        return cells
    is_bare = not part_of(pod, "spec").get("containers")
    return (*cells, *(("?", part_of(pod, "spec").get("nodeName") or "?", "?", "?") if is_bare else _wide(pod)))


def _last_end(statuses: Iterable[Mapping[str, Any]]) -> datetime | None:
    ends = [read_moment(part_of(entry, "lastState", "terminated").get("finishedAt")) for entry in statuses]
    return max((end for end in ends if end is not None), default=None)


def _wide(pod: Mapping[str, Any]) -> tuple[str, ...]:
    spec, status = part_of(pod, "spec"), part_of(pod, "status")
    gates = [gate.get("conditionType", "") for gate in spec.get("readinessGates", ())]
    conditions = {entry.get("type", ""): entry.get("status") for entry in status.get("conditions", ())}
    met = sum(conditions.get(gate) == "True" for gate in gates)
    addresses = status.get("podIPs", ())
    return (
        addresses[0].get("ip", "") if addresses else _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{met}/{len(gates)}" if gates else _NONE,
    )
