"""Makes sure that two workers never serve one node name. A lock works on one machine only; the server has all pollers.

A worker on another machine, or with another state directory, polls the same task queue with another identity. On a copy
of the whole machine, the worker's identity differs only in the number of the life; the host name may differ too. Clocks
of two machines are not compared. A rival is alive if its signs of life advance: its heartbeats, or its polls if the
server keeps no heartbeats (server 1.30 introduced them).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    ListWorkersRequest,
    ListWorkersResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.takeover.lock import NodeLife, NotThisNode
from syncpod.temporal.sdk_runtimes import HEARTBEAT

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""Seconds between two checks for rivals while serving."""
_BEAT_PATIENCE = 1.5 * HEARTBEAT
_POLL_PATIENCE = timedelta(seconds=65)
"""How long a rival's next poll may take: a long poll is answered and renewed within a minute."""
_LONG_DEAD = timedelta(minutes=10)
"""A worker whose last sign of life is older than this, by the local clock, counts as dead. If the clocks differ by
more, `outranked` finds the rival later."""
_LOOK = timedelta(milliseconds=500)
_RPC = timedelta(seconds=5)


@dataclass(frozen=True)
class RivalSign:
    """The last sign of life of one worker of the queue."""

    identity: str
    started: float
    """When the worker started: seconds since 1970 by its own clock; 0 = unknown."""
    seen_at: float
    """When its last heartbeat or poll was: seconds since 1970."""
    patience: timedelta
    """How long the next sign may take if the worker lives."""
    host: str = ""
    """The host name of its machine; "" = unknown."""
    process: str = ""
    """The worker's process id; "" = unknown."""

    @property
    def where(self) -> str:
        """The worker's process and host, or its host alone, for a message. "" if the host is unknown."""
        return f"process {self.process} on {self.host}" if self.host and self.process else self.host


async def refuse_rivals(client: Client, task_queue: str, life: NodeLife) -> None:
    """Raise NotThisNode if another worker serves the node; called before this worker polls.

    Returns at once if there is no trace of another worker. Otherwise it waits until that worker's next sign of life is
    overdue.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    traces = {
        sign.identity: sign
        for sign in await signs(client, task_queue)
        if is_other(sign, life) and time.time() - sign.seen_at < _LONG_DEAD.total_seconds()
    }
    if traces:
        log.warning(
            "node %s was served by %s: checking whether that worker is still alive", life.node, ", ".join(traces)
        )
    while any(clock() - begun < sign.patience.total_seconds() for sign in traces.values()):
        await asyncio.sleep(_LOOK.total_seconds())
        for sign in await signs(client, task_queue):
            if sign.identity in traces and sign.seen_at > traces[sign.identity].seen_at:
                raise _refusal(life, sign)


async def stop_if_outranked(client: Client, task_queue: str, life: NodeLife) -> None:
    """Check for rivals until cancelled. Raises NotThisNode when this worker must stop."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            refusal = await outranked(client, task_queue, life)
        except RPCError as error:
            log.debug("the workers of the task queue cannot be listed: %s", error)
        else:
            if refusal is not None:
                raise refusal


async def outranked(client: Client, task_queue: str, life: NodeLife) -> NotThisNode | None:
    """Return why this worker must stop: another worker serves the node too, and started earlier. None if it may go on.

    This finds two workers that started at the same moment, and a copy of this machine. Both workers read the same two
    records from the server, so exactly one of them stops. An earlier worker of this machine gives no more signs, since
    its lock was free. Called regularly while serving; slow only if there is a trace of another worker.
    """
    found = {sign.identity: sign for sign in await signs(client, task_queue)}
    own = found.get(life.identity)
    for sign in found.values():
        if own is None or not own.started or not sign.started:
            continue  # the server has no heartbeats, or not yet
        if (sign.started, sign.identity) < (own.started, own.identity):
            await asyncio.sleep(sign.patience.total_seconds())
            later = {sign.identity: sign for sign in await signs(client, task_queue)}.get(sign.identity)
            if later is not None and later.seen_at > sign.seen_at:
                return _refusal(life, later)
    return None


def is_other(sign: RivalSign, life: NodeLife) -> bool:
    """Say whether the sign is of a worker on another machine, or with another state directory.

    A copy of this machine counts as another machine only if its host name differs: otherwise the sign may be that of
    this machine's previous worker.
    """
    return not _is_of_same_directory(sign, life) or sign.host not in ("", socket.gethostname())


def _is_of_same_directory(sign: RivalSign, life: NodeLife) -> bool:
    """Say whether the sign is of a worker with this machine's id and state directory."""
    return sign.identity.startswith(f"{life.node}/{life.machine}/")


async def signs(client: Client, task_queue: str) -> tuple[RivalSign, ...]:
    """Return the last sign of each worker of the queue that has not shut down. Raises RPCError."""
    service, namespace = client.workflow_service, client.namespace
    queue = DescribeTaskQueueRequest(
        namespace=namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    polled = await service.describe_task_queue(queue, retry=True, timeout=_RPC)
    try:
        workers = ListWorkersRequest(namespace=namespace, query=f"TaskQueue = '{task_queue}'")
        listed = await service.list_workers(workers, retry=True, timeout=_RPC)
    except RPCError as error:
        if error.status != RPCStatusCode.UNIMPLEMENTED:
            raise
        listed = ListWorkersResponse()
    return _read(polled, listed)


def _read(polled: DescribeTaskQueueResponse, listed: ListWorkersResponse) -> tuple[RivalSign, ...]:
    found: dict[str, RivalSign] = {}
    heartbeats = [info.worker_heartbeat for info in listed.workers_info]
    for beat in heartbeats:
        if beat.status == WorkerStatus.WORKER_STATUS_RUNNING:
            started, seen_at = _seconds(beat.start_time), _seconds(beat.heartbeat_time)
            host = beat.host_info
            found[beat.worker_identity] = RivalSign(
                beat.worker_identity, started, seen_at, _BEAT_PATIENCE, host.host_name, host.process_id
            )
    known = {beat.worker_identity for beat in heartbeats}
    for poller in polled.pollers:
        if poller.identity not in known:
            found[poller.identity] = RivalSign(poller.identity, 0, _seconds(poller.last_access_time), _POLL_PATIENCE)
    return tuple(found[identity] for identity in sorted(found))


class _Timestamp(Protocol):
    seconds: int
    nanos: int


def _seconds(moment: _Timestamp) -> float:
    return moment.seconds + moment.nanos / 1e9


def _refusal(life: NodeLife, sign: RivalSign) -> NotThisNode:
    named = f"{sign.identity} ({sign.where})" if sign.where else sign.identity
    if _is_of_same_directory(sign, life):
        return NotThisNode(
            f"node {life.node} is served by another worker, {named}, with the machine id and the state directory of "
            f"this one on {socket.gethostname()}: one of the two machines is a copy. Give the copy an /etc/machine-id, "
            "a state directory and a name (--node) of its own"
        )
    return NotThisNode(
        f"node {life.node} is served by another worker, {named}: stop it, or give this one another name (--node)"
    )
