"""Facts, not inference: the runtime's view, completed by the records of the pod's workflow.

The kubelet takes only the instances into account that the runtime still lists: once a dead instance was removed, its
container counts as never run. Here a recorded end counts like a listed one, and if both describe the same instance, the
record counts. So decisions are the same as if the runtime had lost nothing:

- a main or ephemeral container that has run and is no longer listed counts as ended, as recorded;
- the same holds for an init container, but only in the sandbox in which it ran: a new sandbox starts again with the
  first one;
- a pod that has run and has no listed sandbox counts as having a dead one;
- an instance whose start was only cut off counts as created and never started: the kubelet counts it as an exit with
  128, which ends a pod that never restarts. An ephemeral container with such a start does not count as created, since a
  created one is never started again.

If an instance runs, or may run, the runtime's listing counts, and not the record: otherwise a second instance could be
started.

Pure: no clock, no I/O, no Temporal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit
from syncpod.lifecycle.observed import (
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    order_containers,
    order_restarts,
)
from syncpod.messages.steps import StartContainer, StepInput
from workflows.pod.state import Kill, PodState

LOST = "The container is no longer listed by the runtime: its exit was not observed"
"""Message of an end whose exit code nobody knows. Its reason and code are those that the kubelet uses."""


def followed(state: PodState) -> tuple[str, ...]:
    """Return the containers whose newest instance was ended only to be replaced, whether it is listed or not."""
    if not state.replacing:
        return ()
    newest = newest_begun(state).values()
    return tuple(container.name for container in newest if state.is_followed(container))


def newest_begun(state: PodState) -> dict[str, ObservedContainer]:
    """Return each container's newest instance by name, skipping those that were created but never started.

    The instance before a skipped one still counts, because the start of its successor may have failed halfway.
    """
    view = effective_view(state)
    begun = tuple(container for container in view.containers if container.state != "created")
    return view.model_copy(update={"containers": begun}).newest_by_name()


def effective_view(state: PodState) -> ObservedPod:
    """Return the view that decisions are made from: `state.own` as if the runtime had lost nothing that is recorded."""
    view = state.own
    recorded = {exit_.id: exit_ for exit_ in state.exits if exit_.is_certain or exit_.is_settled}
    ephemeral = {container.name for container in state.pod.spec.ephemeral_containers}
    made = (each for each in view.containers if not (each.was_cut_off and each.name in ephemeral))
    listed = tuple(_as_recorded(container, recorded.get(container.id)) for container in made)
    absent = tuple(_as_listed(state, exit_) for exit_ in _absent_ends(state, view))
    sandboxes = view.sandboxes or _gone_sandbox(state)
    if sandboxes == view.sandboxes and listed == view.containers and not absent:
        return view
    containers = order_containers((*listed, *absent)) if absent else listed
    return view.model_copy(update={"sandboxes": sandboxes, "containers": order_restarts(containers)})


def hooked(state: PodState, under_way: Iterable[StepInput]) -> tuple[str, ...]:
    """Return the ids of the instances whose postStart hooks may be running, within starts that have not ended.

    Such an instance counts as started only when its hook has ended. The kubelet computes the status when a sync begins,
    and the hook runs within the sync (kuberuntime_container.go, v1.36, startContainer). Until the hook has ended, the
    status shows the container as before its start: waiting or ended, not started and not ready.
    """
    starts = {
        (step.container, step.restart)
        for step in under_way
        if isinstance(step, StartContainer)
        and (lifecycle := state.container(step.container).lifecycle) is not None
        and lifecycle.post_start is not None
    }
    return tuple(
        each.id
        for each in state.own.containers
        if (each.name, each.restart_count) in starts and each.state == "running"
    )


def without(view: ObservedPod, ids: Collection[str]) -> ObservedPod:
    """Return the view without these instances."""
    if not ids:
        return view
    return view.model_copy(update={"containers": tuple(each for each in view.containers if each.id not in ids)})


# --- what is recorded and not listed ----------------------------------------------------------------------------------


def _absent_ends(state: PodState, view: ObservedPod) -> list[Exit]:
    """Return each container's newest recorded end, unless the runtime lists it, a newer one, or a running one."""
    spec = state.pod.spec
    init = {container.name for container in spec.init_containers}
    every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    current = view.sandboxes[0] if view.sandboxes else None
    newest = {exit_.name: exit_ for exit_ in state.exits}  # they are in the order in which they happened
    ends: list[Exit] = []
    listed: set[str] = set()
    for each in view.containers:
        end = newest.get(each.name)
        if end is not None and (each.restart_count >= end.restart or each.state in ("running", "unknown")):
            listed.add(each.name)
    for container in every:
        end = newest.get(container.name)
        if end is None or end.restart <= state.reset.get(container.name, -1) or container.name in listed:
            continue
        if container.name in init and (current is None or end.sandbox != current.id):
            continue
        ends.append(end)
    return ends


