"""Reports the node's status to its workflow, whenever it has changed.

Mirrors nodestatus/setters.go, v1.36: conditions, addresses, capacity, node info. Difference: the kubelet writes its
status every five minutes and a lease every ten seconds, so that a silent node is noticed. Here the worker's own
heartbeat to the server shows that it lives, and the status is sent only when it has changed. If only messages differ,
it is sent at most every five minutes, since a runtime may word each refusal differently.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from temporalio.service import RPCError

from syncpod.agent.takeover.lock import NodeLife
from syncpod.cri.port import RuntimeVersion
from syncpod.kernel.machine import architecture
from syncpod.messages.node import (
    OUTAGES_REPORTED,
    NodeAddress,
    NodeCondition,
    NodeInfo,
    NodeStatus,
    NodeView,
    Outage,
)
from syncpod.node.report import NodeReport
from syncpod.pod import parse_quantity, quantity_text
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Seconds between two checks whether the status has changed."""
REWORDED_SECONDS: Final = 300.0
"""Seconds between two reports that differ only in messages: nodeStatusReportFrequency."""
_READY: Final = NodeCondition(
    type="Ready", status="True", reason="KubeletReady", message="kubelet is posting ready status"
)


class NodeStatusReporter:
    """Reports one node's status. All methods belong to one event loop."""

    def __init__(
        self,
        context: NodeContext,
        life: NodeLife,
        info: Callable[[], NodeInfo],
        tell: Callable[[NodeStatus], Awaitable[None]],
        *,
        report: Callable[[], NodeReport],
        obstacles: Callable[[], tuple[str, ...]],
        sources: Mapping[str, Callable[[], bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Send with `tell`, which raises RPCError.

        `info` returns the machine's kernel, OS and runtime, whose version may change. `report` returns the report of
        the node's housekeeping, and `obstacles` the reasons why the node cannot run pods. `sources` has, by name of
        each configured source of pods, a function that returns whether this worker has reported the source's pods.
        """
        self._context = context
        self._life = life
        self._info = info
        self._tell = tell
        self._report, self._obstacles = report, obstacles
        self._sources = sources
        self._clock = clock
        self._outages: deque[Outage] = deque(maxlen=OUTAGES_REPORTED)
        self._reported: NodeStatus | None = None
        self._reported_at = 0.0
        self._ready = _READY.model_copy(update={"last_transition_time": datetime.now(UTC)})

    def outage(self, begun: datetime, ended: datetime | None) -> None:
        """Take an outage of the server when it begins, and when it ends: then the node's workflow receives it."""
        if ended is not None:
            self._outages.append(Outage(begun=begun, ended=ended))

    async def run(self) -> None:
        """Send the status when it has changed, until cancelled."""
        while True:
            try:
                await self.round()
            except RPCError as error:
                log.warning("the node's status cannot be sent to the node's workflow: %s", error.message)
            await asyncio.sleep(LOOK_SECONDS)

    def forget(self) -> None:
        """Send the status again at the next check, since a new workflow has not received it."""
        self._reported = None

    def is_known(self, view: NodeView) -> bool:
        """Say whether the workflow still has the last status sent: another client may have sent a different one."""
        reported = self._reported
        return reported is None or _essence(reported) == _essence(view)

    async def round(self) -> bool:
        """Send the status if it has changed; return whether it was sent. Raises RPCError."""
        status = await self.current()
        if status == self._reported or self._was_just_reported(status):
            return False
        await self._tell(status)
        self._reported, self._reported_at = status, self._clock()
        return True

    async def current(self) -> NodeStatus:
        """Return the status as it is now."""
        self._update_ready()
        allocatable, whole = self._context.capacity, self._context.capacity_of_machine
        addresses = [NodeAddress(type="InternalIP", address=each) for each in self._context.host.addresses]
        return NodeStatus(
            boot=self._life.boot,
            identity=self._life.identity,
            conditions=(*pressures(self._report()), self._ready),
            labels=dict(self._context.labels),
            capacity=quantities(allocatable if whole is None else whole),
            allocatable=quantities(allocatable),
            addresses=(*addresses, NodeAddress(type="Hostname", address=self._context.name)),
            node_info=self._info(),
            sources=tuple(self._sources),
            has_cluster_dns=bool(self._context.cluster_dns.servers),
            sources_ready=all(has_reported() for has_reported in self._sources.values()),
            outages=tuple(self._outages),
        )

    def _was_just_reported(self, status: NodeStatus) -> bool:
        """Say whether the last status sent was recent, and differs at most in wording."""
        reported = self._reported
        recent = self._clock() - self._reported_at < REWORDED_SECONDS
        return recent and reported is not None and _without_words(reported) == _without_words(status)

    def _update_ready(self) -> None:
        obstacles = "; ".join(self._obstacles())
        update: dict[str, object] = _READY.model_dump(exclude={"last_transition_time"})
        if obstacles:
            update |= {"status": "False", "reason": "KubeletNotReady", "message": obstacles}
        if update["status"] != self._ready.status:
            update["last_transition_time"] = datetime.now(UTC)
        self._ready = self._ready.model_copy(update=update)


def _essence(said: NodeStatus | NodeView) -> tuple[object, ...]:
    """Return the fields by which `is_known` compares a status with the workflow's state: no times or messages."""
    conditions = {each.type: each.status for each in said.conditions}
    return said.boot, said.identity, conditions, said.labels, said.capacity, said.allocatable, said.addresses


def _without_words(status: NodeStatus) -> NodeStatus:
    """Return a status without the messages of its conditions."""
    conditions = tuple(each.model_copy(update={"message": ""}) for each in status.conditions)
    return status.model_copy(update={"conditions": conditions})


def pressures(report: NodeReport) -> tuple[NodeCondition, ...]:
    """Return the node's pressure conditions from its housekeeping report."""
    return tuple(
        NodeCondition(
            type=each.type,
            status=_word(each.status),
            reason=each.reason,
            message=each.message,
            last_transition_time=each.since,
        )
        for each in report.conditions
    )


def _word(status: str) -> Literal["True", "False", "Unknown"]:
    return "True" if status == "True" else "False" if status == "False" else "Unknown"


def quantities(capacity: Mapping[str, int]) -> dict[str, str]:
    """Format a capacity as a v1 Node does: CPU in cores, memory and storage in Ki, the rest as plain numbers."""
    found = {}
    for name, amount in sorted(capacity.items()):
        if name == "cpu":
            found[name] = quantity_text(parse_quantity(f"{amount}m"), like="1")
        elif name == "pods":
            found[name] = str(amount)
        else:
            found[name] = f"{amount // 1024}Ki"
    return found


def node_info(version: RuntimeVersion, root: Path = Path("/")) -> NodeInfo:
    """Return the machine's kernel, OS and runtime. Blocks."""
    system = os.uname()
    return NodeInfo(
        kubelet_version=engine_version(),
        container_runtime_version=f"{version.name}://{version.version.removeprefix('v')}",
        kernel_version=system.release,
        os_image=_os_image(root / "etc/os-release"),
        operating_system=system.sysname.lower(),
        architecture=architecture(),
    )


def engine_version() -> str:
    """Return this program's version, such as ``v0.1.0``; ``v0.0.0`` for a checkout that is not installed."""
    try:
        return f"v{metadata.version('syncpod')}"
    except metadata.PackageNotFoundError:
        return "v0.0.0"


def _os_image(release: Path) -> str:
    try:
        lines = release.read_text(errors="replace").splitlines()
    except OSError:
        return "Unknown"
    said = (line.removeprefix("PRETTY_NAME=").strip("'\"") for line in lines if line.startswith("PRETTY_NAME="))
    return next(said, "Unknown")
