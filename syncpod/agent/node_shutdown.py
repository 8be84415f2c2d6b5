"""Delays a shutdown of the machine, and meanwhile ends the node's pods in the order of their priorities.

Mirrors pkg/kubelet/nodeshutdown/nodeshutdown_manager.go and its part for Linux, v1.36. The order and the times are
decided in :mod:`syncpod.lifecycle.shutdown_order`. Differences: if the system bus is missing or does not answer, the
connection is retried as long as the agent runs. A static pod's workflow ends, and its pod does not count as failed: the
manifest starts the pod again once the machine is up or the shutdown is called off. Nothing waits until the volumes of
a group's pods are unmounted.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from syncpod.agent.background import cancel_all
from syncpod.agent.logind import Logind, NoLogind, close
from syncpod.agent.pod_signals import PodSignals
from syncpod.agent.published_pods import PublishedPods
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.pod_status import FINISHED, has_running
from syncpod.lifecycle.shutdown_order import (
    MESSAGE,
    REASON,
    REFUSED,
    REFUSED_MESSAGE,
    Periods,
    ShutdownPeriod,
    grace_of,
    in_order,
    total_seconds,
)
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE, DeletePodWorkflow, PodWorkflowResult
from syncpod.messages.signals import Evict
from syncpod.pod import Pod, parse_pod
from syncpod.pod.origin import list_of
from syncpod.temporal.pod_orders import PodOrders
from syncpod.temporal.workflow_watch import Published

log = logging.getLogger(__name__)

STATE_FILE: Final = "graceful_node_shutdown_state"
"""The file in the state directory with two times of the last shutdown: when pods began to end, and when all had
ended."""
_RETRY_SECONDS: Final = 1.0
"""Seconds between two tries to reach the bus (dbusReconnectPeriod), or the Temporal server."""


class Orders(Protocol):
    """Sends orders to pods' workflows. Implemented by `ShutdownOrders`."""

    async def evict(self, ref: PodRef, order: Evict) -> bool:
        """End a pod as failed; return whether it has a workflow. Raises RPCError."""

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """End a pod so that it may be started again. Raises RPCError, ApplicationError."""


@dataclass(frozen=True)
class ShutdownOrders:
    """Sends the orders with a node's signals and pod orders."""

    signals: PodSignals
    orders: PodOrders

    async def evict(self, ref: PodRef, order: Evict) -> bool:
        """End a pod as failed; return whether it has a workflow. Raises RPCError."""
        return await self.signals.evict(ref, order)

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """End a pod so that it may be started again. Raises RPCError, ApplicationError."""
        return await self.orders.end(request)


