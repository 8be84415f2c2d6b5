"""Writes the node report for ``syncpod node``: conditions, orphans, remains that cannot be removed, counts of removals.

Conditions, reasons and messages are those of the kubelet's Node object (nodestatus/setters.go, v1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.lifecycle.eviction import NodeCondition
from syncpod.node.report import Chore, NodeReport, Orphan, Remains, write_node_report
from syncpod.node.report import NodeCondition as Said

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
_CONDITIONS: Final[dict[NodeCondition, tuple[tuple[str, str], tuple[str, str]]]] = {
    "MemoryPressure": (
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    "DiskPressure": (
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    "PIDPressure": (
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
}

_READY: Final = "kubelet is posting ready status"


@dataclass(frozen=True)
class NodeReports:
    """The node's report, for the agent's other parts."""

    now: Callable[[], NodeReport]
    """Returns the current report, even while the disk is full and the report cannot be written."""
    refresh: Callable[[], Awaitable[None]]
    """Looks for orphans, and writes the report."""


Counted = tuple[str, float, Callable[[], int], str]
"""A cleanup: its name, its period in seconds, a function that returns how many objects it has removed, and a word for
them."""


class NodeReporter:
    """Writes one node's report whenever it has changed. All methods belong to one event loop."""

    def __init__(
        self,
        state_dir: Path,
        chores: Iterable[Counted],
        *,
        orphans: Callable[[], tuple[Orphan, ...]],
        remains: Callable[[], tuple[Remains, ...]],
        obstacles: Callable[[], tuple[str, ...]],
    ) -> None:
        """Write into the node's state directory.

        `orphans` returns the pods, containers and sandboxes that have no workflow, `remains` returns the remains of
        gone pods that cannot be removed now, and `obstacles` the reasons why the node cannot run pods.
        """
        now = datetime.now(UTC)
        self._state_dir = state_dir
        self._chores = tuple(chores)
        self._since: dict[NodeCondition, datetime] = dict.fromkeys(_CONDITIONS, now)
        self._under: frozenset[NodeCondition] = frozenset()
        self._orphans, self._remains, self._obstacles = orphans, remains, obstacles
        self._ready = Said(type="Ready", status="True", since=now, reason="KubeletReady", message=_READY)
        self._written: NodeReport | None = None

    def set_conditions(self, conditions: tuple[NodeCondition, ...]) -> None:
        """Set the pressure conditions that are True now."""
        for changed in self._under ^ set(conditions):
            self._since[changed] = datetime.now(UTC)
        self._under = frozenset(conditions)

    async def run(self) -> None:
        """Write the report when it has changed, until cancelled."""
        while True:
            await self.write()
            await asyncio.sleep(LOOK_SECONDS)

    async def write(self) -> None:
        """Write the report if it has changed."""
        report = self.report()
        if report == self._written:
            return
        stamped = report.model_copy(update={"at": datetime.now(UTC)})
        try:
            await asyncio.to_thread(write_node_report, self._state_dir, stamped)
            self._written = report
        except OSError as error:
            log.warning("the node's report cannot be written: %s", error)

    def report(self) -> NodeReport:
        """Return the report without its time."""
        return NodeReport(
            conditions=tuple(self._condition(name) for name in _CONDITIONS),
            ready=self._readiness(),
            orphans=self._orphans(),
            remains=self._remains(),
            chores=tuple(
                Chore(name=name, every_seconds=every, done=done(), what=what)
                for name, every, done, what in self._chores
            ),
        )

    def _readiness(self) -> Said:
        why = "; ".join(self._obstacles())
        status, reason = ("False", "KubeletNotReady") if why else ("True", "KubeletReady")
        since = self._ready.since if status == self._ready.status else datetime.now(UTC)
        said = {"status": status, "since": since, "reason": reason, "message": why or _READY}
        self._ready = self._ready.model_copy(update=said)
        return self._ready

    def _condition(self, name: NodeCondition) -> Said:
        holds = name in self._under
        reason, message = _CONDITIONS[name][holds]
        return Said(
            type=name, status="True" if holds else "False", since=self._since[name], reason=reason, message=message
        )
