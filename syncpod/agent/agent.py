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
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from temporalio.client import Client

from syncpod.agent.background import keep_running, until_one_fails
from syncpod.agent.backoff_queue import BackoffQueue
from syncpod.agent.boot import Boot
from syncpod.agent.container_events import ContainerEvents
from syncpod.agent.ended_runs import EndedRuns
from syncpod.agent.eviction.node_pressure import NodePressure
from syncpod.agent.exits import ExitFollower
from syncpod.agent.joined_cluster import JoinedCluster
from syncpod.agent.journal import Journal
from syncpod.agent.logind import logind
from syncpod.agent.node_shutdown import NodeShutdown, ShutdownOrders
from syncpod.agent.pidfds import PidfdWatcher
from syncpod.agent.pleg import Pleg
from syncpod.agent.pod_signals import PodSignals
from syncpod.agent.probing.prober import Prober
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.agent.step_port import StepPort
from syncpod.agent.storage.volume_refresh import VolumeRefresh
from syncpod.agent.stuck_workflows import StuckWorkflows
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NodeLife
from syncpod.agent.takeover.pods import Takeover
from syncpod.agent.takeover.rival import stop_if_outranked
from syncpod.agent.task_watch import TaskWatch
from syncpod.cri.port import CriRuntime
from syncpod.journal.file import Limits
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.shutdown_order import OBSTACLE, Periods
from syncpod.messages.identity import NodeFacts, PodRef
from syncpod.messages.running_steps import RunningStep
from syncpod.messages.signals import PlegEvent
from syncpod.messages.signature import Keys
from syncpod.node.announcements import Announcements
from syncpod.node.pod_lives import pod_life
from syncpod.node.reader import PodReader
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.temporal.own_server import OwnServer
from syncpod.temporal.pod_orders import PodOrders
from syncpod.temporal.senders import sent_to
from syncpod.translation.context import NodeContext
from syncpod.translation.features import EMBEDDED

log = logging.getLogger(__name__)

_HEALTH_EVERY = 10.0
_FLUSH_SECONDS = 2.0
"""Seconds that `close` waits for states of workflows to be written, and again for exit codes: the disk may hang."""


