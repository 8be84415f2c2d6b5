"""Decides whether a node's worker is alive, by its signs of life: a late answer may come from a busy worker.

On the worker's own machine, the sign is its process. Elsewhere, the signs are the heartbeats and the polls that the
server has received from it. The SDK sends both even while the worker is busy. Mirrors pkg/controller/nodelifecycle,
v1.36: a node counts as dead after 40 s of silence.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import BadInput
from syncpod.cli.fetched import FetchedPod, away, busy
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.kernel.procfs import identify
from syncpod.messages.identity import node_task_queue
from syncpod.settings.worker_record import WorkerRecord, read_worker_record, serving, serving_at

GRACE: Final = timedelta(seconds=40)
"""The node lifecycle controller's nodeMonitorGracePeriod. A worker sends a heartbeat every 10 s."""
POLLED_WITHIN: Final = timedelta(seconds=70)
"""A poll lasts a minute. It shows that a worker is alive before its first heartbeat, and on servers before 1.30, which
keep no heartbeats."""
KEPT_SECONDS: Final = 2.0
"""How long the server's records of a worker are cached. A worker's death shows in them much later than this."""
_RPC: Final = timedelta(seconds=5)


@dataclass(frozen=True)
class Sign:
    """The last sign of life of one worker."""

    identity: str
    at: datetime
    beats: bool
    """Whether the server keeps the worker's heartbeats. If not, `at` is the time of a poll, which may last a minute."""


@dataclass(frozen=True)
class Liveness:
    """Whether a node's worker is alive."""

    lives: bool
    heard: datetime | None
    """The time of its last sign of life; None = it has given none, or has shut down."""


def judge(signs: Iterable[Sign], now: datetime, *, here: bool = False, dead: str = "") -> Liveness:
    """Return whether one of a node's workers is alive.

    `here`: its process is known to run on this machine. `dead` is the identity of a worker whose process is known to
    have ended. Its signs are ignored, and so are those of earlier workers of the same node and machine.
    """
    if here:
        return Liveness(True, now)
    heard = [sign for sign in signs if not _is_or_precedes(sign.identity, dead)]
    lives = any(now - sign.at < (GRACE if sign.beats else POLLED_WITHIN) for sign in heard)
    return Liveness(lives, max((sign.at for sign in heard), default=None))


def _is_or_precedes(identity: str, dead: str) -> bool:
    """Return whether an identity is that of `dead`, or of an earlier worker: `node/machine/3` precedes `…/4`."""
    of, _, number = identity.rpartition("/")
    of_dead, _, last = dead.rpartition("/")
    both_numbers = number.isdecimal() and last.isdecimal()
    return identity == dead or (of == of_dead and both_numbers and int(number) < int(last))


async def lives_of(client: Client, nodes: Iterable[str]) -> Mapping[str, Liveness]:
    """Return for each node whether its worker is alive. Raises RPCError."""
    wanted, now = sorted(set(nodes)), datetime.now(UTC)
    if not wanted:
        return {}
    record = read_worker_record(settings().state_dir)
    found = {}
    for node in wanted:
        at_home = record is not None and _is_of(record, client, node)
        here = at_home and serving(settings().state_dir) is not None
        signs: Iterable[Sign] = ()
        if not here:
            signs = await _signs_on(client, node_task_queue(node))
        dead = record.identity if record is not None and at_home and _has_ended(record) else ""
        found[node] = judge(signs, now, here=here, dead=dead)
    return found


async def lives(client: Client, node: str) -> bool:
    """Return whether the worker of one node is alive. Raises RPCError."""
    return (await lives_of(client, (node,)))[node].lives


def own_worker(client: Client) -> WorkerRecord | None:
    """Return this machine's live worker if it serves the client's server. Raises BadInput for invalid settings."""
    return serving_at(settings().state_dir, client.service_client.config.target_host, client.namespace)


async def unserved_queue(client: Client) -> str:
    """Return the task queue of this machine's node if its worker has ended, and no other worker polls the queue.

    A query to a workflow of that queue would wait in vain. Returns "" if a worker may answer. While the worker's
    process runs, no request is sent. Raises RPCError.
    """
    try:
        state_dir = settings().state_dir
        record, kept = read_worker_record(state_dir), kept_settings(state_dir)
    except BadInput:  # invalid settings here do not concern pods elsewhere
        return ""
    node = kept.node if record is None else record.node
    if not node or (record is not None and not _has_ended(record)):
        return ""
    ours = (kept.address, kept.namespace) if record is None else (record.address, record.namespace)
    if ours != (client.service_client.config.target_host, client.namespace) or await lives(client, node):
        return ""
    return node_task_queue(node)


async def liveness_on(client: Client, queue: str) -> Liveness:
    """Return whether a worker of a task queue is alive, judged by the server's records alone. Raises RPCError."""
    return judge(await _signs_on(client, queue), datetime.now(UTC))


