"""Assembles one node from its settings: its runtime, its server, its agent and its worker."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Worker

from activities.between.collection import Collector
from activities.between.orphans import OrphanEnder
from activities.between.tier_weights import keep_tiers_weighed
from activities.images.presence import image_id
from activities.node.context import Node
from activities.node.pulls import PullSettings
from activities.pods.cgroup import limit_pods
from syncpod.agent.agent import Agent
from syncpod.agent.fleet.link import to_gate
from syncpod.agent.fleet.runtime_facts import RuntimeFacts
from syncpod.agent.fleet.tasks import add_fleet_link
from syncpod.agent.housekeeping.report import NodeReports
from syncpod.agent.housekeeping.tasks import add_housekeeping_tasks
from syncpod.agent.node_api import add_node_api
from syncpod.agent.node_setup import image_gc_policy, node_context, prepare_memory
from syncpod.agent.node_workflow.tasks import add_node_workflow_tasks
from syncpod.agent.pod_source import NodePods
from syncpod.agent.runtime_version import FollowedVersion
from syncpod.agent.storage.former_secrets import FormerSecrets
from syncpod.agent.storage.image_gc import ImageGc
from syncpod.agent.storage.log_rotation import LogRotation
from syncpod.agent.takeover.awaited_runtime import AwaitedRuntime
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NodeLife, NodeLock
from syncpod.agent.takeover.preconditions import CannotServe, meet_runtime, require_cluster
from syncpod.agent.takeover.rival import refuse_rivals
from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.checked_settings import labels, shutdown_periods, sysctls, taints, verification
from syncpod.cri.client import CriClient
from syncpod.cri.port import RuntimeVersion
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.journal.file import Limits
from syncpod.kernel import early_listening
from syncpod.kernel.early_listening import Place
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages.identity import NodeFacts
from syncpod.messages.node import NodeStatus
from syncpod.messages.signature import Keys
from syncpod.node.kept_secrets import KeepingStore, remove_kept_secrets, restore_kept_secrets
from syncpod.node.pod_cgroups import remove_empty_tiers
from syncpod.node.reader import PodReader
from syncpod.node.secret_values import known_secret_values, may_have_unknown
from syncpod.node.seen_exits import DIRECTORY as EXITS
from syncpod.node.seen_exits import SeenExits
from syncpod.node.tombstones import prune_tombstones, remove_emptied_directories
from syncpod.objects import ObjectStore
from syncpod.redaction import of_process
from syncpod.settings.kept import KeptSettings, read_kept_settings, write_kept_settings
from syncpod.settings.membership import read_membership
from syncpod.settings.node import NodeSettings
from syncpod.settings.table import NODE, RUNTIME_ENDPOINT
from syncpod.settings.values import SettingsInvalid
from syncpod.settings.worker_record import WorkerRecord, write_worker_record
from syncpod.signing.codec_server import CodecServer
from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.plugin import connect
from syncpod.temporal.sdk_runtimes import logged_runtime
from syncpod.temporal.tracing import TracedSignals
from syncpod.translation.context import NodeContext
from syncpod.worker.log import outage
from syncpod.worker.served import ServedByNode
from syncpod.worker.temporal_worker import make_worker

if TYPE_CHECKING:
    from syncpod.agent.scraping.readings import NodeReadings
    from syncpod.kubernetes.kubeconfig import Kubeconfig

log = logging.getLogger("syncpod.worker")
_LOOPBACK = "127.0.0.1"
RELIST_POD_SECONDS = 1.0
"""How long a relist waits for one pod; a pod that takes longer is read separately, and delays no other."""


async def prepared(
    served: ServedByNode,
    settings: NodeSettings,
    connection: ClientConnectConfig,
    endpoint: str,
    cri: CriClient,
    lock: NodeLock,
    kept: KeptSettings,
    awaited: AwaitedRuntime,
) -> tuple[Worker, Agent, WorkerRecord]:
    """Return the node's worker, its agent and the worker's record, and keep the node's settings. Nothing runs yet.

    The caller holds the node's lock. Raises CannotServe, NoServer, RPCError, CriError.
    """
    life, task_queue, address = lock.life, served.task_queue(settings.node), connection["target_host"]
    _log_unsigned(settings, address)
    prepare_memory(settings)
    runtime = await meet_runtime(settings, kept, endpoint, cri, awaited)
    keys = _keys(settings)
    client = await connect(
        settings=connection, runtime=logged_runtime(), identity=life.identity, keys=keys, interceptors=[TracedSignals()]
    )
    cluster = await require_cluster(settings, kept, client, address)
    await refuse_rivals(client, task_queue, life)
    context = await node_context(settings, cri, endpoint, cluster=f"{cluster.partition('/')[0]}/{client.namespace}")
    facts = _facts(settings, runtime, context, await register_search_attributes(client))
    reader = await _reader(settings, cri, life, context)
    guard = ClusterGuard(client, cluster, node=settings.node, address=address)
    guard.watch(outage.looked)
    agent = Agent(
        client,
        task_queue=task_queue,
        life=life,
        cri=cri,
        reader=reader,
        context=context,
        facts=lambda: facts,
        keys=keys,
        journal=Limits(settings.journal.age, settings.journal.max_bytes),
        shutdown_periods=shutdown_periods(settings),
        guard=guard,
    )
    node = _node(settings, cri, reader, context, agent)
    await _tidy(node)
    reports = _add_housekeeping(settings, client, node, agent, life)
    pods = add_node_api(agent, client, context, reports.refresh)
    record = _worker_record(settings, client, address, task_queue, endpoint, runtime, life)
    followed = FollowedVersion(runtime, cri.version, partial(_note_version, settings, record))
    agent.add_background_task("runtime version", followed.run)
    readings = _add_servers(settings, agent, context, cri, keys, address)
    status = add_node_workflow_tasks(
        agent, client, context, life, lambda: followed.current, reports.now, settings.manifest_dir
    )
    _add_kubernetes(settings, agent, client, status, node, readings, pods)
    add_fleet_link(agent, client, context, served.fleet_activities, to_gate, endpoint, RuntimeFacts(cri))
    _keep(settings, KeptSettings({}, runtime.name, cluster, address, client.namespace), endpoint)
    return make_worker(served, client, node, agent, keys=keys), agent, record


def _facts(settings: NodeSettings, runtime: RuntimeVersion, context: NodeContext, search_attributes: bool) -> NodeFacts:
    return NodeFacts(
        name=settings.node,
        runtime=runtime.name,
        host_ips=context.host.addresses,
        recursive_read_only_handlers=context.recursive_read_only_handlers,
        restart_backoff_max=settings.restart_backoff_max,
        search_attributes=search_attributes,
    )


def _log_unsigned(settings: NodeSettings, address: str) -> None:
    """Log that anybody who reaches the Temporal server commands the node, unless commands are signed."""
    if settings.signed:
        return
    text = (
        "commands are not signed: every client of the Temporal server at %s can command node %s; --signed prevents that"
    )
    if os.geteuid() == 0:
        log.warning(f"{text}. THIS WORKER IS ROOT, SO THEY ARE ROOT ON THIS MACHINE", address, settings.node)
    else:
        log.info(text, address, settings.node)


def _keys(settings: NodeSettings) -> Keys | None:
    """Return the keys that sign commands and, if so set, encrypt data in Temporal; None = commands are not signed."""
    if not settings.signed:
        return None
    keys = make_signing_keys(settings.state_dir)
    return EncryptingKeys(keys) if settings.encrypt else keys


def _known_objects(settings: NodeSettings) -> ObjectStore:
    """Return the store of the node's ConfigMaps and Secrets. The process hides its Secrets' values from now on. Blocks.

    With `keep_secrets` the cluster's Secrets are first restored from disk; without it, such copies are removed.
    """
    objects = ObjectStore(settings.state_dir, settings.memory_dir)
    objects.begin_knowing()
    if not settings.keep_secrets:
        remove_kept_secrets(settings.state_dir)
    elif settings.kubeconfig is not None:
        restore_kept_secrets(settings.state_dir, objects)
    of_process.add(known_secret_values(objects))
    return objects


async def _reader(settings: NodeSettings, cri: CriClient, life: NodeLife, context: NodeContext) -> PodReader:
    """Return the reader that lists the node's pods. The process hides its Secrets' values from now on."""
    objects = await asyncio.to_thread(_known_objects, settings)
    return PodReader(
        cri,
        boot=life.boot,
        owner=settings.node,
        pod_timeout_seconds=RELIST_POD_SECONDS,
        exits=SeenExits(settings.state_dir / EXITS),
        withholds=partial(may_have_unknown, context, objects),
    )


def _node(settings: NodeSettings, cri: CriClient, reader: PodReader, context: NodeContext, agent: Agent) -> Node:
    """Return the node that the steps act on."""
    pulls = settings.image_pulls
    return Node(
        cri=cri,
        reader=reader,
        context=context,
        agent=agent.step_port,
        waiting_for=agent.waiting_for,
        unprobed=agent.unprobed,
        announcements=agent.announcements,
        running=agent.running,
        sysctls=sysctls(settings, os.uname().release),
        dead_kept=housekeeping_settings(settings.given).containers.per_container,
        pull_settings=PullSettings(pulls.at_once, verification(pulls), pulls.registry_auth_file),
    )


async def _tidy(node: Node) -> None:
    """Limit the resources of all pods together, and clean up after earlier workers.

    Empty cgroups, emptied directories and tombstones of pods are removed, and records of interrupted image pulls are
    completed.
    """
    await limit_pods(node)
    await asyncio.to_thread(remove_empty_tiers, node.context)
    await asyncio.to_thread(remove_emptied_directories, node.context)
    await asyncio.to_thread(prune_tombstones, node.context)
    await node.pulls.records.recover(lambda image: image_id(node.cri, image))


def _add_housekeeping(settings: NodeSettings, client: Client, node: Node, agent: Agent, life: NodeLife) -> NodeReports:
    """Add the node's upkeep to the agent: image and container collection, log rotation, and eviction.

    Returns the node's report.
    """
    context, cri = node.context, node.cri
    housekeeping = housekeeping_settings(settings.given)
    agent.add_background_task("former Secrets", FormerSecrets(context, node.objects, of_process).run)
    images = ImageGc(context, cri, image_gc_policy(settings.image_gc), node.pulls.records.prune)
    agent.add_background_task("image garbage collection", images.run)
    rotation = LogRotation(context.log_dir, cri, agent.pleg, settings.logs, threads=node.threads)
    agent.add_background_task("log rotation", rotation.run)
    agent.add_background_task("weights of QoS classes", partial(keep_tiers_weighed, node))
    return add_housekeeping_tasks(
        agent,
        client,
        context,
        cri,
        life,
        housekeeping,
        collector=Collector(node),
        killer=OrphanEnder(node),
        images=images,
        is_signed=settings.signed,
    )


def _add_servers(
    settings: NodeSettings, agent: Agent, context: NodeContext, cri: CriClient, keys: Keys | None, address: str
) -> NodeReadings | None:
    """Add the servers of metrics and of the codec to the agent, if the settings require them.

    Returns the node's readings for metrics; None = the node serves no metrics.
    """
    early_listening.keep(early_ports(settings, context.host.addresses))
    readings = None
    if settings.serves_metrics:
        # prometheus_client takes 40 ms of each start
        from syncpod.agent.scraping.task import add_node_endpoint, add_node_readings

        readings = add_node_readings(agent, context, cri)
        if settings.metrics_address:
            add_node_endpoint(agent, settings.metrics_address, readings)
    if keys is not None:
        agent.add_background_task("codec server", CodecServer(settings.state_dir, keys, address).run)
    return readings


def early_ports(settings: NodeSettings, addresses: Sequence[str]) -> list[Place]:
    """Return the addresses and ports at which a node listens for metrics and the kubelet's clients."""
    access, places = settings.port_access, []
    if settings.metrics_address:
        host, _, port = settings.metrics_address.rpartition(":")
        places.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if settings.serves_kubelet_port:
        places += [(each, settings.kubelet_port) for each in ([access.address] if access.address else addresses)]
    if access.read_only:
        places.append((access.address or _LOOPBACK, access.read_only))
    return places


