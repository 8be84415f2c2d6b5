"""What of the agent speaks to the node's own workflow: its status, and the pods of its manifest directory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from syncpod.agent.agent import Agent
from syncpod.agent.housekeeping.pod_workflows import PodWorkflows
from syncpod.agent.node_workflow.manifest_files import ManifestFiles
from syncpod.agent.node_workflow.manifest_source import ManifestSource
from syncpod.agent.node_workflow.recalled_pods import RecalledPods
from syncpod.agent.node_workflow.signals import NodeSignals
from syncpod.agent.node_workflow.status import NodeStatusTeller, node_info
from syncpod.agent.takeover.boot import Takeover
from syncpod.agent.takeover.lock import NodeLife
from syncpod.cri.port import RuntimeVersion
from syncpod.messages import node_task_queue
from syncpod.messages.node import FILE_SOURCE, node_workflow_id
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 30.0
"""How often it is looked whether the node's workflow still runs, and still knows what it was told."""
_RETRY_SECONDS: Final = 5.0


def keep_node(
    agent: Agent,
    client: Client,
    context: NodeContext,
    life: NodeLife,
    version: RuntimeVersion,
    manifest_dir: Path | None,
) -> None:
    """Have the node's workflow run, and told what there is to tell, as long as the agent does."""
    task_queue = node_task_queue(context.name)
    signals = NodeSignals(client, context.name)
    workflows = PodWorkflows(client, task_queue)
    recalled = RecalledPods(context, workflows, signals.recall_pods)
    sources: dict[str, Callable[[], bool]] = {}
    told: list[ManifestSource | NodeStatusTeller] = []
    if manifest_dir is not None:
        files = ManifestFiles(manifest_dir, context.name, context.state_dir)
        manifests = ManifestSource(files, workflows, signals.sync_pods, boot=life.boot)
        sources[FILE_SOURCE] = lambda: manifests.reported
        told.append(manifests)
        agent.beside("manifests", manifests.run)

    def obstacles() -> tuple[str, ...]:
        pleg = agent.pleg.unhealthy()
        unhealthy = (f"PLEG is not healthy: {pleg}",) if pleg else ()
        return (*agent.readiness.obstacles.values(), *unhealthy)

    teller = NodeStatusTeller(
        context, life, node_info(version), signals.node_status, obstacles=obstacles, sources=sources
    )
    told.append(teller)
    takeover = Takeover(client, task_queue, life.identity)

    async def tell() -> None:
        await _take_over(takeover, node_workflow_id(context.name))
        await teller.run()

    async def watch() -> None:
        was_there = False
        while True:
            try:
                view = await signals.view()
                if view is None and was_there:
                    log.warning("the workflow of node %s has been ended: it is begun anew", context.name)
                for each in told:
                    if (view is None and was_there) or (view is not None and not each.is_known(view)):
                        each.forget()
                was_there = view is not None
                if count := await recalled.round(view):
                    log.info("told the node %d pods that were made for lists before its workflow began", count)
            except (RPCError, WorkflowQueryFailedError, OSError, ValueError) as error:
                log.debug("what the node's workflow knows cannot be looked at: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await asyncio.sleep(LOOK_SECONDS)

    agent.beside("node status", tell)
    agent.beside("the node's workflow", watch)


async def _take_over(takeover: Takeover, workflow_id: str) -> None:
    """Have what the node's workflow began with the last worker go on at once; else timeouts do that."""
    try:
        await asyncio.wait_for(takeover.take(workflow_id), 10)
    except (RPCError, TimeoutError) as error:
        log.warning("workflow %s cannot be taken over: %s", workflow_id, error)
