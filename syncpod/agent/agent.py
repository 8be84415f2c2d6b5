"""The node agent: ties PLEG, pidfds, back-off queue, readiness and takeover together beside one worker.

::

    runtime ──► reader ──► PLEG ──► signals ──► the pods' workflows
       │                   ▲  ▲                    │        ▲
     pidfds ── exited ─────┘  └── returned ── steps         │
     prober ── results ─────────────────────────────────────┤
                                                └─ arm ─► back-off queue
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.backoff_queue import BackoffQueue
from syncpod.agent.pidfds import Pidfds
from syncpod.agent.pleg import Pleg
from syncpod.agent.probing.prober import Prober
from syncpod.agent.readiness import Readiness
from syncpod.agent.signals import Signals
from syncpod.agent.storage.limits import StorageEviction
from syncpod.agent.storage.volume_refresh import VolumeRefresh
from syncpod.agent.takeover.boot import OpenPod, Takeover
from syncpod.agent.takeover.lock import NodeLife
from syncpod.agent.takeover.rival import outranked
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages import NodeFacts, PodRef, StepName, pod_workflow_id
from syncpod.node.reader import PodReader, Relist
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

BOOT_PATIENCE_SECONDS = 2.0
"""How long the worker waits for the takeover before it polls; the pods that take longer are taken over beside it."""
_LISTED_AFTER = 0.02
_LISTED_EVERY = 0.005
_LISTED_FOR = 1.0
"""Seconds from the end of a process to the second listing of its pod (the first is at once: the exit may be old), then
between listings, and how long the runtime may take to say so too: hardly ever less than 30 ms."""
_RIVALS_EVERY = 30.0
_HEALTH_EVERY = 10.0
_RETRY_SECONDS = 1.0
_SETTLED_SECONDS = 2.0
"""How long the end waits for what is being written to a disk that may hang."""
_BEGIN_AGAIN_SECONDS = 30.0
"""After how long what runs beside the agent begins again when it has failed."""


class Agent:
    """One node's agent. Made, run and closed in the worker's event loop; also the worker's `NodeHooks`."""

    def __init__(
        self,
        client: Client,
        *,
        task_queue: str,
        life: NodeLife,
        cri: CriRuntime,
        reader: PodReader,
        context: NodeContext,
        facts: Callable[[], NodeFacts],
    ) -> None:
        """Serve the node that `life` is of, with its things as `context` says; `facts` is what each signal tells."""
        self._client = client
        self._task_queue = task_queue
        self._life = life
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self.signals = Signals(client, facts)
        self.backoff_queue = BackoffQueue(self.signals.backoff_expired)
        self.pidfds = Pidfds(
            self._exited,
            container_pid=reader.pid_of,
            sandbox_pid=reader.sandbox_pid,
            ended=reader.exits.note if reader.exits is not None else None,
        )
        self.prober = Prober(cri, context, self.signals.probe, host_ip=lambda: next(iter(facts().host_ips), ""))
        self.pleg = Pleg(reader, self.signals.pleg, watch=self._watch)
        self.readiness = Readiness(cri.status, self.pleg.wake)
        self.waiting_for: dict[ObjectRef, set[tuple[str, str]]] = {}
        """Who failed for want of an object; steps note themselves, and the refresh of volumes tells them."""
        store = ObjectStore(context.state_dir, context.memory_dir)
        self._volumes = VolumeRefresh(context, store, self.waiting_for, self.signals.may_go_on, withhold=cri.withhold)
        self._takeover = Takeover(client, task_queue, life.identity)
        storage = StorageEviction(context, cri, self.pleg.newest, self.signals.evict)
        self._beside: dict[str, Callable[[], Awaitable[None]]] = {"limits of storage": storage.run}
        self._watchers: list[Callable[[ObservedPod], None]] = [self.pidfds.watch, self.prober.observe]
        self._boarding: list[asyncio.Task[None]] = []
        self._following: dict[str, asyncio.Task[None]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._ended: dict[str, dict[str, float]] = {}

    def _watch(self, listing: ObservedPod) -> None:
        """Follow what there is of a pod: its processes, what its containers are to be asked, what may go of it."""
        for watcher in self._watchers:
            watcher(listing)

    # --- what the worker tells ----------------------------------------------------------------------------------------

    def returned(self, listing: ObservedPod) -> None:
        """Take a listing that a step is about to return to its workflow."""
        self.pleg.returned(listing)

    def arm_backoff(self, workflow_id: str, container: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off then, or with None no more. Called from the threads of workflow tasks."""
        queue = self.backoff_queue
        if delay_seconds is None:
            self._loop.call_soon_threadsafe(queue.disarm, workflow_id, container, restart)
        else:
            self._loop.call_soon_threadsafe(queue.arm, workflow_id, container, restart, delay_seconds)

    def has_room(self, waiting: tuple[PodRef, ...]) -> None:
        """Tell pods that wait to be resized that the node has room again, one after the other.

        Who is not reached asks again by itself, some minutes later.
        """
        if waiting:
            task = asyncio.create_task(self._tell_of_room(waiting), name="room on the node")
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_of_room(self, waiting: tuple[PodRef, ...]) -> None:
        for ref in waiting:
            try:
                await self.signals.may_go_on(
                    pod_workflow_id(ref.namespace, ref.name), StepName.ALLOCATE_RESOURCES.value, "room on the node"
                )
            except RPCError as error:
                log.warning("pod %s/%s cannot be told that there is room: %s", ref.namespace, ref.name, error)

    def adopted(self, ref: PodRef) -> None:
        """Hear that a new workflow has taken over what runs of a pod, and knows of no probe yet."""
        self.prober.tell_again(ref.uid)

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        """Hear that a try of a step begins; `kills` where it ends all that runs of the pod."""
        if kills:
            self.prober.ending(ref.uid)
        self.pleg.step_began(ref.uid)

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Hear that it has ended, well ("") or with a fault of that type."""
        self.readiness.step_ended(ref, fault)
        self.pleg.step_ended(ref.uid)

    def beside(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Have `run` run as long as the agent does, which its failure does not end: it is logged, and begun again."""
        self._beside[name] = run

    def tell(self, watcher: Callable[[ObservedPod], None]) -> None:
        """Have `watcher` hear of each new listing of a pod."""
        self._watchers.append(watcher)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def boot(self) -> None:
        """Take over the pods of the last life, before the worker polls. Raises CriError, RPCError.

        A pod that cannot be taken over yet is tried again, and holds up neither the others nor the worker.
        """
        listed = await self._reader.read_all()
        await self.readiness.check()
        pods = await self._takeover.open_pods(listed.pods.values())
        taking = [
            asyncio.create_task(self._takeover.take_until_taken(pod.workflow_id), name=f"take {pod.workflow_id}")
            for pod in pods
        ]
        self._boarding = [
            asyncio.create_task(self._board(pod, taken, listed), name=f"boot {pod.workflow_id}")
            for pod, taken in zip(pods, taking, strict=True)
        ]
        if taking:
            # Not for what follows a takeover: a workflow can only be asked which pod it is once the worker polls.
            _, late = await asyncio.wait(taking, timeout=BOOT_PATIENCE_SECONDS)
            log.info("took over %d of %d pods", len(pods) - len(late), len(pods))

    async def run(self) -> None:
        """Serve until cancelled. Raises NotThisNode if another worker has the node; anything else is a defect."""
        tasks = [
            asyncio.create_task(self.pleg.run(), name="pleg"),
            asyncio.create_task(self.readiness.run(), name="readiness"),
            asyncio.create_task(self._volumes.run(), name="volumes"),
            asyncio.create_task(self._look_for_rivals(), name="rivals"),
            asyncio.create_task(self._say_when_relisting_stops(), name="health"),
            *(asyncio.create_task(_keep_running(name, run), name=name) for name, run in self._beside.items()),
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await _end(tasks)

    async def close(self) -> None:
        """Give up what is under way; the workflows' own timers and the next life's takeover make up for it."""
        self.pidfds.close()
        await _end([*self._boarding, *self._following.values(), *self._telling])
        await self.prober.close()
        await self.pleg.close()
        await self.backoff_queue.close()
        if self._reader.exits is not None:
            try:
                await asyncio.wait_for(self._reader.exits.settled(), _SETTLED_SECONDS)
            except TimeoutError:
                log.warning("how containers were seen to end is not all on disk: it cannot be written in time")

    # --- takeover -----------------------------------------------------------------------------------------------------

    async def _board(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Tell one pod what the runtime has, once it is taken over."""
        if not await taken:
            return
        ref = pod.ref or await self._takeover.ask_which(pod.workflow_id)
        if ref is None:
            return
        events = ("Boot",) if self.readiness.obstacles else ("Boot", "RuntimeReady")
        if pod.ref is not None and ref.uid not in listed.failures:
            nothing = ObservedPod(seq=listed.seq, uid=ref.uid)
            self.pleg.tell(ref, listed.pods.get(ref.uid, nothing), *events)
            return
        while True:
            try:
                await self.pleg.wake(ref, *events)
            except CriError as error:
                log.warning("pod %s/%s cannot be read: %s", ref.namespace, ref.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    # --- exits --------------------------------------------------------------------------------------------------------

    def _exited(self, uid: str, id_: str) -> None:
        """Hear that a process has ended: look at its pod until the runtime says so too."""
        self._ended.setdefault(uid, {})[id_] = self._loop.time() + _LISTED_FOR
        if uid not in self._following:
            task = asyncio.create_task(self._follow(uid), name=f"exit in {uid}")
            self._following[uid] = task
            task.add_done_callback(lambda _: self._following.pop(uid, None))

    async def _follow(self, uid: str) -> None:
        pause = _LISTED_AFTER
        while self._still_listed(uid):
            # A step of the pod that has just begun will return what it finds.
            if not self.pleg.busy(uid):
                try:
                    await self.pleg.look(uid)
                except CriError as error:
                    log.debug("pod %s cannot be read: %s", uid, error)
            if self._still_listed(uid):
                await asyncio.sleep(pause)
                pause = _LISTED_EVERY
        self._ended.pop(uid, None)

    def _still_listed(self, uid: str) -> bool:
        """Say whether the pod's newest listing lags behind: something in it runs of which the process has ended."""
        now = self._loop.time()
        due = {id_ for id_, until in self._ended.get(uid, {}).items() if now < until}
        newest = self.pleg.newest(uid)
        if newest is None:
            return False
        return any(c.id in due and c.state == "running" for c in newest.containers) or any(
            s.id in due and s.ready for s in newest.sandboxes
        )

    # --- health and rivals --------------------------------------------------------------------------------------------

    async def _say_when_relisting_stops(self) -> None:
        """Log once that PLEG is not healthy, and once that it is again; pods go on with what is known of them."""
        before = ""
        while True:
            await asyncio.sleep(_HEALTH_EVERY)
            obstacle = self.pleg.unhealthy()
            if obstacle and not before:
                log.error("PLEG is not healthy: %s", obstacle)
            elif before and not obstacle:
                log.info("PLEG is healthy again")
            before = obstacle

    async def _look_for_rivals(self) -> None:
        while True:
            await asyncio.sleep(_RIVALS_EVERY)
            try:
                refusal = await outranked(self._client, self._task_queue, self._life)
            except RPCError as error:
                log.debug("the queue's workers cannot be listed: %s", error)
            else:
                if refusal is not None:
                    raise refusal


async def _keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await run()
        except (Exception, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # A cancellation that nobody has asked of this task is a failure too: of one that `run` has waited for.
            log.exception("%s has failed; it begins again in %d s", name, _BEGIN_AGAIN_SECONDS)
            await asyncio.sleep(_BEGIN_AGAIN_SECONDS)
        else:
            return


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