def _add_kubernetes(
    settings: NodeSettings,
    agent: Agent,
    client: Client,
    status: Callable[[], Awaitable[NodeStatus]],
    node: Node,
    readings: NodeReadings | None,
    pods: NodePods,
) -> None:
    """Make the node part of a cluster, and serve the Pods API and the kubelet's port, as the settings require.

    Raises CannotServe.
    """
    _add_pods_api(settings, agent, status)
    if settings.kubeconfig is None:
        _add_port(settings, agent, None, node, readings, pods, client)
        return
    from syncpod.agent.kubernetes.tasks import ClusterMember, add_kubernetes_tasks  # aiohttp takes 11 MiB
    from syncpod.kubernetes.kubeconfig import KubeconfigInvalid, read_kubeconfig, require_usable

    if read_membership(settings.state_dir) is not None:
        raise CannotServe("the node is part of a fleet, so it cannot be part of a cluster too: see --no-kubeconfig")
    try:
        config = read_kubeconfig(settings.kubeconfig)
        require_usable(config, settings.node)
    except KubeconfigInvalid as wrong:
        raise CannotServe(f"kubeconfig {wrong}") from None
    if config.insecure:
        log.warning(
            "%s: insecure-skip-tls-verify: the API server's certificate is not verified: anybody on the network "
            "path can impersonate the server",
            config.path,
        )
    port = _add_port(settings, agent, config, node, readings, pods, client)
    kind = KeepingStore if settings.keep_secrets else ObjectStore
    store = kind(settings.state_dir, settings.memory_dir)
    member = ClusterMember(
        agent=agent,
        client=client,
        context=node.context,
        cri=node.cri,
        config=config,
        status=status,
        port=port,
        taints=taints(settings),
        store=store,
        readings=readings,
    )
    add_kubernetes_tasks(member)