async def absence(client: Client, nodes: Iterable[str]) -> str:
    """Return a clause that names which of these silent nodes are away, and which are busy. Raises RPCError."""
    found = await lives_of(client, nodes)
    dead, live = (sorted(node for node, life in found.items() if life.lives is lives) for lives in (False, True))
    said = [sentence(", ".join(names)) for sentence, names in ((away, dead), (busy, live)) if names]
    return ", ".join(said)


async def judged(client: Client, fetched_pods: Sequence[FetchedPod]) -> list[FetchedPod]:
    """Return the pods. In those that did not answer, `lives` tells whether their worker is alive. Raises RPCError."""
    silent = {fetched.pod.spec.node_name for fetched in fetched_pods if not fetched.current}
    found = await lives_of(client, silent)
    return [
        fetched if fetched.current else replace(fetched, lives=found[fetched.pod.spec.node_name].lives)
        for fetched in fetched_pods
    ]


def _has_ended(record: WorkerRecord) -> bool:
    """Return whether no process, or only a zombie, has the id of the recorded worker.

    A process with that id may be a worker that was not started by `up`: then the server's records decide.
    """
    return identify(record.pid) is None


def _is_of(record: WorkerRecord, client: Client, node: str) -> bool:
    """Return whether a record on this machine describes the worker of this node, namespace and server."""
    address = client.service_client.config.target_host
    return (record.node, record.namespace, record.address) == (node, client.namespace, address)


# --- the signs of life that the server has ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Beat:
    at: datetime
    runs: bool
    """False once the worker has shut down."""


@dataclass
class _Records:
    """The server's records, cached for KEPT_SECONDS: a command that waits, or applies many pods, needs them often."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    beats: tuple[float, Mapping[str, Mapping[str, _Beat]]] = (-math.inf, {})
    """When the heartbeats of all workers were read, by `time.monotonic`; and the heartbeats."""
    polls: dict[str, tuple[float, Mapping[str, datetime]]] = field(default_factory=dict)
    """For each task queue: when its polls were read, by `time.monotonic`; and the polls."""


_records: Final[WeakKeyDictionary[Client, _Records]] = WeakKeyDictionary()


async def _signs_on(client: Client, queue: str) -> list[Sign]:
    """Return the newest sign of each worker of a task queue, at most KEPT_SECONDS old. Raises RPCError."""
    kept = _records.setdefault(client, _Records())
    async with kept.asking:
        oldest = time.monotonic() - KEPT_SECONDS
        if kept.beats[0] < oldest:
            kept.beats = time.monotonic(), await _beats(client)
        if queue not in kept.polls or kept.polls[queue][0] < oldest:
            kept.polls[queue] = time.monotonic(), await _polls(client, queue)
    return _signs(kept.beats[1].get(queue, {}), kept.polls[queue][1])


def _signs(beats: Mapping[str, _Beat], polls: Mapping[str, datetime]) -> list[Sign]:
    """Return the newest sign of each worker of a task queue, without the workers that have shut down."""
    signs = [
        Sign(identity, max(beat.at, polls.get(identity, _NEVER)), beats=True)
        for identity, beat in beats.items()
        if beat.runs
    ]
    return signs + [Sign(identity, at, beats=False) for identity, at in polls.items() if identity not in beats]


async def _beats(client: Client) -> Mapping[str, Mapping[str, _Beat]]:
    """Return the last heartbeat of each worker, by task queue and identity. Empty if the server keeps no heartbeats."""
    beats: dict[str, dict[str, _Beat]] = {}
    token = b""
    while True:
        request = ListWorkersRequest(namespace=client.namespace, next_page_token=token, page_size=100)
        try:
            listed = await client.workflow_service.list_workers(request, retry=True, timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.UNIMPLEMENTED:
                return {}
            raise
        for info in listed.workers_info:
            said = info.worker_heartbeat
            beat = _Beat(said.heartbeat_time.ToDatetime(UTC), said.status == WorkerStatus.WORKER_STATUS_RUNNING)
            of_queue = beats.setdefault(said.task_queue, {})
            if (known := of_queue.get(said.worker_identity)) is None or known.at < beat.at:
                of_queue[said.worker_identity] = beat
        token = listed.next_page_token
        if not token:
            return beats


_NEVER: Final = datetime.fromtimestamp(0, UTC)


async def _polls(client: Client, queue: str) -> dict[str, datetime]:
    """Return when each worker last polled a task queue, by identity."""
    request = DescribeTaskQueueRequest(namespace=client.namespace)
    request.task_queue.name = queue
    described = await client.workflow_service.describe_task_queue(request, retry=True, timeout=_RPC)
    return {poller.identity: poller.last_access_time.ToDatetime(UTC) for poller in described.pollers}
