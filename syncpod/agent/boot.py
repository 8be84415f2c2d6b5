"""Boots a node: delays shutdowns of the machine, lists the runtime, then takes over the previous worker's pods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial

from syncpod.agent.background import LooseTasks, keep_running
from syncpod.agent.node_shutdown import NodeShutdown
from syncpod.agent.pleg import Pleg
from syncpod.agent.probing.prober import Prober
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.agent.takeover.pods import OpenPod, Takeover
from syncpod.cri.errors import CriError
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.node.reader import PodReader, Relist

log = logging.getLogger(__name__)

BOOT_PATIENCE_SECONDS = 2.0
"""Seconds that the worker waits for the takeover before it polls. Slower pods are taken over while it polls."""
_RETRY_SECONDS = 1.0


class Boot:
    """Sends pods' workflows the runtime's listings: at the worker's start, and after a stuck run was replaced."""

    def __init__(
        self, reader: PodReader, readiness: RuntimeReadiness, takeover: Takeover, pleg: Pleg, prober: Prober
    ) -> None:
        """Take pods over with `takeover`, and signal their workflows by `pleg`."""
        self._reader, self._readiness, self._takeover = reader, readiness, takeover
        self._pleg, self._prober = pleg, prober
        self._tasks = LooseTasks()

    async def run(self, shutdown: NodeShutdown | None) -> None:
        """Take over the previous worker's pods, before this worker polls. Raises CriError, RPCError.

        `shutdown` delays a shutdown of the machine until pods have ended; None = nothing delays it. A pod that cannot
        be taken over yet is retried, and delays neither the other pods nor the worker.
        """
        if shutdown is not None:
            await self._follow(shutdown)
        listed = await self._reader.read_all()
        await self._readiness.check()
        pods = await self._takeover.open_pods(listed.pods.values())
        taking = [self._begin_taking(pod) for pod in pods]
        for pod, taken in zip(pods, taking, strict=True):
            self._begin_telling(pod, taken, listed)
        await self._wait_for(taking)

    async def _follow(self, shutdown: NodeShutdown) -> None:
        """Begin to delay shutdowns of the machine, before the node reports that it is ready.

        A ready node's machine may be shut down at any time. The system bus may be slow, so the boot goes on after
        `BOOT_PATIENCE_SECONDS`.
        """
        self._tasks.begin(keep_running("shutdown", shutdown.run), "shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BOOT_PATIENCE_SECONDS):
                await shutdown.has_tried.wait()

    def _begin_taking(self, pod: OpenPod) -> asyncio.Task[bool]:
        return asyncio.create_task(self._takeover.take_until_taken(pod.workflow_id), name=f"take {pod.workflow_id}")

    def _begin_telling(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Start a task that signals a pod's workflow. It logs an unexpected error and retries: nobody awaits it."""
        tell = partial(self._send_when_taken, pod, taken, listed)
        self._tasks.begin(keep_running(f"the boot of {pod.workflow_id}", tell), f"boot {pod.workflow_id}")

    async def _wait_for(self, taking: Iterable[asyncio.Task[bool]]) -> None:
        """Wait a while for the takeover, but not for the signals: some workflows answer only once this worker polls."""
        if tasks := tuple(taking):
            _, late = await asyncio.wait(tasks, timeout=BOOT_PATIENCE_SECONDS)
            log.info("took over %d of %d pods", len(tasks) - len(late), len(tasks))

    async def _send_when_taken(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Send a pod's workflow the runtime's listing of the pod, once the workflow is taken over."""
        if not await taken:
            return
        ref = pod.ref or await self._takeover.query_ref(pod.workflow_id)
        if ref is None:
            return
        events = ("Boot",) if self._readiness.obstacles else ("Boot", "RuntimeReady")
        if pod.ref is not None and ref.uid not in listed.failures:
            nothing = ObservedPod(seq=listed.seq, uid=ref.uid)
            self._pleg.tell(ref, listed.pods.get(ref.uid, nothing), *events)
            return
        await self._read_and_signal(ref, events)

    def resume(self, ref: PodRef) -> None:
        """Send a workflow's new run a fresh listing of its pod, and the results of the probes."""
        self._prober.send_again(ref.uid)
        self._tasks.begin(self._read_and_signal(ref, ("Boot",)), f"resume {ref.namespace}/{ref.name}")

    async def _read_and_signal(self, ref: PodRef, events: Sequence[str]) -> None:
        """Read a pod from the runtime, and signal its workflow. Retries each second while the pod cannot be read."""
        while True:
            try:
                await self._pleg.wake(ref, *events)
            except CriError as error:
                log.warning("pod %s/%s cannot be read: %s", ref.namespace, ref.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def close(self) -> None:
        """Cancel all tasks; the next worker begins the takeover anew."""
        await self._tasks.close()
        await self._takeover.close()
