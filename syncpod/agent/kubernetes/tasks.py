"""Sets up the node's part in its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.background import until_one_fails
from syncpod.agent.kubernetes.bound_pods import BoundPods
from syncpod.agent.kubernetes.cluster_orders import ClusterOrders
from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.agent.kubernetes.given_objects import GivenObjects, used_objects
from syncpod.agent.kubernetes.mirror_pods import MirrorPods
from syncpod.agent.kubernetes.node_events import NodeEvents
from syncpod.agent.kubernetes.pod_cidr import PodCidr
from syncpod.agent.kubernetes.pod_events import PodEvents
from syncpod.agent.kubernetes.readiness_gates import ReadinessGates
from syncpod.agent.kubernetes.registration import Registration, machine
from syncpod.agent.kubernetes.runtime_classes import RuntimeClasses
from syncpod.agent.kubernetes.runtime_report import RuntimeReport
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.node_workflow.desired_pods import DesiredPods
from syncpod.agent.node_workflow.status import engine_version
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.cri.port import CriRuntime
from syncpod.fleet.offers import Taint
from syncpod.kubernetes.certificate_files import CertificateFile, client_file
from syncpod.kubernetes.certificate_rotation import Rotation
from syncpod.kubernetes.certificates import CLIENT_SIGNER, Wanted
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE, NodeStatus
from syncpod.messages.sources import list_of
from syncpod.objects import ObjectStore
from syncpod.pod import ObjectMeta
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext


def add_kubernetes_tasks(
    agent: Agent,
    client: Client,
    context: NodeContext,
    cri: CriRuntime,
    config: Kubeconfig,
    status: Callable[[], Awaitable[NodeStatus]],
    port: int,
    taints: Sequence[Taint],
    store: ObjectStore,
) -> None:
    """Have the node be part of a cluster for as long as the agent runs.

    `status` returns the node's own. `port` is the kubelet's; 0 = it has none. A Node that is made gets `taints`.
    `store` is the node's, and is given what pods of the cluster refer to.
    """
    link = _KubernetesLink(agent, client, context, cri, config, status, port, taints, store)
    agent.published_pods.watch(link.published)
    agent.published_pods.watch_gone(link.gone)
    agent.add_background_task("cluster", link.run)


class _KubernetesLink:
    def __init__(
        self,
        agent: Agent,
        client: Client,
        context: NodeContext,
        cri: CriRuntime,
        config: Kubeconfig,
        status: Callable[[], Awaitable[NodeStatus]],
        port: int,
        taints: Sequence[Taint],
        store: ObjectStore,
    ) -> None:
        self._agent, self._context, self._config, self._status = agent, context, config, status
        self._cri, self._runtime, self._store = cri, RuntimeReport(cri), store
        self._node, self._state_dir, self._port, self._taints = context.name, context.state_dir, port, taints
        self._workflows = PodWorkflows(client, node_task_queue(self._node))
        self._desired: DesiredPods | None = None
        self._deletions: Deletions | None = None
        self._statuses: StatusWriter | None = None
        self._events: PodEvents | None = None
        self._mirrors: MirrorPods | None = None
        self._gates: ReadinessGates | None = None
        self._has_started = False

    def published(self, state: Published) -> None:
        """Take a pod's newest state."""
        meta = state.metadata
        if list_of(meta) not in (KUBERNETES_SOURCE, FILE_SOURCE):
            return
        if self._events is not None:
            self._events.published(state)
        if self._desired is not None:
            self._desired.published(meta)
        if self._mirrors is not None:
            self._mirrors.published(state)
        if self._statuses is not None:
            self._statuses.published(_key(meta), state)
        if self._gates is not None:
            self._gates.changed(_key(meta))

    def gone(self, state: Published) -> None:
        """Take the last state of a pod."""
        meta = state.metadata
        if list_of(meta) not in (KUBERNETES_SOURCE, FILE_SOURCE):
            return
        if self._events is not None:
            self._events.published(state, is_gone=True)
        if list_of(meta) == FILE_SOURCE:
            if self._mirrors is not None:
                self._mirrors.gone(state)
            if self._statuses is not None:
                self._statuses.forget(_key(meta), meta.uid)
            return
        if self._desired is not None:
            self._desired.gone(meta, is_followed=state.is_followed)
        if self._statuses is not None:
            self._statuses.published(_key(meta), state)
        if self._deletions is not None:
            self._deletions.gone(meta.uid)

    async def run(self) -> None:
        """Be part of the cluster until cancelled."""
        agent, own = self._agent, client_file(self._state_dir)
        version = engine_version()
        async with ApiClient(self._config, user_agent=f"syncpod/{version}") as api:
            reflector = Reflector(api, "/api/v1/pods", "Pod", params={"fieldSelector": f"spec.nodeName={self._node}"})
            desired = DesiredPods(
                self._node,
                KUBERNETES_SOURCE,
                ClusterOrders(agent.pod_orders, agent.published_pods.pod),
                self._workflows,
                agent.published_pods.metadata,
                agent.own_server.require,
            )
            events = EventWriter(api, self._node)
            pod_events = PodEvents(events, self._state_dir)
            statuses = StatusWriter(api, lambda: reflector.objects, pod_events.refused)
            deletions = Deletions(api, agent.pod_orders, agent.own_server.require, self._workflows.standing, statuses)
            mirrors = MirrorPods(api, self._node, lambda: registration.uid, self._workflows.standing)
            objects = GivenObjects(api, self._store, used_objects(self._context), reflector.news.set)
            classes = RuntimeClasses(api, reflector.news.set)
            gates = ReadinessGates(lambda: reflector.objects, agent.published_pods.pod, agent.signals.set_condition)
            pods = BoundPods(reflector, desired, deletions, statuses, mirrors, objects, classes, gates)
            self._gates = gates
            self._desired, self._deletions, self._statuses = desired, deletions, statuses
            self._mirrors = mirrors
            self._events = pod_events
            node_events = NodeEvents(events, self._node, self._status)
            if not self._has_started:  # and not where this part alone begins again
                node_events.starting()
                self._has_started = True
            for state in agent.pods():
                self.published(state)
            registration = await self._registration(api, node_events)

            async def keep_mirrors() -> None:
                await registration.registered.wait()
                await mirrors.run()

            rotation = [Rotation(api, own, self._wanted, replaced=api.renew).run] if self._rotates(own) else []
            own_node = (registration.run, registration.follow, registration.renew_lease)
            runs = (
                *own_node,
                reflector.run,
                pods.run,
                statuses.run,
                gates.run,
                objects.run,
                classes.run,
                PodCidr(self._cri, registration.newest).run,
                keep_mirrors,
                pod_events.run,
                events.run,
                *rotation,
            )
            await until_one_fails([asyncio.ensure_future(run()) for run in runs])

    async def _registration(self, api: ApiClient, events: NodeEvents) -> Registration:
        return Registration(
            api,
            self._node,
            events.status,
            await asyncio.to_thread(machine),
            port=self._port,
            taints=self._taints,
            runtime=self._runtime.read,
            events=events,
        )

    def _rotates(self, own: CertificateFile) -> bool:
        """Say whether the kubeconfig has the certificate that the node has asked for. Others have theirs replaced."""
        path = self._config.certificate.path
        return path is not None and path.absolute() == own.path

    async def _wanted(self) -> Wanted:
        return Wanted(self._node, CLIENT_SIGNER)


def _key(meta: ObjectMeta) -> ObjectKey:
    return ObjectKey(meta.namespace, meta.name)
