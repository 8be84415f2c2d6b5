"""One node's worker: the pods' workflows, the steps that act on its runtime, and the node agent.

``python worker.py`` serves this machine, with any Temporal server that the ``temporal`` CLI would find (environment and
temporal.toml). It says one line on standard output when it serves, logs to standard error, and ends at SIGTERM or
SIGINT; the pods run on. Exit codes: 0 asked to end, 1 a defect, 2 cannot serve, with one sentence that says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from importlib import metadata
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from activities.between.collection import Collector
from activities.between.orphans import OrphanKiller
from activities.fleet_errand import errand_answer
from activities.fleet_node import fleet_answers
from activities.images.presence import image_id
from activities.node.context import Node
from activities.node.pulls import PullSettings
from activities.pods.cgroup import limit_pods
from activities.registry import node_steps, questions, steps
from syncpod import telemetry
from syncpod.agent.agent import Agent
from syncpod.agent.fleet.link import to_gate
from syncpod.agent.fleet.member import Member
from syncpod.agent.fleet.tasks import add_fleet_link
from syncpod.agent.housekeeping.tasks import add_housekeeping_tasks
from syncpod.agent.loop_watchdog import LoopWatchdog
from syncpod.agent.node_setup import (
    image_gc_policy,
    node_context,
    prepare_memory,
)
from syncpod.agent.node_workflow.tasks import add_node_workflow_tasks
from syncpod.agent.runtime_version import FollowedVersion
from syncpod.agent.server_outage import ServerOutage
from syncpod.agent.storage.former_secrets import FormerSecrets
from syncpod.agent.storage.image_gc import ImageGc
from syncpod.agent.storage.log_rotation import LogRotation
from syncpod.agent.takeover.awaited_runtime import AwaitedRuntime
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NodeLife, NodeLock, NotThisNode
from syncpod.agent.takeover.preconditions import (
    CannotServe,
    awaited_socket,
    meet_runtime,
    require_cluster,
    require_directory,
    require_same_node,
    take_lock,
)
from syncpod.agent.takeover.rival import HEARTBEAT, refuse_rivals
from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.agent.unknown_types import UnknownTypes
from syncpod.checked_settings import labels, sysctls, verification
from syncpod.collector_outage import CollectorLog
from syncpod.counters import begin_at_zero
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.cri.port import RuntimeVersion
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.journal.file import Limits
from syncpod.kernel import accepts
from syncpod.kernel.daemon_thread import started_pool
from syncpod.kernel.libc import map_large_blocks
from syncpod.kernel.oom_score import NODE as OOM_SCORE
from syncpod.kernel.oom_score import lower_oom_score_adj
from syncpod.kernel.priority import prefer_this_process
from syncpod.kernel.service_notification import notify_ready
from syncpod.lifecycle import version
from syncpod.messages.identity import NodeFacts, node_task_queue
from syncpod.messages.signature import Keys
from syncpod.node.begun_runs import BegunRuns
from syncpod.node.deleted_pods import tidy_deleted
from syncpod.node.pod_cgroups import remove_empty_tiers
from syncpod.node.reader import PodReader
from syncpod.node.secret_values import known_secret_values, may_have_unknown
from syncpod.node.seen_exits import DIRECTORY as EXITS
from syncpod.node.seen_exits import SeenExits
from syncpod.objects import ObjectStore
from syncpod.redaction import of_process
from syncpod.settings.command_line import parse_arguments
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.kept import (
    KeptSettings,
    read_kept_settings,
    write_kept_settings,
)
from syncpod.settings.node import NodeSettings
from syncpod.settings.variables import NODE, RUNTIME_ENDPOINT
from syncpod.settings.worker_record import WorkerRecord, remove_worker_record, write_worker_record
from syncpod.signing.codec_server import CodecServer
from syncpod.signing.encrypting_keys import EncryptingKeys
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.hiding import HiddenInLog
from syncpod.temporal.json_logs import JsonFormatter
from syncpod.temporal.plugin import NoServer, connect, connection_settings, syncpod_plugin, verifying
from syncpod.temporal.pod_orders import STARTS_AT_ONCE
from syncpod.temporal.step_cancellation import StepCancellation
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE, STICKY_QUEUE
from syncpod.temporal.tracing import TracedSignals
from syncpod.translation.context import NodeContext
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner
from workflows.source_digest import source_digest

log = logging.getLogger("syncpod.worker")
outage = ServerOutage()
"""What this process's log says while the Temporal server is away."""
unknown_types = UnknownTypes()