def _as_listed(state: PodState, end: Exit) -> ObservedContainer:
    """Return a recorded end as the runtime would list it.

    Image, stop signal and user are taken from the pod's status, if it shows this instance.
    """
    status = state.status
    kinds = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    shown = next((each for kind in kinds for each in kind if each.name == end.name), None)
    same = shown is not None and shown.container_id.rpartition("://")[2] == end.id
    return ObservedContainer(
        id=end.id,
        name=end.name,
        sandbox_id=end.sandbox,
        restart_count=end.restart,
        image=shown.image if shown is not None and same else state.container(end.name).image,
        image_ref=shown.image_id if shown is not None and same else "",
        stop_signal=(shown.stop_signal or "") if shown is not None and same else "",
        user=shown.user if shown is not None and same else None,
        created_at=end.started_at or end.at,
        started_at=end.started_at,
        incarnation=state.incarnation,
    ).ended_as(end)


def _as_recorded(listed: ObservedContainer, recorded: Exit | None) -> ObservedContainer:
    """Return a listed instance with its recorded end, or as only created if its start was cut off."""
    if listed.was_cut_off:
        return listed.model_copy(
            update={"state": "created", "exit_code": 0, "reason": "", "message": "", "finished_at": None}
        )
    if recorded is None or listed.state != "exited":
        return listed
    if (listed.exit_code, listed.reason) == (recorded.exit_code, recorded.reason):
        return listed
    return listed.ended_as(recorded)


def _gone_sandbox(state: PodState) -> tuple[ObservedSandbox, ...]:
    """Return the last sandbox, as a dead one, of a pod whose main containers have run; none if they have not."""
    mains = {container.name for container in state.pod.spec.containers}
    if not any(end.name in mains and end.restart > state.reset.get(end.name, -1) for end in state.exits):
        return ()
    last = state.last_sandbox or ObservedSandbox()
    return (last.model_copy(update={"state": "SANDBOX_NOTREADY", "ip": None, "additional_ips": ()}),)


def gone_sandboxes(state: PodState) -> tuple[str, ...]:
    """Return the ids of sandboxes that are known but not listed: they have nothing left to stop."""
    listed = {sandbox.id for sandbox in state.own.sandboxes}
    return tuple(sandbox.id for sandbox in effective_view(state).sandboxes if sandbox.id not in listed)


# --- what is neither listed nor recorded ------------------------------------------------------------------------------


def lost(state: PodState) -> tuple[ObservedContainer, ...]:
    """Return the instances that have run and are no longer listed, although nobody saw them end.

    Instances that a restart of all containers removed are left out.
    """
    return tuple(each for each in state.vanished.values() if each.restart_count > state.reset.get(each.name, -1))


