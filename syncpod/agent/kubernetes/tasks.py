"""Sets up the node's part in its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.background import until_one_fails
from syncpod.agent.kubernetes.bound_pods import BoundPods
from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.registration import Registration, machine
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.node_workflow.desired_pods import DesiredPods
from syncpod.agent.node_workflow.status import engine_version
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import KUBERNETES_SOURCE, NodeStatus
from syncpod.messages.sources import list_of
from syncpod.pod import ObjectMeta
from syncpod.temporal.workflow_watch import Published


def add_kubernetes_tasks(
    agent: Agent, client: Client, node: str, config: Kubeconfig, status: Callable[[], Awaitable[NodeStatus]]
) -> None:
    """Have the node be part of a cluster for as long as the agent runs. `status` returns the node's own."""
    link = _KubernetesLink(agent, client, node, config, status)
    agent.published_pods.watch(link.published)
    agent.published_pods.watch_gone(link.gone)
    agent.add_background_task("cluster", link.run)


class _KubernetesLink:
    def __init__(
        self, agent: Agent, client: Client, node: str, config: Kubeconfig, status: Callable[[], Awaitable[NodeStatus]]
    ) -> None:
        self._agent, self._node, self._config, self._status = agent, node, config, status
        self._workflows = PodWorkflows(client, node_task_queue(node))
        self._desired: DesiredPods | None = None
        self._deletions: Deletions | None = None
        self._statuses: StatusWriter | None = None

    def published(self, state: Published) -> None:
        """Take a pod's newest state."""
        meta = state.metadata
        if list_of(meta) != KUBERNETES_SOURCE:
            return
        if self._desired is not None:
            self._desired.published(meta)
        if self._statuses is not None:
            self._statuses.published(_key(meta), state)

    def gone(self, state: Published) -> None:
        """Take the last state of a pod."""
        meta = state.metadata
        if list_of(meta) != KUBERNETES_SOURCE:
            return
        if self._desired is not None:
            self._desired.gone(meta, is_followed=state.is_followed)
        if self._statuses is not None:
            self._statuses.published(_key(meta), state)
        if self._deletions is not None:
            self._deletions.gone(meta.uid)

    async def run(self) -> None:
        """Be part of the cluster until cancelled."""
        agent = self._agent
        version = engine_version()
        async with ApiClient(self._config, user_agent=f"syncpod/{version}") as api:
            reflector = Reflector(api, "/api/v1/pods", "Pod", params={"fieldSelector": f"spec.nodeName={self._node}"})
            desired = DesiredPods(
                self._node,
                KUBERNETES_SOURCE,
                agent.pod_orders,
                self._workflows,
                agent.published_pods.metadata,
                agent.own_server.require,
            )
            statuses = StatusWriter(api, lambda: reflector.objects, lambda key, uid: pods.generation(key, uid))
            deletions = Deletions(api, agent.pod_orders, agent.own_server.require, self._workflows.standing, statuses)
            pods = BoundPods(reflector, desired, deletions, statuses)
            self._desired, self._deletions, self._statuses = desired, deletions, statuses
            for state in agent.pods():
                self.published(state)
            registration = Registration(api, self._node, self._status, await asyncio.to_thread(machine))
            runs = (registration.run, registration.renew_lease, reflector.run, pods.run, statuses.run)
            await until_one_fails([asyncio.ensure_future(run()) for run in runs])


def _key(meta: ObjectMeta) -> ObjectKey:
    return ObjectKey(meta.namespace, meta.name)