class NodeShutdown:
    """The shutdowns of one node's machine. All methods belong to one event loop."""

    def __init__(
        self,
        periods: Periods,
        state_dir: Path,
        published: PublishedPods,
        orders: Orders,
        connect: Callable[[], AbstractAsyncContextManager[Logind]],
        *,
        tell_cluster: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Delay shutdowns by up to the sum of `periods`, which is not empty. `connect` connects to logind.

        `tell_cluster` is called when a shutdown begins (True) or is called off (False).
        """
        self._periods, self._state = periods, state_dir / STATE_FILE
        self._published, self._orders, self._connect = published, orders, connect
        self._tell_cluster = tell_cluster
        self._news = asyncio.Event()
        self._lock: int | None = None
        self._ending: asyncio.Task[None] | None = None
        self._warned = ""
        self.has_tried = asyncio.Event()
        """Set after the first try to delay shutdowns, whether it succeeded or not."""
        self.is_under_way = False
        """Whether the machine is shutting down: then the node is not ready, and admits no pod."""

    def refusal(self) -> tuple[str, str] | None:
        """Return reason and message of the refusal of each new pod; None if no shutdown is under way."""
        return (REFUSED, REFUSED_MESSAGE) if self.is_under_way else None

    async def run(self) -> None:
        """Follow the machine's shutdowns until cancelled."""
        with self._published.watched(lambda _: self._news.set(), lambda _: self._news.set()):
            try:
                while True:
                    await self._follow_once()
                    await asyncio.sleep(_RETRY_SECONDS)
            finally:
                await self._stop_ending()
                self._release()

    async def _follow_once(self) -> None:
        """Follow shutdowns until the connection to the bus ends."""
        try:
            async with self._connect() as logind:
                await logind.require_delay(total_seconds(self._periods))
                if (begun := await logind.is_preparing()) != self.is_under_way:  # the signal was missed
                    await self._changed(logind, begins=begun)
                elif not begun:
                    await self._take_lock(logind)
                log.info("the machine's shutdown waits up to %d s for pods", total_seconds(self._periods))
                self._warned = ""
                self.has_tried.set()
                while (begins := await logind.shutdowns.get()) is not None:
                    await self._changed(logind, begins=begins)
            self._warn("the system bus has closed the connection")
        except NoLogind as error:
            self._warn(str(error))
        finally:
            self.has_tried.set()

    def _warn(self, why: str) -> None:
        if why != self._warned:
            log.warning("the machine's shutdown does not wait for pods: %s", why)
        self._warned = why

    async def _take_lock(self, logind: Logind) -> None:
        """Take a new inhibitor lock, then release the previous one. Raises NoLogind."""
        lock = await logind.inhibit()
        self._release()
        self._lock = lock

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        close(lock)

    async def _changed(self, logind: Logind, *, begins: bool) -> None:
        log.warning("the machine shuts down" if begins else "the machine's shutdown is called off")
        self.is_under_way = begins
        self._tell_cluster(begins)
        if begins:
            if self._ending is None or self._ending.done():
                self._ending = asyncio.create_task(self._end_all(), name="shutdown")
        else:
            await self._stop_ending()
            await self._take_lock(logind)

    async def _stop_ending(self) -> None:
        if self._ending is not None:
            await cancel_all((self._ending,))
            self._ending = None

    # --- ending pods --------------------------------------------------------------------------------------------------

    async def _end_all(self) -> None:
        """End all pods, group by group, then release the lock: the machine shuts down (processShutdownEvent)."""
        began = datetime.now(UTC)
        try:
            await self._note({"startTime": began.isoformat()})
            informed: set[str] = set()
            # This repeats while there are further pods: the states of a new worker's pods arrive one by one.
            while active := await asyncio.to_thread(_active, self._published.pods().values(), frozenset(informed)):
                by_uid = {pod.metadata.uid: source for pod, source in active}
                informed |= by_uid.keys()
                for period, pods in in_order(self._periods, [pod for pod, _ in active]):
                    await self._end_group(period, pods, by_uid)
            await self._note({"startTime": began.isoformat(), "endTime": datetime.now(UTC).isoformat()})
        except Exception:
            log.exception("pods are not ended before the machine shuts down, because of a defect")
        finally:
            self._release()

    async def _note(self, times: Mapping[str, str]) -> None:
        try:
            await asyncio.to_thread(replace_file, self._state, json.dumps(times), durable=True)
        except OSError as error:
            log.warning("the time of the shutdown cannot be noted: %s", where_and_why(error))

    async def _end_group(self, period: ShutdownPeriod, pods: list[Pod], sources: Mapping[str, str]) -> None:
        """End the pods of one group of priorities, and wait for their end, at most for the group's time."""
        try:
            async with asyncio.timeout(period.seconds):
                await asyncio.gather(*(self._end(period, pod, sources[pod.metadata.uid]) for pod in pods))
        except TimeoutError:
            left = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods if not self._has_ended(pod)]
            log.warning("%d s are over, and these pods have not ended: %s", period.seconds, ", ".join(left))

    async def _end(self, period: ShutdownPeriod, pod: Pod, source: str) -> None:
        """End a pod, and wait until it has ended or has no workflow."""
        meta = pod.metadata
        while True:
            try:
                if not await self._send_end(period, pod, source):
                    return
                break
            except (RPCError, ApplicationError) as error:
                log.warning("the shutdown cannot be sent to pod %s/%s: %s", meta.namespace, meta.name, error.message)
                await asyncio.sleep(_RETRY_SECONDS)
        while not self._has_ended(pod):
            self._news.clear()
            await self._news.wait()

    async def _send_end(self, period: ShutdownPeriod, pod: Pod, source: str) -> bool:
        """Send a pod's workflow the order to end; return whether it is open. Raises RPCError, ApplicationError."""
        meta, grace = pod.metadata, grace_of(period, pod)
        log.info("pod %s/%s ends within %d s", meta.namespace, meta.name, grace)
        if source == FILE_SOURCE:
            request = DeletePodWorkflow(
                namespace=meta.namespace, name=meta.name, uids=(meta.uid,), grace_period_seconds=grace
            )
            return not (await self._orders.end(request)).absent
        ref = PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        order = Evict(uid=meta.uid, reason=REASON, message=MESSAGE, grace_period_seconds=grace, disruption=True)
        return await self._orders.evict(ref, order)

    def _has_ended(self, pod: Pod) -> bool:
        """Say whether a pod has finished and none of its containers runs, by its workflow's published state."""
        newest = self._published.pod(pod.metadata.namespace, pod.metadata.name)
        if newest is None or newest.metadata.uid != pod.metadata.uid:
            return True
        status = newest.pod()["status"]
        return status.get("phase") in FINISHED and not has_running(status)


def _active(states: Iterable[Published], informed: Collection[str]) -> list[tuple[Pod, str]]:
    """Return the unfinished pods whose UIDs are not in `informed`, each with the source that lists it."""
    pods = [(state, state.pod()) for state in states if state.uid not in informed]
    return [(_read(pod), list_of(state.metadata)) for state, pod in pods if pod["status"].get("phase") not in FINISHED]


def _read(pod: Mapping[str, Any]) -> Pod:
    return parse_pod({**pod, "status": {}}, strict=False)
