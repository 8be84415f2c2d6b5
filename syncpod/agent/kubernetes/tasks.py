"""Sets up the node's part in its Kubernetes cluster, as a background task of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from syncpod.agent.agent import Agent
from syncpod.agent.background import until_one_fails
from syncpod.agent.joined_cluster import ClusterLink
from syncpod.agent.kubernetes.bound_pods import BoundPods
from syncpod.agent.kubernetes.cluster_orders import ClusterOrders
from syncpod.agent.kubernetes.csi_drivers import CsiDrivers
from syncpod.agent.kubernetes.csi_volumes import CsiVolumes, volumes_in_use
from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.driver_usage import DriverUsage
from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.agent.kubernetes.followed_claim import Claims
from syncpod.agent.kubernetes.given_objects import GivenObjects, used_objects
from syncpod.agent.kubernetes.mirror_pods import MirrorPods
from syncpod.agent.kubernetes.node_events import NodeEvents
from syncpod.agent.kubernetes.node_labels import ClusterLabels
from syncpod.agent.kubernetes.pod_cidr import PodCidr
from syncpod.agent.kubernetes.pod_events import PodEvents
from syncpod.agent.kubernetes.pod_resources import PodResourcesApi
from syncpod.agent.kubernetes.readiness_gates import ReadinessGates
from syncpod.agent.kubernetes.registration import Registration, machine
from syncpod.agent.kubernetes.runtime_classes import RuntimeClasses
from syncpod.agent.kubernetes.runtime_report import RuntimeReport
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.node_workflow.status import engine_version
from syncpod.agent.pod_workflows import PodWorkflows
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.agent.sources.desired_pods import DesiredPods
from syncpod.cri.port import CriRuntime
from syncpod.fleet.offers import Taint
from syncpod.kubernetes.certificate_files import CertificateFile, client_file
from syncpod.kubernetes.certificate_rotation import Rotation
from syncpod.kubernetes.certificates import CLIENT_SIGNER, WantedCertificate
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE, NodeStatus
from syncpod.objects import ObjectStore
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext


@dataclass(frozen=True, kw_only=True)
class ClusterMember:
    """A node that is part of a cluster, with its parts and settings."""

    agent: Agent
    client: Client
    context: NodeContext
    cri: CriRuntime
    config: Kubeconfig
    status: Callable[[], Awaitable[NodeStatus]]
    """Returns the node's own status."""
    port: int
    """The kubelet's port; 0 = there is none."""
    taints: Sequence[Taint]
    """The taints of a new Node."""
    store: ObjectStore
    """The node's store, which also keeps the objects to which the cluster's pods refer."""
    readings: NodeReadings | None
    """The node's readings; None = they are not served."""


def add_kubernetes_tasks(node: ClusterMember) -> None:
    """Connect the node with its cluster as long as the agent runs."""
    node.agent.add_background_task("cluster", _KubernetesLink(node).run)


@dataclass(frozen=True)
class _PodParts:
    """The parts that receive the published states of the node's pods, during one connection to the cluster."""

    events: PodEvents
    desired: DesiredPods
    mirrors: MirrorPods
    statuses: StatusWriter
    gates: ReadinessGates
    deletions: Deletions
    is_listed: Callable[[], bool]
    """Returns whether this worker has received a complete list of the API server's pods."""

    def published(self, state: Published) -> None:
        """Take a pod's newest state."""
        meta = state.metadata
        if list_of(meta) not in (KUBERNETES_SOURCE, FILE_SOURCE):
            return
        self.events.published(state)
        self.desired.published(state)
        self.mirrors.published(state)
        self.statuses.published(_key(meta), state)
        self.gates.changed(_key(meta))

    def gone(self, state: Published) -> None:
        """Take the last state of a pod."""
        meta = state.metadata
        if list_of(meta) not in (KUBERNETES_SOURCE, FILE_SOURCE):
            return
        self.events.published(state, is_gone=True)
        if list_of(meta) == FILE_SOURCE:
            self.mirrors.gone(state)
            self.statuses.forget(_key(meta), meta.uid)
            return
        self.desired.gone(state)
        if self.is_listed():
            self.statuses.gone(_key(meta), state)
        else:
            self.statuses.published(_key(meta), state)
        self.deletions.gone(meta.uid)