class Agent:
    """One node's agent. Made, run and closed in the worker's event loop.

    Steps call its `step_port`, workflow tasks its `task_watch`.
    """

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
        shutdown_periods: Periods = (),
    ) -> None:
        """Serve the node of `life` in the Temporal cluster that `guard` checks. Signals carry `facts`.

        `client` signs its commands with `keys`; None = they are not signed. `journal` limits the node's journal; None =
        the default limits. With `shutdown_periods`, the machine's shutdown is delayed until pods have ended.
        """
        self._client, self.guard = client, guard
        self._task_queue, self._life = task_queue, life
        self._reader = reader
        self.facts, self.signals = facts, PodSignals(client, facts)
        self.backoff_queue = BackoffQueue(self.signals.backoff_over)
        self.pleg = self._pleg()
        self.announcements = Announcements()
        """The runtime's announcements about single containers, for steps that wait for their end."""
        self._events = self._container_events(cri)
        self._exits = ExitFollower(self.pleg)
        self.pidfds = PidfdWatcher(
            self._exits.exited, container_pid=reader.pid_of, sandbox_pid=reader.sandbox_pid, exits=reader.exits
        )
        self.unprobed: set[tuple[str, str]] = set()
        """Pod UID and name of each container that must not be probed yet. Steps add and remove the entries."""
        self.prober = Prober(cri, context, self.signals.probe, host_ip=_host_ip_of(facts), unprobed=self.unprobed)
        self.running: set[RunningStep] = set()
        """The attempts of steps that are under way. Steps add and remove themselves."""
        self.readiness = RuntimeReadiness(cri.status, self.pleg.wake)
        self.waiting_for: dict[ObjectRef, set[tuple[str, str]]] = {}
        """By missing object: the waiting containers and steps. Steps add them, and the volume refresh removes them."""
        self._volumes = self._volume_refresh(context)
        takeover = Takeover(client, task_queue, life.identity)
        self._boot = Boot(reader, self.readiness, takeover, self.pleg, self.prober)
        self.published_pods = PublishedPods(context)
        self.journal = Journal(context, journal, ask_server=partial(sent_to, client))
        guard.watch_outages(self.journal.outage)
        self.own_server, self.pod_orders = OwnServer(guard.require), self._pod_orders(context, cri)
        self.stuck_workflows = self._replacement_of_stuck_workflows(context, keys)
        self._ended_runs = EndedRuns(client)
        self.cluster, self.pressure = JoinedCluster(), NodePressure()
        guard.watch_outages(lambda _, ended: self.cluster.server(ended is not None))
        self._shutdown = self._node_shutdown(context, shutdown_periods) if shutdown_periods else None
        self.task_watch = TaskWatch(self.published_pods, self.journal, self.stuck_workflows, self._ended_runs)
        self.step_port = self._step_port()
        self._background: dict[str, Callable[[], Awaitable[None]]] = {
            "states of workflows": self.published_pods.run,
            "journal": self.journal.run,
        }
        self._watchers: list[Callable[[ObservedPod], None]] = [self.pidfds.watch, self.prober.observe]

    def _pleg(self) -> Pleg:
        return Pleg(
            self._reader,
            self._send_listing,
            watch=self._watch,
            watch_unchanged=self._watch_unchanged,
            may_rest=self._misses_nothing,
        )

    def _container_events(self, cri: CriRuntime) -> ContainerEvents:
        return ContainerEvents(
            cri.container_events,
            self.pleg,
            owner=self._life.node,
            newest_begun=lambda: self._reader.newest_begun,
            announcements=self.announcements,
        )

    def has_search_attributes(self) -> bool:
        """Say whether the namespace has our search attributes, according to the node's current facts."""
        return self.facts().search_attributes

    def _pod_orders(self, context: NodeContext, cri: CriRuntime) -> PodOrders:
        """Return the sender of orders to pods' workflows, for the manifests and for the node workflow's steps."""
        recorded = partial(pod_life, context, cri)
        return PodOrders(self._client, self.facts, recorded, self.journal.senders.know)

    def _node_shutdown(self, context: NodeContext, periods: Periods) -> NodeShutdown:
        orders = ShutdownOrders(self.signals, self.pod_orders)
        return NodeShutdown(
            periods, context.state_dir, self.published_pods, orders, logind, tell_cluster=self.cluster.shutdown
        )

    def _step_port(self) -> StepPort:
        return StepPort(
            self.facts,
            self.signals,
            self.backoff_queue,
            pleg=self.pleg,
            prober=self.prober,
            readiness=self.readiness,
            journal=self.journal,
            pressure=self.pressure,
            shutdown=self._shutdown,
            cluster=self.cluster,
        )

    def _replacement_of_stuck_workflows(self, context: NodeContext, keys: Keys | None) -> StuckWorkflows:
        return StuckWorkflows(
            self._client,
            context,
            task_queue=self._task_queue,
            published=self.published_pods,
            has_attributes=self.has_search_attributes,
            resume=self._boot.resume,
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
        """Signal a pod's workflow. If the server has terminated the workflow, start it again first. Raises RPCError."""
        if await self.signals.pleg(ref, events, listing):
            return True
        return await self.stuck_workflows.begin_anew(ref) and await self.signals.pleg(ref, events, listing)

    # --- lifetime -----------------------------------------------------------------------------------------------------

    async def boot(self) -> None:
        """Take over the previous worker's pods, before this worker polls. Raises CriError, RPCError."""
        await self._boot.run(self._shutdown)

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
        """Cancel the agent's tasks. The workflows' own timers still fire, and the next worker takes the pods over."""
        self.pidfds.close()
        await self._exits.close()
        await self._boot.close()
        await self.step_port.close()
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

    def obstacles(self) -> tuple[str, ...]:
        """Return the reasons why the node cannot run pods, one sentence each; empty if it can."""
        pleg = self.pleg.unhealthy()
        return (
            *self.readiness.obstacles.values(),
            *((f"PLEG is not healthy: {pleg}",) if pleg else ()),
            *((OBSTACLE,) if self.step_port.shutdown_refusal() else ()),
        )

    async def _log_health(self) -> None:
        """Log once when PLEG becomes unhealthy, and once when it recovers. Pods continue with their last listings."""
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
    """Return a function that returns the node's first address, or "" while the node has none."""
    return lambda: next(iter(facts().host_ips), "")
