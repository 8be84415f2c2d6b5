"""Sets up housekeeping and eviction as background tasks of a node's agent."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Protocol

from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.agent import Agent
from syncpod.agent.eviction.evictor import RECLAIM_SECONDS, Evictor
from syncpod.agent.eviction.observations import NodeObservations
from syncpod.agent.eviction.shortage_usage import PodUsages
from syncpod.agent.eviction.storage_limits import LocalStorageEviction
from syncpod.agent.housekeeping.dead_containers import Collector, ContainerGc
from syncpod.agent.housekeeping.duplicates import Duplicates, Ender
from syncpod.agent.housekeeping.free_memory import FreeMemory, ProgramPages, free_worker_and_server, resident_bytes
from syncpod.agent.housekeeping.log_links import LogLinks
from syncpod.agent.housekeeping.node_history import NodeHistory
from syncpod.agent.housekeeping.orphans import Killer, Orphans
from syncpod.agent.housekeeping.removals import Removals, Remover
from syncpod.agent.housekeeping.report import NodeReporter, NodeReports
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.agent.storage.image_gc import ImageGc
from syncpod.agent.takeover.lock import NodeLife
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.housekeeping_settings import HousekeepingSettings
from syncpod.messages.identity import node_task_queue
from syncpod.translation.context import NodeContext


class GarbageCollector(Collector, Remover, Protocol):
    """Removes dead containers, old sandboxes and remains of pods; see `activities.between.collection`."""


class OrphanKiller(Killer, Ender, Protocol):
    """Ends orphans and duplicates; see `activities.between.orphans`."""


def add_housekeeping_tasks(
    agent: Agent,
    client: Client,
    node: NodeContext,
    cri: CriRuntime,
    life: NodeLife,
    settings: HousekeepingSettings,
    *,
    collector: GarbageCollector,
    killer: OrphanKiller,
    images: ImageGc,
    is_signed: bool = False,  # whether commands to the node are signed
) -> NodeReports:
    """Add all tasks to the agent, and return the node's report."""
    workflows = PodWorkflows(client, node_task_queue(node.name))
    containers = ContainerGc(
        node, collector, agent.pleg.listings, settings.containers, period=settings.containers_period
    )
    removals = _removals(agent, node, workflows, collector, settings)
    orphans = Orphans(
        node,
        workflows,
        cri,
        killer,
        NodeHistory(client, node.name, life.boot).coverage,
        begin_anew=agent.stuck_workflows.begin_anew,
        is_signed=is_signed,
        hand_over=removals.remove,
        period=settings.orphans_period,
    )
    reporter = NodeReporter(
        node.state_dir,
        (
            ("container garbage collection", settings.containers_period, lambda: containers.total, "dead"),
            ("removal of gone pods", settings.gone_pods_period, lambda: removals.total, "pods"),
            ("killing of orphans", settings.orphans_period, lambda: orphans.total, "orphans"),
        ),
        orphans=lambda: orphans.found,
        remains=lambda: removals.remains,
        obstacles=agent.obstacles,
    )
    evictor = _evictor(agent, node, cri, settings, containers, images, reporter)
    storage = LocalStorageEviction(node, cri, agent.pleg.newest, agent.signals.evict)
    agent.add_listing_watcher(containers.observe)
    agent.add_background_task("container garbage collection", containers.run)
    agent.add_background_task("orphans", orphans.run)
    agent.add_background_task("eviction", evictor.run)
    agent.add_background_task("storage limits", storage.run)
    agent.add_background_task("node report", reporter.run)
    _add_duplicates(agent, killer)
    _add_log_links(agent, node, settings.gone_pods_period)
    _add_memory_tasks(agent, node)
    return NodeReports(reporter.report, partial(_refresh, orphans, reporter))


async def _refresh(orphans: Orphans, reporter: NodeReporter) -> None:
    """Look for orphans now, and write the report. While server or runtime are away, the last known orphans stay."""
    with contextlib.suppress(RPCError, CriError, OSError):
        await orphans.round()
    await reporter.write()


def _removals(
    agent: Agent, node: NodeContext, workflows: PodWorkflows, remover: Remover, settings: HousekeepingSettings
) -> Removals:
    """Add the removals to the agent, and return them."""
    removals = Removals(
        node,
        workflows,
        remover,
        agent.pleg.listings,
        period=settings.gone_pods_period,
        min_age=settings.gone_pods_min_age,
        on_gone=agent.published_pods.forget,
    )
    agent.published_pods.watch_gone(removals.take)
    agent.add_background_task("removal of gone pods", removals.run)
    return removals


def _add_duplicates(agent: Agent, ender: Ender) -> None:
    duplicates = Duplicates(ender)
    agent.add_listing_watcher(duplicates.observe)
    agent.add_background_task("duplicates", duplicates.run)


def _add_log_links(agent: Agent, node: NodeContext, period: float) -> None:
    links = LogLinks(node.log_dir, agent.pleg.listings, period=period)
    agent.add_background_task("links to logs", links.run)


def _add_memory_tasks(agent: Agent, node: NodeContext) -> None:
    pages = ProgramPages(partial(free_worker_and_server, node.state_dir))
    memory = FreeMemory(resident_bytes)
    agent.add_listing_watcher(lambda _: pages.worked())
    agent.add_listing_watcher(lambda _: memory.worked())
    agent.add_background_task("program pages", pages.run)
    agent.add_background_task("free memory", memory.run)


def _evictor(
    agent: Agent,
    node: NodeContext,
    cri: CriRuntime,
    settings: HousekeepingSettings,
    containers: ContainerGc,
    images: ImageGc,
    reporter: NodeReporter,
) -> Evictor:
    return Evictor(
        settings.eviction,
        NodeObservations(node, cri, {threshold.signal for threshold in settings.eviction.thresholds}),
        PodUsages(node, cri, agent.pleg.newest),
        agent.signals.evict,
        pressure=agent.pressure,
        wait_for_cleanup=containers.wait_for_cleanup,
        reclaim=(lambda: containers.round(finished_too=True, seconds=RECLAIM_SECONDS), images.remove_unused),
        on_conditions=reporter.set_conditions,
        period=settings.eviction_period,
    )