def _add_pods_api(settings: NodeSettings, agent: Agent, status: Callable[[], Awaitable[NodeStatus]]) -> None:
    """Serve the kubelet's Pods API to programs on the machine, if the settings require it."""
    if settings.pods_api:
        from syncpod.agent.pods_api import add_pods_api

        add_pods_api(agent, settings.state_dir, status)


def _add_port(
    settings: NodeSettings,
    agent: Agent,
    config: Kubeconfig | None,
    node: Node,
    readings: NodeReadings | None,
    pods: NodePods,
    client: Client,
) -> int:
    """Add the kubelet's port to the agent, and return its number; 0 = it is not served. Raises CannotServe."""
    if readings is None or not (settings.serves_kubelet_port or settings.port_access.read_only):
        return 0
    from syncpod.agent.kubelet_port.setup import add_kubelet_port  # aiohttp takes 11 MiB

    try:
        return add_kubelet_port(agent, settings, config, node.context, node.cri, readings, pods, node.threads, client)
    except (SettingsInvalid, OSError) as wrong:
        raise CannotServe(where_and_why(wrong)) from None


def _worker_record(
    settings: NodeSettings,
    client: Client,
    address: str,
    task_queue: str,
    endpoint: str,
    runtime: RuntimeVersion,
    life: NodeLife,
) -> WorkerRecord:
    """Return the state directory's record of this worker."""
    return WorkerRecord(
        pid=os.getpid(),
        identity=life.identity,
        node=settings.node,
        endpoint=endpoint,
        runtime=_called(runtime),
        address=address,
        namespace=client.namespace,
        task_queue=task_queue,
        boot=life.boot,
        memory_dir=str(settings.memory_dir),
        manifest_dir=str(settings.manifest_dir or ""),
        kubeconfig=str(settings.kubeconfig or ""),
        metrics_address=settings.metrics_address,
        labels=dict(labels(settings)),
    )


def _called(runtime: RuntimeVersion) -> str:
    return f"{runtime.name} {runtime.version}"


def _note_version(settings: NodeSettings, record: WorkerRecord, runtime: RuntimeVersion) -> None:
    """Record the runtime's new version in the state directory. Raises OSError."""
    write_worker_record(settings.state_dir, replace(record, runtime=_called(runtime)))


def _keep(settings: NodeSettings, kept: KeptSettings, endpoint: str) -> None:
    """Keep the node's settings for its next start. Raises CannotServe: on a full disk no pod could start either."""
    kept = replace(
        kept, variables={**settings.given, NODE.variable: settings.node, RUNTIME_ENDPOINT.variable: endpoint}
    )
    try:
        if kept != read_kept_settings(settings.state_dir):
            write_kept_settings(settings.state_dir, kept)
    except OSError as error:
        raise CannotServe(f"state directory {settings.state_dir}: {error.strerror}") from error