class _KubernetesLink:
    def __init__(self, node: ClusterMember) -> None:
        self._node, self._name, self._runtime = node, node.context.name, RuntimeReport(node.cri)
        self._workflows = PodWorkflows(node.client, node_task_queue(self._name))
        self._has_started = False

    async def run(self) -> None:
        """Connect to the cluster, and run all parts until cancelled."""
        node, agent, own = self._node, self._node.agent, client_file(self._node.context.state_dir)
        async with ApiClient(node.config, user_agent=f"syncpod/{engine_version()}") as api:
            reflector = Reflector(api, "/api/v1/pods", "Pod", params={"fieldSelector": f"spec.nodeName={self._name}"})
            events = EventWriter(api, self._name)
            node_events = NodeEvents(events, self._name, node.status)
            registration = await self._registration(api, node_events)
            drivers = CsiDrivers(api, self._name, node.context.state_dir, registration.newest)
            csi = CsiVolumes(api, node.store, drivers, node.context)
            parts = self._parts(api, reflector, events, registration)
            uses = used_objects(node.context)
            claims = Claims(api, node.store, registration.newest, csi, events.take)
            objects = GivenObjects(api, node.store, uses, reflector.news.set, claims)
            classes = RuntimeClasses(api, reflector.news.set)
            pods = BoundPods(
                reflector,
                parts.desired,
                parts.deletions,
                parts.statuses,
                parts.mirrors,
                objects,
                classes,
                parts.gates,
                ClusterLabels(api, node.context, registration.newest),
            )
            if not self._has_started:  # not again if only this task was restarted
                node_events.starting(
                    has_cgroup_v1=not node.context.host.unified_cgroups, limits_pods=node.context.pod_cgroups
                )
                self._has_started = True

            async def keep_mirrors() -> None:
                await registration.registered.wait()
                await parts.mirrors.run()

            rotation = [Rotation(api, own, self._wanted, replaced=api.renew).run] if self._rotates(own) else []
            own_node = (registration.run, registration.follow, registration.renew_lease)
            runs = (
                *own_node,
                reflector.run,
                pods.run,
                parts.statuses.run,
                parts.gates.run,
                *(drivers.run, *self._usage(drivers)),
                objects.run,
                classes.run,
                PodCidr(node.cri, registration.newest).run,
                PodResourcesApi(node.context.state_dir, lambda: [state.pod() for state in agent.task_watch.pods()]).run,
                keep_mirrors,
                parts.events.run,
                events.run,
                *rotation,
            )
            with agent.published_pods.watched(parts.published, parts.gone):
                for state in agent.task_watch.pods():
                    parts.published(state)
                link = ClusterLink(_finder(reflector), parts.events.happens, node_events.shutdown, node_events.server)
                agent.cluster.join(link)
                await until_one_fails([asyncio.ensure_future(run()) for run in runs])

    def _parts(
        self, api: ApiClient, reflector: Reflector, events: EventWriter, registration: Registration
    ) -> _PodParts:
        agent = self._node.agent
        pod_events = PodEvents(events, self._node.context.state_dir)
        statuses = StatusWriter(api, lambda: reflector.objects, pod_events.refused, reflector.lists)
        return _PodParts(
            events=pod_events,
            desired=DesiredPods(
                self._name,
                KUBERNETES_SOURCE,
                ClusterOrders(agent.pod_orders, agent.published_pods.pod),
                self._workflows,
                agent.task_watch.pods,
                agent.own_server.require,
            ),
            mirrors=MirrorPods(api, self._name, lambda: registration.uid, self._workflows.standing),
            statuses=statuses,
            gates=ReadinessGates(lambda: reflector.objects, agent.published_pods.pod, agent.signals.set_condition),
            deletions=Deletions(api, agent.pod_orders, agent.own_server.require, self._workflows.standing, statuses),
            is_listed=lambda: reflector.is_complete,
        )

    async def _registration(self, api: ApiClient, events: NodeEvents) -> Registration:
        async def more() -> Mapping[str, Any]:
            in_use = await asyncio.to_thread(volumes_in_use, self._node.store)
            return {**await self._runtime.read(), "volumesInUse": in_use}

        return Registration(
            api,
            self._name,
            events.status,
            await asyncio.to_thread(machine),
            port=self._node.port,
            taints=self._node.taints,
            runtime=more,
            events=events,
        )

    def _usage(self, drivers: CsiDrivers) -> Sequence[Callable[[], Awaitable[None]]]:
        """Return the task that gets the usage of drivers' volumes; empty if the readings are not served."""
        node = self._node
        return () if node.readings is None else (DriverUsage(node.readings, drivers, node.store, node.context).run,)

    def _rotates(self, own: CertificateFile) -> bool:
        """Say whether the kubeconfig uses the certificate that the node itself requested, and must rotate it."""
        path = self._node.config.certificate.path
        return path is not None and path.absolute() == own.path

    async def _wanted(self) -> WantedCertificate:
        return WantedCertificate(self._name, CLIENT_SIGNER)


def _finder(reflector: Reflector) -> Callable[[ObjectMeta], Mapping[str, Any] | None]:
    """Return a function that returns the cluster's Pod with the name and UID of some metadata; None = there is none."""

    def find(meta: ObjectMeta) -> Mapping[str, Any] | None:
        found = reflector.objects.get(_key(meta))
        return found if found is not None and found["metadata"].get("uid") == meta.uid else None

    return find


def _key(meta: ObjectMeta) -> ObjectKey:
    return ObjectKey(meta.namespace, meta.name)
