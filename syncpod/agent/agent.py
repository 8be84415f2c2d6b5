"""The node agent: connects PLEG, exits, probes, back-off queue, readiness and takeover for one worker.

::

    runtime ──► reader ──► PLEG ──► signals ──► the pods' workflows
       │                   ▲  ▲                    │        ▲
     pidfds ── exits ──────┘  └── results ── steps │        │
     prober ── results ────────────────────────────│────────┤
                                                   └─ arm ──► back-off queue
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.api_server import ApiServer
from syncpod.agent.background import cancel_all, keep_running, until_one_fails
from syncpod.agent.backoff_queue import BackoffQueue
from syncpod.agent.container_events import ContainerEvents
from syncpod.agent.ended_runs import EndedRuns
from syncpod.agent.eviction.evictor import Evictor
from syncpod.agent.exits import ExitFollower
from syncpod.agent.journal import Journal
from syncpod.agent.node_shutdown import NodeShutdown
from syncpod.agent.open_pods import OpenPods
from syncpod.agent.pidfds import PidfdWatcher
from syncpod.agent.pleg import Pleg
from syncpod.agent.pod_signals import PodSignals
from syncpod.agent.pod_source import NodePods
from syncpod.agent.probing.prober import Prober
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.agent.storage.volume_refresh import VolumeRefresh
from syncpod.agent.stuck_workflows import StuckWorkflows
from syncpod.agent.takeover.boot import OpenPod, Takeover
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NodeLife
from syncpod.agent.takeover.rival import stop_if_outranked
from syncpod.agent.unattended_pods import UnattendedPods
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.journal.file import Limits
from syncpod.journal.records import Instance
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.shutdown_order import OBSTACLE
from syncpod.lifecycle.step_name import StepName
from syncpod.messages.identity import NodeFacts, PodRef, pod_workflow_id
from syncpod.messages.running_steps import RunningStep
from syncpod.messages.signals import PlegEvent
from syncpod.messages.signature import Keys
from syncpod.messages.steps import StepEvent
from syncpod.node.announcements import Announcements
from syncpod.node.pod_lives import pod_life
from syncpod.node.reader import PodReader, Relist
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import Pod
from syncpod.temporal import resize_metrics
from syncpod.temporal.own_server import OwnServer
from syncpod.temporal.pod_orders import PodOrders
from syncpod.temporal.senders import sent_to
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext
from syncpod.translation.features import EMBEDDED

log = logging.getLogger(__name__)

BOOT_PATIENCE_SECONDS = 2.0
"""How long the worker waits for the takeover before it polls; slower pods are taken over while it polls."""
_HEALTH_EVERY = 10.0
_RETRY_SECONDS = 1.0
_FLUSH_SECONDS = 2.0
"""How long `close` waits for exit codes, and for states of workflows, to be written, since the disk may hang."""


class Agent:
    """One node's agent. Made, run and closed in the worker's event loop.

    Also the worker's `NodeHooks` and `WorkflowWatch`.
    """

    shutdown: NodeShutdown | None = None
    """Made where the machine's shutdown is to wait for pods."""
    _shutting_down: asyncio.Task[None] | None = None

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
        guard: ClusterGuard,
        keys: Keys | None = None,
        journal: Limits | None = None,
    ) -> None:
        """Serve `life`'s node on `guard`'s cluster. Signals carry `facts`. With `keys`, `client` signs its commands.

        `journal` says how much the node's journal keeps; None = what it keeps by default.
        """
        self._client, self.guard = client, guard
        self._task_queue, self._life = task_queue, life
        self._reader = reader
        self._loop, self.facts = asyncio.get_running_loop(), facts
        self.signals = PodSignals(client, facts)
        self.backoff_queue = BackoffQueue(self.signals.backoff_over)
        self.pleg = Pleg(
            reader,
            self._send_listing,
            watch=self._watch,
            watch_unchanged=self._watch_unchanged,
            may_rest=self._misses_nothing,
        )
        self.announcements = Announcements()
        """What the runtime announces of single containers, for steps that wait for their end."""
        self._events = self._container_events(cri)
        self._exits = ExitFollower(self.pleg)
        self.pidfds = PidfdWatcher(
            self._exits.exited, container_pid=reader.pid_of, sandbox_pid=reader.sandbox_pid, exits=reader.exits
        )
        self.unprobed: set[tuple[str, str]] = set()
        """Pod UID and name of each container that is not to be probed yet. Steps add and remove it."""
        self.prober = Prober(cri, context, self.signals.probe, host_ip=_host_ip_of(facts), unprobed=self.unprobed)
        self.running: set[RunningStep] = set()
        """The attempts of steps that are under way. Steps add and remove themselves."""
        self.readiness = RuntimeReadiness(cri.status, self.pleg.wake)
        self.waiting_for: dict[ObjectRef, set[tuple[str, str]]] = {}
        """Who waits for a missing object. Steps add themselves; the volume refresh signals and removes them."""
        self._volumes = self._volume_refresh(context)
        self._takeover = Takeover(client, task_queue, life.identity)
        self.published_pods = PublishedPods(context)
        self.own_server, self.pod_orders = OwnServer(guard.require), self._pod_orders(context, cri)
        self.journal = Journal(context, journal, ask_server=partial(sent_to, client))
        self.stuck_workflows = self._replacement_of_stuck_workflows(context, keys)
        self.refresh_report: Callable[[], Awaitable[None]] = _nothing_to_refresh  # housekeeping sets it
        self.evictor: Evictor | None = None  # housekeeping makes it
        self.tell_cluster: Callable[[PodRef, StepEvent], None] = _nobody_to_tell  # the node's part in it sets it
        self._ended_runs, self.node_pods = EndedRuns(client), self._node_pods(context)
        self._background = self._own_tasks(context)
        self._watchers: list[Callable[[ObservedPod], None]] = [self.pidfds.watch, self.prober.observe]
        self._booting: list[asyncio.Task[None]] = []
        self._telling: set[asyncio.Task[None]] = set()

    def _own_tasks(self, context: NodeContext) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "states of workflows": self.published_pods.run,
            "journal": self.journal.run,
            "the node's API": ApiServer(self.node_pods).run,
        }

    def _container_events(self, cri: CriRuntime) -> ContainerEvents:
        return ContainerEvents(
            cri.container_events,
            self.pleg,
            owner=self._life.node,
            newest_begun=lambda: self._reader.newest_begun,
            announcements=self.announcements,
        )

    def has_search_attributes(self) -> bool:
        """Say whether the namespace has our search attributes, as far as is known."""
        return self.facts().search_attributes

    def _pod_orders(self, context: NodeContext, cri: CriRuntime) -> PodOrders:
        """Return what tells pods' workflows, for the directory of manifests and the steps of the node's workflow."""
        recorded = partial(pod_life, context, cri)
        return PodOrders(self._client, self.facts, recorded, lambda *what: self.journal.deleted_by_node(*what))

    def _replacement_of_stuck_workflows(self, context: NodeContext, keys: Keys | None) -> StuckWorkflows:
        return StuckWorkflows(
            self._client,
            context,
            task_queue=self._task_queue,
            published=self.published_pods,
            has_attributes=self.has_search_attributes,
            resume=self._resume,
            keys=keys,
        )

    def _volume_refresh(self, context: NodeContext) -> VolumeRefresh:
        return VolumeRefresh(
            context,
            ObjectStore(context.state_dir, context.memory_dir),
            self.waiting_for,
            self.signals.end_backoff,
            threads=self._reader.threads,
        )

    def _node_pods(self, context: NodeContext) -> NodePods:
        open_pods = OpenPods(self._client, self.guard.require, self._task_queue)
        return NodePods(
            context,
            self.published_pods,
            open_pods=open_pods,
            unattended=UnattendedPods(context, self.pleg.listings, open_pods),
            untold=self.prober.untold,
            running=self.running,
            settle_journal=self.journal.flush,
            refresh_report=lambda: self.refresh_report(),
        )

    def add_background_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run `run` as long as the agent runs. If it fails, that is logged, and it is started again."""
        self._background[name] = run

    def add_listing_watcher(self, watcher: Callable[[ObservedPod], None]) -> None:
        """Call `watcher` with each listing of a pod in which something has changed."""
        self._watchers.append(watcher)

    def _watch(self, listing: ObservedPod) -> None:
        for watcher in self._watchers:
            watcher(listing)

    def _watch_unchanged(self, listing: ObservedPod) -> None:
        # A hook may have ended, or a pod's record become readable, since the prober last looked at this pod.
        self.prober.observe(listing)

    def _misses_nothing(self) -> bool:
        """Say whether every end in the runtime is announced: then the relist may rest."""
        return self._events.is_open and (self.facts().runtime == EMBEDDED or self.pidfds.sees_all())

    async def _send_listing(self, ref: PodRef, events: tuple[PlegEvent, ...], listing: ObservedPod) -> bool:
        """Signal a pod's workflow; if the server has ended that, begin it anew first. Raises RPCError."""
        if await self.signals.pleg(ref, events, listing):
            return True
        return await self.stuck_workflows.begin_anew(ref) and await self.signals.pleg(ref, events, listing)

    # --- called by the worker and its steps ---------------------------------------------------------------------------

    def listing_returned(self, listing: ObservedPod) -> None:
        """Take a listing that a step is about to return to its workflow: no signal repeats it."""
        self.pleg.returned(listing)

    def event_happens(self, ref: PodRef, event: StepEvent) -> None:
        """Have the cluster be told at once of an event that a step's result will have."""
        self.tell_cluster(ref, event)

    def step_acts(self, uid: str) -> None:
        """Note that a step of the pod is about to change something, and to return the pod's listing."""
        self.pleg.step_acts(uid)

    def arm_backoff(self, workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off after the delay; None cancels that. Called from threads of workflow tasks."""
        queue = self.backoff_queue
        if delay_seconds is None:
            self._loop.call_soon_threadsafe(queue.disarm, workflow_id, subject, restart)
        else:
            self._loop.call_soon_threadsafe(queue.arm, workflow_id, subject, restart, delay_seconds)

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        """Tell the pods that wait to be resized or admitted, in this order, that the node has room again.

        A pod that cannot be reached asks again by itself, some minutes later.
        """
        if waiting:
            self._tell(self._tell_of_room(waiting), "room on the node")

    def _tell(self, telling: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(telling, name=name)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_of_room(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        for ref, step in waiting:
            try:
                await self.signals.end_backoff(pod_workflow_id(ref.namespace, ref.name), step.value, "room on the node")
            except RPCError as error:
                log.warning("pod %s/%s cannot be told that there is room: %s", ref.namespace, ref.name, error)

    def pod_was_deleted(self, ref: PodRef) -> None:
        """Have the workflow end of a pod that was deleted, and that a restored database has brought back.

        If the workflow cannot be reached now, the next worker ends it. Until then the pod is Failed, with the reason.
        """
        self._tell(self._delete(ref), f"delete {ref.namespace}/{ref.name}")

    async def _delete(self, ref: PodRef) -> None:
        log.warning(
            "pod %s/%s (uid %s) was deleted, and its workflow is back: it is ended", ref.namespace, ref.name, ref.uid
        )
        try:
            await self.signals.delete(ref)
        except RPCError as error:
            log.warning("pod %s/%s cannot be told that it was deleted: %s", ref.namespace, ref.name, error)

    def admission_refusal(self, pod: Pod) -> str:
        """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits it."""
        return self.evictor.admission_refusal(pod) if self.evictor is not None else ""

    def shutdown_refusal(self) -> tuple[str, str] | None:
        """Return why a node whose machine shuts down admits no pod: the kubelet's reason and message."""
        return self.shutdown.refusal() if self.shutdown is not None else None

    async def keep_ends(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        """Have the node's journal keep the ends of instances, before their logs are removed."""
        await self.journal.keep(ref, instances)

    def pod_adopted(self, ref: PodRef) -> None:
        """Send all probe results again: a new workflow has taken over the pod's containers, and has no results yet."""
        self.prober.tell_again(ref.uid)

    def published(self, workflow_id: str, run_id: str, published: Published) -> None:
        """Take the state that a workflow's task has published. Called from threads of workflow tasks."""
        self._loop.call_soon_threadsafe(self._take_published, workflow_id, run_id, published)

    def pods(self) -> Sequence[Published]:
        """Return the newest state of each pod that this worker has seen. Called from threads of workflow tasks."""
        return list(self.published_pods.pods().values())

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        """Note that a workflow's task has failed. Called from threads of workflow tasks."""
        self._loop.call_soon_threadsafe(self.stuck_workflows.failed, workflow_id, run_id, why)

    def has_ended(self, workflow_id: str, run_id: str) -> bool:
        """Say whether a run is known to have ended. Called from threads of workflow tasks."""
        return self._ended_runs.has_ended(workflow_id, run_id)

    def _take_published(self, workflow_id: str, run_id: str, published: Published) -> None:
        self.published_pods.take(workflow_id, run_id, published)
        self.journal.take(workflow_id, run_id, published)
        self.stuck_workflows.went_on(workflow_id, run_id)

    def pod_gone(self, ref: PodRef) -> None:
        """Forget a pod of which nothing is left here: its workflow was terminated, and so has published no end."""
        if self.published_pods.forget(ref):
            resize_metrics.forget(pod_workflow_id(ref.namespace, ref.name))

    def _resume(self, ref: PodRef) -> None:
        """Send a workflow's new run the runtime's listing of now, and the results of the probes."""
        self.prober.tell_again(ref.uid)
        self._tell(self._read_and_tell(ref, ("Boot",)), f"resume {ref.namespace}/{ref.name}")

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        """Note that an attempt of a step begins; `kills` if it ends everything that runs of the pod."""
        if kills:
            self.prober.ending(ref.uid)
        self.pleg.step_began(ref.uid)

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Note that the attempt has ended: successfully (""), or with a fault of that type."""
        self.readiness.step_ended(ref, fault)
        self.pleg.step_ended(ref.uid)

    # --- lifetime -----------------------------------------------------------------------------------------------------

    async def boot(self) -> None:
        """Take over the pods of the worker's last life, before this one polls. Raises CriError, RPCError.

        A pod that cannot be taken over yet is retried, and delays neither the other pods nor the worker.
        """
        await self._follow_shutdowns()
        listed = await self._reader.read_all()
        await self.readiness.check()
        pods = await self._takeover.open_pods(listed.pods.values())
        taking = [
            asyncio.create_task(self._takeover.take_until_taken(pod.workflow_id), name=f"take {pod.workflow_id}")
            for pod in pods
        ]
        self._booting = [
            asyncio.create_task(self._boot_until_told(pod, taken, listed), name=f"boot {pod.workflow_id}")
            for pod, taken in zip(pods, taking, strict=True)
        ]
        if taking:
            # Does not wait for _boot_pod: a workflow can answer which pod it is only after the worker polls.
            _, late = await asyncio.wait(taking, timeout=BOOT_PATIENCE_SECONDS)
            log.info("took over %d of %d pods", len(pods) - len(late), len(pods))

    async def _follow_shutdowns(self) -> None:
        """Have the machine's shutdown wait, before anybody is told that the node is healthy; a bus may take its time.

        It is followed while the node boots: whoever finds the node ready may shut its machine down.
        """
        if self.shutdown is None:
            return
        run = keep_running("shutdown", self.shutdown.run)
        self._shutting_down = asyncio.create_task(run, name="shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BOOT_PATIENCE_SECONDS):
                await self.shutdown.has_tried.wait()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises NotThisNode if another worker has the node, or another cluster answers; any other exception is a defect.
        """
        tasks = [
            asyncio.create_task(self.pleg.run(), name="pleg"),
            asyncio.create_task(self._events.run(), name="container events"),
            asyncio.create_task(self.readiness.run(), name="readiness"),
            asyncio.create_task(self._volumes.run(), name="volumes"),
            asyncio.create_task(stop_if_outranked(self._client, self._task_queue, self._life), name="rivals"),
            asyncio.create_task(self.guard.run(), name="cluster"),
            asyncio.create_task(self._log_health(), name="health"),
            *(asyncio.create_task(keep_running(name, run), name=name) for name, run in self._background.items()),
        ]
        await until_one_fails(tasks)

    async def close(self) -> None:
        """Cancel what is under way; the workflows' own timers and the next worker's takeover complete it."""
        self.pidfds.close()
        await self._exits.close()
        await cancel_all([*self._booting, *self._telling, *((self._shutting_down,) if self._shutting_down else ())])
        await self._takeover.close()
        await self.stuck_workflows.close()
        await self._ended_runs.close()
        await self.prober.close()
        await self.pleg.close()
        await self.backoff_queue.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self.published_pods.flush()
        except TimeoutError:
            log.warning("not all states of workflows are on disk: they cannot be written in time")
        await self.journal.close()
        if self._reader.exits is not None:
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._reader.exits.settled()
            except TimeoutError:
                log.warning("not all observed exits are on disk: they cannot be written in time")

    async def _boot_until_told(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Boot a pod. Nothing awaits this task, so an unexpected error is logged, and the boot is tried again."""
        await keep_running(f"the boot of {pod.workflow_id}", partial(self._boot_pod, pod, taken, listed))

    async def _boot_pod(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Signal a pod's workflow what the runtime has of it, once the workflow is taken over."""
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
        await self._read_and_tell(ref, events)

    async def _read_and_tell(self, ref: PodRef, events: Sequence[str]) -> None:
        """Signal a pod's workflow what the runtime has of it, as soon as the runtime can tell."""
        while True:
            try:
                await self.pleg.wake(ref, *events)
            except CriError as error:
                log.warning("pod %s/%s cannot be read: %s", ref.namespace, ref.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def obstacles(self) -> tuple[str, ...]:
        """Return what keeps the node from running pods, one sentence each."""
        pleg = self.pleg.unhealthy()
        return (
            *self.readiness.obstacles.values(),
            *((f"PLEG is not healthy: {pleg}",) if pleg else ()),
            *((OBSTACLE,) if self.shutdown_refusal() else ()),
        )

    async def _log_health(self) -> None:
        """Log once when PLEG becomes unhealthy, and once when it recovers; pods continue with what is known of them."""
        before = ""
        while True:
            await asyncio.sleep(_HEALTH_EVERY)
            obstacle = self.pleg.unhealthy()
            if obstacle and not before:
                log.error("PLEG is not healthy: %s", obstacle)
            elif before and not obstacle:
                log.info("PLEG is healthy again")
            before = obstacle


def _host_ip_of(facts: Callable[[], NodeFacts]) -> Callable[[], str]:
    """Return what tells the node's first address; "" while it has none."""
    return lambda: next(iter(facts().host_ips), "")


def _nobody_to_tell(ref: PodRef, event: StepEvent) -> None:
    """Do nothing: the node is part of no cluster."""


async def _nothing_to_refresh() -> None:
    """Do nothing: the node has no housekeeping."""
