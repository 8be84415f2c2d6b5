"""Sets up the agent's reports to the node's own workflow: the node's status, and the pods of its manifests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from syncpod.agent.agent import Agent
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.agent.node_workflow.recalled_pods import RecalledPods
from syncpod.agent.node_workflow.status import NodeStatusReporter, node_info
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.agent.sources.desired_pods import DesiredPods
from syncpod.agent.sources.manifest_files import ManifestFiles
from syncpod.agent.sources.manifest_report import ManifestReport
from syncpod.agent.sources.manifest_source import ManifestSource
from syncpod.agent.takeover.lock import NodeLife
from syncpod.agent.takeover.pods import Takeover
from syncpod.cri.port import RuntimeVersion
from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import FILE_SOURCE, NodeStatus, NodeView, node_workflow_id
from syncpod.node.recorded_events import recorded_start
from syncpod.node.report import NodeReport
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 30.0
"""Seconds between two checks that the node's workflow still runs, and still has the node's reports."""
_RETRY_SECONDS: Final = 5.0
_TAKEOVER_SECONDS: Final = 10.0


def add_node_workflow_tasks(
    agent: Agent,
    client: Client,
    context: NodeContext,
    life: NodeLife,
    version: Callable[[], RuntimeVersion],
    report_now: Callable[[], NodeReport],
    manifest_dir: Path | None,
) -> Callable[[], Awaitable[NodeStatus]]:
    """Start the node's workflow, and keep it up to date, as long as the agent runs.

    `version` returns the current name and version of the runtime, and `report_now` the report of the node's
    housekeeping. The returned function returns the node's status.
    """
    task_queue = node_task_queue(context.name)
    signals = NodeSignals(
        client,
        context.name,
        agent.own_server.require,
        agent.has_search_attributes,
        partial(recorded_start, context.state_dir, context.name),
    )
    workflows = PodWorkflows(client, task_queue)

    sources: dict[str, Callable[[], bool]] = {}
    reporters: list[ManifestReport | NodeStatusReporter] = []
    if manifest_dir is not None:
        report = _add_manifests(
            agent, ManifestFiles(manifest_dir, context.name, context.state_dir), workflows, signals, life
        )
        sources[FILE_SOURCE] = lambda: report.reported
        reporters.append(report)
    info = lru_cache(maxsize=1)(node_info)  # it reads files, and is called every two seconds
    status = NodeStatusReporter(
        context,
        life,
        lambda: info(version()),
        signals.node_status,
        report=report_now,
        obstacles=agent.obstacles,
        sources=sources,
    )
    agent.guard.watch_outages(status.outage)
    reporters.append(status)
    takeover = Takeover(client, task_queue, life.identity)

    async def report_status() -> None:
        await _take_over(takeover, node_workflow_id(context.name))
        await status.run()

    recalled = RecalledPods(agent.published_pods.metadata, signals.recall_pods)
    check = _WorkflowCheck(context.name, signals, recalled, reporters)
    agent.add_background_task("node status", report_status)
    agent.add_background_task("check of the node's workflow", check.run)
    return status.current


def _add_manifests(
    agent: Agent, files: ManifestFiles, workflows: PodWorkflows, signals: NodeSignals, life: NodeLife
) -> ManifestReport:
    pods = DesiredPods(
        files.node, FILE_SOURCE, agent.pod_orders, workflows, agent.task_watch.pods, agent.own_server.require
    )
    report = ManifestReport(pods, signals.static_pods, boot=life.boot, settle=files.settle)
    source = ManifestSource(files, pods, report)
    agent.published_pods.watch(pods.published)
    agent.published_pods.watch_gone(pods.gone)
    agent.add_background_task("manifests", source.run)
    agent.add_background_task("report of the manifests' pods", report.run)
    return report


async def _take_over(takeover: Takeover, workflow_id: str) -> None:
    """Take over the node's workflow from the previous worker, so that it need not wait for timeouts."""
    try:
        async with asyncio.timeout(_TAKEOVER_SECONDS):
            await takeover.take(workflow_id)
    except (RPCError, TimeoutError) as error:
        log.warning("workflow %s cannot be taken over: %s", workflow_id, error)


class _WorkflowCheck:
    """Checks that the node's workflow has the node's reports, and repeats them after the workflow was restarted."""

    def __init__(
        self,
        node: str,
        signals: NodeSignals,
        recalled: RecalledPods,
        reporters: list[ManifestReport | NodeStatusReporter],
    ) -> None:
        self._node = node
        self._signals = signals
        self._recalled = recalled
        self._reporters = reporters
        self._was_running = False

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            try:
                await self.check()
            except (RPCError, WorkflowQueryFailedError, OSError, ValueError) as error:
                log.debug("the node's workflow cannot be checked: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def check(self) -> None:
        """Check once. Raises RPCError, WorkflowQueryFailedError, OSError, ValueError."""
        if another := await self._signals.end_another():
            log.warning("%s had the id of the workflow of node %s: it is terminated", another, self._node)
        view = await self._signals.view()
        has_ended = bool(another) or (view is None and self._was_running)
        if has_ended:
            log.warning("the workflow of node %s has ended: it is started again", self._node)
        for reporter in self._reporters:
            if has_ended or _lacks(view, reporter):
                reporter.forget()
        self._was_running = view is not None
        if count := await self._recalled.round(view):
            log.info("reported %d earlier pods of lists to the node's new workflow", count)


def _lacks(view: NodeView | None, reporter: ManifestReport | NodeStatusReporter) -> bool:
    return view is not None and not reporter.is_known(view)