RELIST_POD_SECONDS = 1.0
"""How long a relist waits for one pod; a pod that takes longer is read separately, and delays no other."""
GRACE = timedelta(seconds=5)
"""How long steps may continue after SIGTERM. Then they let go at a safe point, and the next worker continues them."""
WORKFLOW_TASKS_AT_ONCE = 24
"""How many polls wait for workflow tasks. A task for which none waits is written to the server's database first. With
more, more workflows would be replayed at once after a restart of the worker, and each task has ten seconds for that."""
_POLLS_FOR_ANY_WORKER = 4
"""How many of these polls wait for tasks of workflows that this worker does not have in its cache."""
EAGER_STARTS_AT_ONCE = STARTS_AT_ONCE
"""Workflow tasks beside those: the first ones of pods, which the server hands over with the answer to their start. The
others' places are held by polls that wait for tasks."""
UNLIMITED_PODS = 10_000
"""The number of pods assumed for a node without a limit."""
SPARE_WORKFLOWS = 100
"""Cached workflows in addition to those of admitted pods: the node's own, and those of rejected pods."""
_LARGE_BLOCK_BYTES = 1024 * 1024
"""The answer to an exec probe may have 16 MiB, and each such block would otherwise stay with the process."""
_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of the event loop's pool: as many as asyncio would begin when they are needed."""
PATIENCE_SECONDS = 20.0
"""How long the process waits for calls that were sent to the runtime; RunPodSandbox alone may take four minutes."""


class _AskedToStop(Exception):
    """The worker was asked to end before it served."""


_Result = TypeVar("_Result")
CriOf = Callable[[str], CriClient]


async def serve(settings: NodeSettings, connection: ClientConnectConfig, stop: asyncio.Event, cri_of: CriOf) -> None:
    """Serve the node until `stop`. Raises CannotServe, SettingsInvalid; anything else is a defect."""
    await require_directory(settings.manifest_dir)
    kept, awaited = read_kept_settings(settings.state_dir), AwaitedRuntime()
    with contextlib.suppress(_AskedToStop), contextlib.ExitStack() as last:
        endpoint = await _unless(stop, awaited_socket(settings, kept, awaited))
        await require_same_node(settings, kept, endpoint)
        async with cri_of(endpoint) as cri:
            with take_lock(settings) as lock, _refusals(endpoint, connection["target_host"]):
                recording = telemetry.configure(
                    service="syncpod-worker", instance=lock.life.identity, scraped=bool(settings.metrics_address)
                )
                begin_at_zero()
                last.callback(recording.flush)  # it may take a while: the node is free again before that
                preparing = _prepared(settings, connection, endpoint, cri, lock, kept, awaited)
                worker, agent, record = await _unless(stop, preparing)
                with LoopWatchdog(settings.state_dir):
                    await _run(worker, agent, record, settings, stop)


def _tell_who_commands(settings: NodeSettings, address: str) -> None:
    """Say in the log that whoever reaches the Temporal server commands the node, unless commands are signed."""
    if settings.signed:
        return
    text = "commands are not signed: whoever reaches the Temporal server at %s commands node %s; --signed changes that"
    if os.geteuid() == 0:
        log.warning(f"{text}. THIS WORKER IS ROOT, SO THEY ARE ROOT ON THIS MACHINE", address, settings.node)
    else:
        log.info(text, address, settings.node)


