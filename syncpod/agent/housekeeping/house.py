"""All that a node tidies up and watches over, made and set running beside its agent."""

from __future__ import annotations

from typing import Protocol

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.eviction.evictor import RECLAIM_SECONDS, Evictor
from syncpod.agent.eviction.observations import NodeObservations
from syncpod.agent.eviction.pod_usage import PodUsages
from syncpod.agent.housekeeping.dead_containers import Collector, ContainerGc
from syncpod.agent.housekeeping.duplicates import Duplicates, Ender
from syncpod.agent.housekeeping.gone_pods import GonePods
from syncpod.agent.housekeeping.node_history import NodeHistory
from syncpod.agent.housekeeping.orphans import Killer, Orphans
from syncpod.agent.housekeeping.pod_workflows import PodWorkflows
from syncpod.agent.housekeeping.report import NodeReporter
from syncpod.agent.housekeeping.settings import HousekeepingSettings
from syncpod.agent.storage.image_gc import ImageGc
from syncpod.cri.port import CriRuntime
from syncpod.translation.context import NodeContext


class OrphanKiller(Killer, Ender, Protocol):
    """Ends what nobody asks for; see `activities.between.orphans`."""


class House:
    """One node's housekeeping, and its eviction of pods."""

    def __init__(
        self,
        agent: Agent,
        client: Client,
        node: NodeContext,
        cri: CriRuntime,
        task_queue: str,
        settings: HousekeepingSettings,
        *,
        boot: int,
    ) -> None:
        """Keep what `settings` says, for the node of this agent and its life `boot`."""
        self._agent = agent
        self._node = node
        self._cri = cri
        self._settings = settings
        self._workflows = PodWorkflows(client, task_queue)
        self._history = NodeHistory(client, node.name, boot)

    def keep(self, collector: Collector, killer: OrphanKiller, images: ImageGc) -> Evictor:
        """Have it all run as long as the agent does; return who says whether the node is short of anything."""
        agent, node, settings = self._agent, self._node, self._settings
        listings = agent.pleg.listings
        containers = ContainerGc(node, collector, listings, settings.containers, period=settings.containers_period)
        gone = GonePods(
            node,
            self._workflows,
            collector,
            listings,
            period=settings.gone_pods_period,
            min_age=settings.gone_pods_min_age,
        )
        duplicates = Duplicates(killer)
        reporter = NodeReporter(
            node.state_dir,
            (
                ("container garbage collection", settings.containers_period, lambda: containers.total, "dead"),
                ("removal of gone pods", settings.gone_pods_period, lambda: gone.total, "pods"),
                ("killing of orphans", settings.orphans_period, lambda: orphans.total, "orphans"),
            ),
        )
        orphans = Orphans(
            node,
            self._workflows,
            self._cri,
            killer,
            self._history.coverage,
            reporter.has_orphans,
            period=settings.orphans_period,
        )
        evictor = Evictor(
            settings.eviction,
            NodeObservations(node, self._cri, {threshold.signal for threshold in settings.eviction.thresholds}),
            PodUsages(node, self._cri, agent.pleg.newest),
            agent.signals.evict,
            tidy_after=containers.tidy_after,
            reclaim=(lambda: containers.round(finished_too=True, seconds=RECLAIM_SECONDS), images.remove_unused),
            told=reporter.has_conditions,
            period=settings.eviction_period,
        )
        agent.tell(containers.observe)
        agent.tell(duplicates.observe)
        agent.beside("container garbage collection", containers.run)
        agent.beside("removal of gone pods", gone.run)
        agent.beside("orphans", orphans.run)
        agent.beside("duplicates", duplicates.run)
        agent.beside("eviction", evictor.run)
        agent.beside("node report", reporter.run)
        return evictor
