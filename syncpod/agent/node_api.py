"""Serves the node's API from the agent's parts, as a background task of a node's agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.api_server import ApiServer
from syncpod.agent.open_pods import OpenPods
from syncpod.agent.orphaned_pods import OrphanedPods
from syncpod.agent.pod_source import NodePods
from syncpod.messages.identity import node_task_queue
from syncpod.translation.context import NodeContext


def add_node_api(
    agent: Agent, client: Client, context: NodeContext, refresh_report: Callable[[], Awaitable[None]]
) -> NodePods:
    """Serve the API as long as the agent runs, and return the pods from which it answers.

    `refresh_report` brings the node's report up to date.
    """
    open_pods = OpenPods(client, agent.guard.require, node_task_queue(context.name))
    pods = NodePods(
        context,
        agent.published_pods,
        open_pods=open_pods,
        orphaned=OrphanedPods(context, agent.pleg.listings, open_pods),
        unreported=agent.prober.unreported,
        running=agent.running,
        settle_journal=agent.journal.settle,
        refresh_report=refresh_report,
    )
    agent.add_background_task("the node's API", ApiServer(pods).run)
    return pods