async def _unless(stop: asyncio.Event, doing: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what `doing` returns. Raises _AskedToStop at `stop`: then it has been cancelled."""
    done, stopping = asyncio.create_task(doing), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({done, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise _AskedToStop
        return await done
    finally:
        for task in (done, stopping):
            task.cancel()
        await asyncio.wait({done, stopping})


async def _prepared(
    settings: NodeSettings,
    connection: ClientConnectConfig,
    endpoint: str,
    cri: CriClient,
    lock: NodeLock,
    kept: KeptSettings,
    awaited: AwaitedRuntime,
) -> tuple[Worker, Agent, WorkerRecord]:
    """Assemble the node, with its lock held, and keep its settings. Raises the errors that `_refusals` converts."""
    life, task_queue, address = lock.life, node_task_queue(settings.node), connection["target_host"]
    _tell_who_commands(settings, address)
    prepare_memory(settings)
    runtime = await meet_runtime(settings, kept, endpoint, cri, awaited)
    keys = _keys(settings)
    client = await connect(
        settings=connection, runtime=_runtime(), identity=life.identity, keys=keys, interceptors=[TracedSignals()]
    )
    cluster = await require_cluster(settings, kept, client, address)
    await refuse_rivals(client, task_queue, life)
    named = f"{cluster.partition('/')[0]}/{client.namespace}"
    context = await node_context(settings, cri, endpoint, cluster=named)
    facts = NodeFacts(
        name=settings.node,
        runtime=runtime.name,
        host_ips=context.host.addresses,
        recursive_read_only_handlers=context.recursive_read_only_handlers,
        search_attributes=await register_search_attributes(client),
    )
    objects = await asyncio.to_thread(_known_objects, settings)
    reader = _reader(settings, cri, life, partial(may_have_unknown, context, objects))
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
        guard=ClusterGuard(client, cluster, node=settings.node, address=address, answered=outage.over),
    )
    node = _node(settings, cri, reader, context, facts, agent)
    await limit_pods(node)
    await asyncio.to_thread(remove_empty_tiers, context)
    await asyncio.to_thread(tidy_deleted, context)
    await node.pulls.records.recover(lambda image: image_id(cri, image))
    _add_housekeeping(settings, client, node, agent, life)
    record = _worker_record(settings, client, address, endpoint, runtime, life)
    followed = FollowedVersion(runtime, cri.version, partial(_note_version, settings, record))
    agent.add_background_task("runtime version", followed.run)
    _add_servers(settings, agent, context, cri, keys, address)
    add_node_workflow_tasks(agent, client, context, life, lambda: followed.current, settings.manifest_dir)
    add_fleet_link(agent, client, context, _fleet_answers, to_gate(), endpoint)
    worker = make_worker(client, node, agent, task_queue=task_queue, identity=life.identity, keys=keys)
    _keep(settings, KeptSettings({}, runtime.name, cluster, address, client.namespace), endpoint)
    return worker, agent, record


def _known_objects(settings: NodeSettings) -> ObjectStore:
    """Return the node's ConfigMaps and Secrets, with all values of Secrets hidden from then on. Blocks."""
    objects = ObjectStore(settings.state_dir, settings.memory_dir)
    objects.begin_knowing()
    of_process.add(known_secret_values(objects))
    return objects


def _fleet_answers(member: Member) -> list[Callable[..., Any]]:
    """Return the activities with which the node answers its fleet."""
    return [*fleet_answers(member), errand_answer(member.run)]


def _keys(settings: NodeSettings) -> Keys | None:
    """Return the keys with which the node's commands are signed, and what it has in Temporal is perhaps encrypted."""
    if not settings.signed:
        return None
    keys = make_signing_keys(settings.state_dir)
    return EncryptingKeys(keys) if settings.encrypt else keys


@contextlib.contextmanager
def _refusals(endpoint: str, address: str) -> Iterator[None]:
    """Convert errors of the runtime and the Temporal server in the block to CannotServe."""
    try:
        yield
    except (NoServer, NotThisNode) as refusal:
        raise CannotServe(str(refusal)) from refusal
    except RPCError as error:
        raise CannotServe(f"the Temporal server at {address} fails: {error.message}") from error
    except CriError as error:
        raise CannotServe(f"the runtime at {endpoint} fails: {error}") from error


def _reader(
    settings: NodeSettings, cri: CriClient, life: NodeLife, withholds: Callable[[str, datetime | None], bool]
) -> PodReader:
    """Return the reader that lists the node's pods."""
    return PodReader(
        cri,
        boot=life.boot,
        owner=settings.node,
        pod_timeout_seconds=RELIST_POD_SECONDS,
        exits=SeenExits(settings.state_dir / EXITS),
        withholds=withholds,
    )


def _node(
    settings: NodeSettings, cri: CriClient, reader: PodReader, context: NodeContext, facts: NodeFacts, agent: Agent
) -> Node:
    """Return the node that the steps act on."""
    pulls = settings.image_pulls
    return Node(
        cri=cri,
        reader=reader,
        context=context,
        facts=lambda: facts,
        returned=agent.listing_returned,
        acts=agent.step_acts,
        has_room=agent.room_freed,
        waiting_for=agent.waiting_for,
        unprobed=agent.unprobed,
        announcements=agent.announcements,
        running=agent.running,
        adopted=agent.pod_adopted,
        was_deleted=agent.pod_was_deleted,
        journal=agent.journal.keep,
        sysctls=sysctls(settings, os.uname().release),
        pull_settings=PullSettings(pulls.at_once, verification(pulls), pulls.registry_auth_file),
    )


def _add_housekeeping(settings: NodeSettings, client: Client, node: Node, agent: Agent, life: NodeLife) -> None:
    """Have the agent also collect images and dead containers, rotate logs, and evict pods."""
    context, cri = node.context, node.cri
    housekeeping = housekeeping_settings(os.environ)
    agent.add_background_task("former Secrets", FormerSecrets(context, node.objects, of_process).run)
    images = ImageGc(context, cri, image_gc_policy(settings.image_gc), node.pulls.records.prune)
    agent.add_background_task("image garbage collection", images.run)
    rotation = LogRotation(context.log_dir, cri, agent.pleg, settings.logs, threads=node.threads)
    agent.add_background_task("log rotation", rotation.run)
    evictor = add_housekeeping_tasks(
        agent,
        client,
        context,
        cri,
        life,
        housekeeping,
        collector=Collector(node),
        killer=OrphanKiller(node),
        images=images,
        is_signed=settings.signed,
    )
    node.dead_kept, node.pressure = housekeeping.containers.per_container, evictor.admission_refusal


def _add_servers(
    settings: NodeSettings, agent: Agent, context: NodeContext, cri: CriClient, keys: Keys | None, address: str
) -> None:
    """Have the agent also serve metrics and a codec, where the settings ask for them."""
    if settings.metrics_address:
        from syncpod.agent.scraping.task import add_node_endpoint  # prometheus_client takes 40 ms of each start

        add_node_endpoint(agent, settings.metrics_address, context, cri)
    if keys is not None:
        agent.add_background_task("codec server", CodecServer(settings.state_dir, keys, address).run)


def _worker_record(
    settings: NodeSettings, client: Client, address: str, endpoint: str, runtime: RuntimeVersion, life: NodeLife
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
        task_queue=node_task_queue(settings.node),
        boot=life.boot,
        memory_dir=str(settings.memory_dir),
        manifest_dir=str(settings.manifest_dir or ""),
        metrics_address=settings.metrics_address,
        labels=dict(labels(settings)),
    )


def make_worker(
    client: Client, node: Node, agent: Agent, *, task_queue: str, identity: str, keys: Keys | None = None
) -> Worker:
    """Return the Temporal worker of a node, not yet running. With `keys`, it takes only what is signed."""
    begun = None if keys is None else BegunRuns(node.context.state_dir).refusal
    return Worker(
        client if keys is None else verifying(client, keys),
        task_queue=task_queue,
        identity=identity,
        build_id=build_id(),
        plugins=[
            syncpod_plugin(
                workflows=[PodWorkflow, NodeWorkflow],
                activities=[
                    *steps(node),
                    *questions(node),
                    *node_steps(agent.pod_orders),
                ],
                runner=workflow_runner(),
                hooks=agent,
                watch=agent,
                keys=keys,
                begun=begun,
            )
        ],
        interceptors=[StepCancellation()],
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=cached_workflows(node.context.capacity),
        # Only one of them computes at a time. The others wait in the server's queue, which has a longer timeout.
        max_concurrent_workflow_tasks=WORKFLOW_TASKS_AT_ONCE + EAGER_STARTS_AT_ONCE,
        # A kill holds its slot for the whole grace; all pods of a node may be ending at once.
        max_concurrent_activities=1000,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(WORKFLOW_TASKS_AT_ONCE),
        activity_task_poller_behavior=PollerBehaviorSimpleMaximum(5),
        nonsticky_to_sticky_poll_ratio=_POLLS_FOR_ANY_WORKER / WORKFLOW_TASKS_AT_ONCE,
    )


def cached_workflows(capacity: Mapping[str, int]) -> int:
    """Return how many workflows stay in memory: all that a node of this capacity can have.

    A workflow that does not fit into the cache would be replayed from its start with each task. Unused places take no
    memory.
    """
    return capacity.get("pods", UNLIMITED_PODS) + SPARE_WORKFLOWS


async def _run(worker: Worker, agent: Agent, record: WorkerRecord, settings: NodeSettings, stop: asyncio.Event) -> None:
    """Take over, serve, and end in order: first the steps, then the agent, which is told when they end.

    Raises the errors that `_refusals` converts.
    """
    try:
        await _unless(stop, agent.boot())
        _note_worker(settings, record)
        serving = asyncio.create_task(worker.run(), name="worker")
        watching = asyncio.create_task(agent.run(), name="agent")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        sys.stdout.write(
            f"worker ready: node {record.node}, runtime {record.runtime} at {record.endpoint}, "
            f"Temporal {record.address} namespace {record.namespace}, task queue {record.task_queue}\n"
        )
        sys.stdout.flush()
        notify_ready()
        await asyncio.wait({serving, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        remove_worker_record(settings.state_dir)
        stopping.cancel()
        if not serving.done():
            await worker.shutdown()
        watching.cancel()
        for ended in await asyncio.gather(serving, watching, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        if not stop.is_set():
            raise RuntimeError("the worker, or the agent beside it, has ended, and nobody has asked it to")
    finally:
        await agent.close()


def _called(runtime: RuntimeVersion) -> str:
    return f"{runtime.name} {runtime.version}"


def _note_version(settings: NodeSettings, record: WorkerRecord, runtime: RuntimeVersion) -> None:
    """Record the runtime's new version in the state directory. Raises OSError."""
    write_worker_record(settings.state_dir, replace(record, runtime=_called(runtime)))


def _keep(settings: NodeSettings, kept: KeptSettings, endpoint: str) -> None:
    """Keep the node's settings for its next start. Raises CannotServe: on a full disk no pod could start either."""
    kept = replace(kept, variables={**settings.given, NODE: settings.node, RUNTIME_ENDPOINT: endpoint})
    try:
        if kept != read_kept_settings(settings.state_dir):
            write_kept_settings(settings.state_dir, kept)
    except OSError as error:
        raise CannotServe(f"state directory {settings.state_dir}: {error.strerror}") from error


def _note_worker(settings: NodeSettings, record: WorkerRecord) -> None:
    """Record this worker in the state directory. Raises CannotServe: on a full disk no pod could be started either."""
    try:
        write_worker_record(settings.state_dir, record)
    except OSError as error:
        raise CannotServe(f"state directory {settings.state_dir}: {error.strerror}") from error


# --- what the server is told ------------------------------------------------------------------------------------------


def build_id() -> str:
    """Return the build id for the server: the program's version, and its decisions' version and source digest.

    Without a build id, the SDK would compile the source of every module to make one: a third of a cold start.
    """
    try:
        program = f"syncpod-{metadata.version('syncpod')}"
    except metadata.PackageNotFoundError:
        program = "syncpod-checkout"
    return version.build_id(program, source_digest())


def _runtime() -> Runtime:
    """Return the SDK's runtime: it logs as we do, and sends the server a heartbeat of this worker every few seconds."""
    logging_config = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
    )
    return Runtime(telemetry=TelemetryConfig(logging=logging_config), worker_heartbeat_interval=HEARTBEAT)


# --- the process ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None, cri_of: CriOf = CriClient) -> int:
    """Run the worker as a process; return its exit code. `cri_of` makes the client of the runtime at a socket."""
    level, read_settings = parse_arguments(arguments)
    try:
        settings = read_settings(os.environ)
        _log(level, is_json=settings.json_log)
        prefer_this_process()
        if not lower_oom_score_adj(OOM_SCORE):
            log.info("may not lower oom_score_adj: if memory runs out, Guaranteed pods outlive this worker")
        _spare_the_collector()
        map_large_blocks(_LARGE_BLOCK_BYTES)
        asyncio.run(_until_signalled(settings, connection_settings(), cri_of))
    except (SettingsInvalid, NoServer, CannotServe) as refusal:
        sys.stderr.write(f"syncpod worker: {of_process.redact(str(refusal))}\n")
        return 2
    except Exception:
        log.exception("the worker failed")
        return 1
    return 0


def _log(level: str, *, is_json: bool) -> None:
    """Log to stderr."""
    handler = logging.StreamHandler()
    if is_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(CollectorLog())
    handler.addFilter(outage)
    handler.addFilter(unknown_types)
    handler.addFilter(HiddenInLog())
    logging.basicConfig(level=level, handlers=[handler])
    for chatty in ("grpc", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _spare_the_collector() -> None:
    """Collect garbage less often than Python does by default.

    With thousands of cached pods, the default takes 40 % of the worker's CPU. Nearly everything here is freed by
    reference count, a workflow that is evicted too (`syncpod/temporal/workflow_watch.py`); imported modules live as
    long as the process. The rest, mostly cycles of the SDK around timers and steps, is collected while it is young: of
    half a million objects made, at the latest. A collection of everything stops the worker for as long as it takes,
    seconds with thousands of pods, so it comes rarely.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 500)


async def _until_signalled(settings: NodeSettings, connection: ClientConnectConfig, cri_of: CriOf) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    accepts.say_in_one_sentence(loop)
    loop.set_default_executor(started_pool(_THREADS, "asyncio"))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _asked_to_stop, stop)
    serving = asyncio.create_task(serve(settings, connection, stop, cri_of), name="serve")
    stopping = asyncio.create_task(stop.wait(), name="stopping")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.wait({serving}, timeout=PATIENCE_SECONDS)
    if not serving.done():
        log.warning("a call to the runtime does not end; it is left to the next worker, which looks before it acts")
        logging.shutdown()
        os._exit(0)
    await serving


def _asked_to_stop(stop: asyncio.Event) -> None:
    """Stop in order when asked once, at once when asked again: every step is safe to repeat."""
    if stop.is_set():
        os._exit(130)
    log.info("stopping; the pods run on")
    stop.set()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    # A process that has run a Temporal worker aborts now and then while the interpreter shuts down.
    os._exit(code)
