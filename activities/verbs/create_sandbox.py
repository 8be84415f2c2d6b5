"""create_sandbox: write the pod's record, make its directories and volumes, and make or adopt its sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from temporalio import activity

from activities.containers.ending import Selection, emit_hook_events, end_containers, kill_target
from activities.containers.noted_starts import noted_starts_of, with_noted_starts
from activities.containers.removal import remove_dead, remove_sandbox
from activities.images.presence import missing_images
from activities.node.metrics import count_failed_sandbox, count_sandbox
from activities.node.pod_record import note_pod
from activities.pods.admission import admit_to_node, unsupported_features
from activities.pods.cgroup import prepare_cgroup
from activities.pods.earlier_lives import end_earlier_lives, sandboxes_of_name
from activities.pods.stopping import stop_sandbox
from activities.step_attempt import PodFault, Polls, StepAttempt, warning
from syncpod.cri import SandboxConfig
from syncpod.cri.errors import CriError, NameReserved, TransportFault, go_error
from syncpod.cri.port import RuntimeStatus, SandboxSummary
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages import ObservedPod, ObservedSandbox, StepName
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.steps import CreateSandbox, Fault, KillTarget, Outcome, Rejection, StepEvent, StepResult
from syncpod.node.directories import PodPlan, plan_pod, prepare_pod
from syncpod.node.host import with_current_resolver
from syncpod.node.pod_threads import DiskWork
from syncpod.node.pod_volumes import MountFailure, refresh_volumes
from syncpod.node.runtime_answers import Made
from syncpod.node.secret_values import secret_values
from syncpod.node.tombstones import tombstone_at
from syncpod.objects import ObjectRef, references
from syncpod.pod import Pod
from syncpod.redaction import of_process
from syncpod.translation import SandboxConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.dns import pod_dns
from syncpod.translation.features import warnings
from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL
from syncpod.translation.paths import UnsafeName
from syncpod.translation.pod_fields import sandbox_message
from syncpod.translation.sandbox_config import runtime_handler, sandbox_config

_OWN_NAME = StepName.CREATE_SANDBOX.value


async def create_sandbox(attempt: StepAttempt, request: CreateSandbox) -> StepResult:
    """Make the sandbox of this pod and attempt, or adopt it, and return which of the pod's images are missing.

    The step first ends and removes earlier lives of this name, and then writes the pod's record. A pod of the name that
    belongs to another Temporal cluster may not be ended here. While that pod runs, the step fails, since a node runs
    one pod of a name, like a kubelet. Then the step looks for the sandbox:

    - It is READY and of this incarnation: it is adopted.
    - It is dead, or of another incarnation: its containers are stopped with their grace, and all are removed. The
      attempt is used up (Outcome.SPENT), and the workflow takes the next number.
    - Its name is reserved, but it is not listed: a dead worker's call is still making it, or the runtime is rolling it
      back. The step looks again until it is listed or its name is free; RunPodSandbox has 4 minutes.
    - It does not exist: the volumes are made, then the sandbox. The step fails, and uses up no attempt, if the runtime
      or the network is not ready, or the runtime lacks a feature that the pod needs. If a volume waits for a ConfigMap
      or Secret, the node notes that, and the pod goes on as soon as the object exists.

    With `adopt`, the step only takes over existing objects (see `_adopt`). A cancelled step stops before RunPodSandbox
    is sent, or while it only waits. Mirrors kuberuntime_sandbox.go, v1.36, createPodSandbox. Raises PodFault:
    PodRejected, RuntimeNotReady, NetworkNotReady, UnsupportedByRuntime, FailedMount, FailedCreatePodSandBox.
    """
    images = asyncio.create_task(missing_images(attempt, request.pod))
    named = asyncio.create_task(sandboxes_of_name(attempt))
    readiness: asyncio.Task[RuntimeStatus] | None = None
    try:
        still_running = await _note(attempt, request, named)
        if still_running and not request.adopt:
            raise _failed(attempt, _name_in_use(attempt.ref, still_running))
        readiness = asyncio.create_task(attempt.node.readiness.status())
        await admit_to_node(attempt, request)
        if request.adopt:
            return await _adopt(attempt, request, images)
        polls = Polls(attempt)
        while True:
            attempt.doing = f"looks for sandbox {request.attempt}"
            view, status = await asyncio.gather(attempt.look(lambda view: not _taken(view, request)), readiness)
            taken = _taken(view, request)
            adoptable = [each for each in taken if each.ready and each.incarnation == request.ref.incarnation]
            if adoptable:
                await _catch_up(attempt, request.pod)
                # Two sandboxes may have this number if the runtime died halfway: either can be adopted.
                return StepResult(outcome=Outcome.ADOPTED, id=adoptable[0].id, missing_images=await images)
            if taken:
                return await _clear_away(attempt, request, taken)
            try:
                await _require_runtime(attempt, request.pod, status)
                made = await _make(attempt, request)
            except NameReserved as reserved:
                await _refuse_stranger(attempt, request.attempt, reserved)
                attempt.doing = f"waits for the runtime to finish sandbox {request.attempt}: its name is reserved"
                await polls.pause()
                readiness = asyncio.create_task(attempt.node.readiness.status())
            else:
                return made.model_copy(update={"missing_images": await images})
    finally:
        await _drop(images, named, readiness)


async def _drop(*asked: asyncio.Task[Any] | None) -> None:
    """Cancel the lookups that are still under way, and wait for their end."""
    tasks = [task for task in asked if task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _adopt(attempt: StepAttempt, request: CreateSandbox, images: asyncio.Task[tuple[str, ...]]) -> StepResult:
    """Take over the pod's sandboxes and containers for a workflow that was started again; nothing is created or ended.

    The pod's record is already written. It names this Temporal cluster as the owner of the pod's workflow, and
    overrules annotations that name another (`pod_records.cluster_of`). The agent sends all probe results again, since
    the new workflow has none.
    """
    attempt.doing = "looks for the pod in the runtime"
    view = await attempt.read()
    attempt.node.agent.pod_adopted(request.ref)
    running = [each.name for each in view.containers if each.state == "running"]
    if any(each.ready for each in view.sandboxes):
        await _catch_up(attempt, request.pod)
    ready = next((each.id for each in view.sandboxes if each.ready), "")
    said = f"running: {', '.join(sorted(running))}" if running else "none of its containers runs"
    return StepResult(outcome=Outcome.ADOPTED, id=ready, message=said, missing_images=await images)


async def _note(attempt: StepAttempt, request: CreateSandbox, named: Awaitable[Sequence[SandboxSummary]]) -> str:
    """End earlier lives of this name (`end_earlier_lives`), then make the pod's directory, and write its record there.

    `named` returns the sandboxes of the name. If this life of the pod was deleted on this node, its workflow comes from
    a restored database. Then nothing is ended or written, the pod fails with reason PodDeleted, and the agent ends its
    workflow. Returns the UID of another pod that still runs under the name; "" if none. Raises PodFault.
    """
    await _refuse_deleted(attempt)
    grace = request.pod.spec.termination_grace_period_seconds or 0
    try:
        still_running = await end_earlier_lives(attempt, await named, grace_seconds=grace, adopts=request.adopt)
        attempt.doing = "notes the pod on the node"
        await asyncio.to_thread(note_pod, attempt.node.context, request.ref, request.pod)
    except UnsafeName as error:
        raise _failed(attempt, str(error)) from error
    except OSError as error:
        raise _no_directories(error) from error
    return still_running


async def _refuse_deleted(attempt: StepAttempt) -> None:
    """Raise PodFault if this life of the pod was deleted on this node."""
    ref = attempt.ref
    at = await asyncio.to_thread(tombstone_at, attempt.node.context, ref.uid, ref.incarnation)
    if at is None:
        return
    attempt.node.agent.pod_was_deleted(ref)
    message = (
        f"this node deleted the pod at {at:%Y-%m-%dT%H:%M:%SZ}; the Temporal server has no record of the deletion, "
        "perhaps because its database was restored from a copy: the pod is not started again"
    )
    raise PodFault(Fault.POD_REJECTED, message, rejection=Rejection(reason="PodDeleted", message=message, final=True))


async def _catch_up(attempt: StepAttempt, pod: Pod) -> None:
    """Update the volumes that an earlier try made, perhaps from older labels or objects. A failure is only logged."""
    try:
        refreshing = partial(refresh_volumes, pod, attempt.node.context, attempt.node.objects)
        await attempt.on_disk(DiskWork.REFRESH, refreshing)
    except (MountFailure, OSError) as error:
        activity.logger.warning("volumes of an adopted sandbox stay as they were: %s", error)


def _taken(view: ObservedPod, request: CreateSandbox) -> list[ObservedSandbox]:
    """Return the sandboxes that already have the attempt number of this request."""
    return [sandbox for sandbox in view.sandboxes if sandbox.attempt == request.attempt]


async def _clear_away(attempt: StepAttempt, request: CreateSandbox, taken: Sequence[ObservedSandbox]) -> StepResult:
    """Remove sandboxes that cannot be adopted, with their containers, which are stopped first with the pod's grace.

    A start that began ahead, beside an earlier attempt of this step, may have run a container there. The workflow has
    never seen that container, so the returned status lists it as ended, although it is removed.
    """
    homes = {sandbox.id for sandbox in taken}
    grace = request.pod.spec.termination_grace_period_seconds or 0

    targets: dict[str, KillTarget] = {}

    async def alive(view: ObservedPod) -> Selection:
        chosen = [each for each in view.containers if each.sandbox_id in homes and each.state != "exited"]
        for each in chosen:
            targets[each.id] = kill_target(each.id, each.name, request.pod, grace_seconds=grace, with_hook=grace > 0)
        return [(each, targets[each.id]) for each in chosen]

    view = await end_containers(attempt, alive)
    emit_hook_events(attempt, targets.values())
    attempt.doing = f"clears away sandbox {request.attempt}, which cannot be used"
    there = [each for each in view.containers if each.sandbox_id in homes]
    for container in there:
        await remove_dead(attempt, container, keep_logs=True)
    for sandbox in taken:
        await stop_sandbox(attempt, sandbox)
        await remove_sandbox(attempt, sandbox)
    left = await attempt.read()
    ran = [each for each in there if each.has_run and each.incarnation == request.ref.incarnation]
    ended = left.model_copy(update={"containers": (*ran, *left.containers)}).ordered()
    starts = await asyncio.to_thread(noted_starts_of, attempt, request.pod)
    status = with_noted_starts(attempt, starts, ended)
    message = f"sandbox attempt {request.attempt} could not be used: removed"
    return StepResult(outcome=Outcome.SPENT, message=message, status=status)


async def _make(attempt: StepAttempt, request: CreateSandbox) -> StepResult:
    """Make the sandbox, and return its id and the pod's status. Raises PodFault, NameReserved, TransportFault.

    While the status is read, a start that follows this step can prepare itself (`mark_finishing`).
    """
    node, pod = attempt.node, request.pod
    try:
        context = with_current_resolver(node.context)
        plan = plan_pod(pod, context)
        config = sandbox_config(pod, attempt=request.attempt, node=context, incarnation=request.ref.incarnation)
    except (SandboxConfigError, UnsafeName) as error:
        raise _failed(attempt, str(error)) from error
    except MountFailure as error:
        raise _mount_failed(error) from error
    # The cgroup and the volumes are made concurrently; the kubelet makes the cgroup first. Heartbeats show the volumes
    # as the present action.
    cgroup, volumes = await asyncio.gather(
        prepare_cgroup(attempt, pod), _prepare(attempt, plan), return_exceptions=True
    )
    for failure in (volumes, cgroup):
        if failure is not None:
            raise failure
    if refs := tuple(reference.ref for reference in references(pod)):
        of_process.add(await asyncio.to_thread(secret_values, node.objects, refs))
    attempt.checkpoint()
    sandbox_id = await _run(attempt, request, config, context)
    attempt.mark_finishing()
    return StepResult(id=sandbox_id, status=await attempt.read(Made(sandbox_id)))


async def _prepare(attempt: StepAttempt, plan: PodPlan) -> None:
    """Make the pod's directories and volumes. Raises PodFault.

    If an object is missing, the node first notes that this pod waits for the object, and then looks it up once more. So
    either this lookup finds the object, or the object's writer finds the note.
    """
    node, waiter = attempt.node, (pod_workflow_id(attempt.ref.namespace, attempt.ref.name), _OWN_NAME)
    noted: set[ObjectRef] = set()
    while True:
        attempt.doing = "makes the pod's directories and volumes"
        try:
            await attempt.on_disk(DiskWork.MAKE, partial(prepare_pod, plan, node.objects))
        except MountFailure as error:
            wanted = {ref for failure in error.failures for ref in failure.wants} - noted
            if not wanted:
                raise _mount_failed(error) from error
            for ref in wanted:
                node.waiting_for.setdefault(ref, set()).add(waiter)
            noted |= wanted
        except OSError as error:
            raise _no_directories(error) from error
        else:
            return


async def _run(attempt: StepAttempt, request: CreateSandbox, config: SandboxConfig, context: NodeContext) -> str:
    attempt.doing = f"makes sandbox {request.attempt}"
    count_sandbox()
    try:
        sandbox_id = await attempt.node.cri.run_pod_sandbox(config, runtime_handler=runtime_handler(request.pod))
        attempt.node.reader.require_own("run_podsandbox", sandbox_id, attempt.ref.uid)
    except (NameReserved, TransportFault):
        raise
    except CriError as error:
        count_failed_sandbox()
        raise _failed(attempt, sandbox_message(go_error(error))) from error
    _, dns_events = pod_dns(request.pod, context.host.resolver, context.cluster_dns)
    attempt.events.extend(warning(event.reason, event.message) for event in dns_events)
    unapplied = warnings(request.pod, applies_seccomp=context.applies_seccomp)
    attempt.events.extend(warning("FieldNotApplied", sentence) for sentence in unapplied)
    return sandbox_id


async def _require_runtime(attempt: StepAttempt, pod: Pod, status: RuntimeStatus) -> None:
    """Raise PodFault if the runtime cannot make this pod now, or cannot make it as specified."""
    if unsupported := await unsupported_features(attempt.node, pod):
        raise PodFault(Fault.UNSUPPORTED_BY_RUNTIME, "; ".join(unsupported))
    if not status.runtime_ready:
        raise PodFault(Fault.RUNTIME_NOT_READY, f"container runtime is not ready: {status.runtime_message}")
    if not status.network_ready and not pod.spec.host_network:
        message = f"network is not ready: {status.network_message}"
        raise PodFault(Fault.NETWORK_NOT_READY, message, warning(Fault.NETWORK_NOT_READY.value, message))


async def _refuse_stranger(attempt: StepAttempt, number: int, reserved: NameReserved) -> None:
    """Raise PodFault if a sandbox that is not ours has the name. That sandbox is left alone."""
    if reserved.holder_id:
        holders = await attempt.node.cri.list_pod_sandboxes(id=reserved.holder_id)
    else:
        listed = await attempt.node.cri.list_pod_sandboxes(labels={POD_UID_LABEL: attempt.ref.uid})
        holders = tuple(each for each in listed if each.attempt == number)
    for holder in holders:
        owner = holder.labels.get(NODE_LABEL)
        if owner != attempt.node.context.name:
            whose = f"belongs to node {owner}" if owner else "is not managed by syncpod"
            raise _failed(attempt, f"its name is taken by sandbox {holder.id}, which {whose}") from reserved


def _name_in_use(ref: PodRef, uid: str) -> str:
    """Return the message that another pod of this name runs, with the two commands that resolve it."""
    flag = "" if ref.namespace == "default" else f" -n {ref.namespace}"
    return (
        f"another pod {ref.namespace}/{ref.name} (uid {uid}) runs on this node, and this Temporal server has no "
        f"workflow for it: to end it, run `syncpod prune{flag} {ref.name}` on that node; to keep it instead of this "
        f"one, run `syncpod delete{flag} pod {ref.name}` and then `syncpod adopt{flag} {ref.name}`"
    )


def _failed(attempt: StepAttempt, message: str) -> PodFault:
    """Build the fault; a pod that has begun to end gets no event (kuberuntime_manager.go, v1.36, SyncPod)."""
    events: tuple[StepEvent, ...] = ()
    if not attempt.interrupted:
        events = (warning(Fault.FAILED_CREATE_SANDBOX.value, f"Failed to create pod sandbox: {message}"),)
    return PodFault(Fault.FAILED_CREATE_SANDBOX, message, *events)


def _no_directories(error: OSError) -> PodFault:
    message = f"error making pod data directories: {where_and_why(error)}"
    return PodFault(Fault.FAILED_CREATE_SANDBOX, message, warning("Failed", message))


def _mount_failed(error: MountFailure) -> PodFault:
    reason = Fault.FAILED_MOUNT.value
    events = (warning(reason, failure.message) for failure in error.failures)
    return PodFault(Fault.FAILED_MOUNT, str(error), *events)