def record_lost(state: PodState, now: datetime) -> None:
    """Record the end of every lost instance, as unknown and at this moment, unless the pod is ending.

    Mirrors kubelet_pods.go, v1.36, convertToAPIContainerStatuses: 137, `ContainerStatusUnknown`. Differences: such an
    end has an event, and counts for the back-off.
    """
    if state.ending or state.removed:
        return
    for instance in lost(state):
        kill = state.killed.get(instance.id, Kill())
        state.record_exit(
            Exit(
                id=instance.id,
                name=instance.name,
                sandbox=instance.sandbox_id,
                restart=instance.restart_count,
                exit_code=UNKNOWN_EXIT_CODE,
                reason=STATUS_UNKNOWN,
                message=LOST,
                started_at=instance.started_at,
                at=now,
                cause=kill.why,
                killed_by=kill.cause,
            )
        )
        how = f"exited {UNKNOWN_EXIT_CODE} ({STATUS_UNKNOWN})"
        about = {"outcome": how, "restart": instance.restart_count, "fact": kill.cause}
        state.note(now, "exit", instance.name, kill.why or LOST, **about)
        text = f"Container {instance.name} is no longer listed by the runtime: its exit was not observed"
        state.event(now, "Normal" if kill.cause else "Warning", STATUS_UNKNOWN, text, instance.name)
    state.vanished = {}


def remember_what_went(state: PodState, before: ObservedPod) -> None:
    """Remember the pod's last sandbox, and instances that a listing no longer shows although nobody saw them end.

    `before` is the pod's own view without that listing.
    """
    view = state.own
    if view.sandboxes:
        state.last_sandbox = view.sandboxes[0]
    listed = {container.id for container in view.containers}
    ended = {exit_.id for exit_ in state.exits}
    gone = {
        each.name: each
        for each in reversed(before.containers)
        if each.has_run and each.state != "exited" and each.id not in listed and each.id not in ended
    }
    if gone or state.vanished:
        kept = {**state.vanished, **gone}
        state.vanished = {name: each for name, each in kept.items() if each.id not in listed and each.id not in ended}


def forget_for_reset(state: PodState) -> None:
    """Mark the ends before a restart of all containers: they no longer count, except those of ephemeral containers."""
    spec = state.pod.spec
    names = [container.name for container in (*spec.init_containers, *spec.containers)]
    state.reset = {**state.reset, **{name: state.restarts[name] for name in names if name in state.restarts}}


# --- where record and runtime disagree --------------------------------------------------------------------------------


def record_disagreements(state: PodState, before: ObservedPod, listing: ObservedPod, now: datetime) -> None:
    """Record an event if a listing contradicts the record of an instance, once for each contradiction.

    Changes no decision. `before` is the view that the state had; a listing older than that view is ignored. Call this
    before the content of the listing is recorded.
    """
    if not before.seq < listing.seq:
        return
    found = [found for each in listing.containers if (found := _disagreement(state, before, listing, each))]
    for each, what in found:
        key = f"{each.id} {what}"
        if key not in state.disagreed:
            state.disagreed = (*state.disagreed, key)[-_DISAGREEMENTS_KEPT:]
            state.event(now, "Warning", "RuntimeDisagrees", what, each.name)


_DISAGREEMENTS_KEPT = 20


def _disagreement(
    state: PodState, before: ObservedPod, listing: ObservedPod, each: ObservedContainer
) -> tuple[ObservedContainer, str] | None:
    if each.incarnation not in ("", state.incarnation) or not each.has_run:
        return None
    recorded = next((exit_ for exit_ in state.exits if exit_.id == each.id), None)
    who = f"Container {each.name}, restart {each.restart_count},"
    if recorded is None:
        number = state.restarts.get(each.name, -1)
        seen = {other.id for other in (*before.containers, *state.vanished.values())}
        if each.id not in seen and each.restart_count <= number:
            return each, f"{who} has appeared in the runtime, though restart {number} of it has already run"
        return None
    how = f"{recorded.exit_code} ({recorded.reason})"
    if each.state == "running":
        since = recorded.finished_at
        if recorded.is_certain and not (since and listing.observed_at and since < listing.observed_at):
            return None  # the listing may have begun before the end
        return each, f"{who} runs by what the runtime lists, though it is recorded as exited with code {how}"
    if each.reason == STATUS_UNKNOWN:
        return None  # the node only concluded the end, because the container is gone
    if (
        each.state == "exited"
        and recorded.is_certain
        and not recorded.is_unknown
        and each.exit_code != recorded.exit_code
    ):
        return each, f"{who} exited with code {each.exit_code} by what the runtime lists; {how}, as recorded, counts"
    return None
