"""Decides which start follows a step for certain, so that this start can begin before the step has ended."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from syncpod.lifecycle.observed import ObservedContainer, ObservedSandbox
from syncpod.messages.startup import has_come_to, in_order
from syncpod.messages.steps import (
    CreateSandbox,
    StartContainer,
)
from syncpod.pod import container_hash
from workflows.pod import decide
from workflows.pod.decision import Step
from workflows.pod.state import PodState


def follower_of(state: PodState, step: Step, now: datetime, *, pulling: Collection[str] = ()) -> Step | None:
    """Return the start that certainly follows `step` if the step succeeds; None if no start is certain.

    It is decided from the state that the step leads to: the first sandbox exists and no image is missing, or the
    container runs, or the init container has succeeded. The start can begin before the step has ended, and waits for it
    in the worker. A pod with a hold, or one in which anything else was ever made, takes one step at a time.
    """
    supposed: PodState | None = None
    if isinstance(step.input, CreateSandbox):
        supposed = _with_sandbox(state, step.input, now)
    elif isinstance(step.input, StartContainer) and not pulling:
        supposed = _with_container(state, step.input, now)
    if supposed is None:
        return None
    decision = decide.next_step(supposed, now, pulling=pulling)
    start = decision.step
    if start is None or decision.holds or not isinstance(start.input, StartContainer) or start.follows_restart_of_all:
        return None
    if isinstance(step.input, StartContainer) and not _is_plain(supposed, start):
        return None
    return start


def is_last(state: PodState, start: Step) -> bool:
    """Say whether no other container comes after this one in the pod's start."""
    return start.container == in_order(state.pod)[-1].name


def _with_sandbox(state: PodState, step: CreateSandbox, now: datetime) -> PodState | None:
    """Return the state with the pod's first sandbox made; None if anything was made or happened before."""
    seen = state.observed
    if step.adopt or seen.sandboxes or seen.containers:
        return None
    if state.exits or state.released or state.over or state.vanished:
        return None
    mode = "NODE" if state.pod.spec.host_network else "POD"
    made = ObservedSandbox(
        attempt=step.attempt,
        state="SANDBOX_READY",
        network_mode=mode,
        incarnation=state.incarnation,
        created_at=now,
        ip=None,
    )
    view = seen.model_copy(update={"sandboxes": (made,)})
    return state.model_copy(update={"observed": view, "waiting": {}})


def _with_container(state: PodState, step: StartContainer, now: datetime) -> PodState | None:
    """Return the state with the container running, or exited with code 0 if it is an init container.

    None if no other container can follow.
    """
    made = {each.name for each in state.own.containers}
    if step.kind == "ephemeral_container" or all(each.name in made for each in in_order(state.pod)[1:]):
        return None
    is_init = step.kind == "init_container"
    image = state.container(step.container).image
    supposed = ObservedContainer(
        id=f"{step.container} of step {state.fence}",
        name=step.container,
        sandbox_id=step.sandbox_id,
        state="exited" if is_init else "running",
        reason="Completed" if is_init else "",
        hash=container_hash(step.container, image),
        restart_count=step.restart,
        image=image,
        created_at=now,
        started_at=now,
        finished_at=now if is_init else None,
        incarnation=state.incarnation,
    )
    this = (step.container, step.restart)
    others = (each for each in state.observed.containers if (each.name, each.restart_count) != this)
    view = state.observed.model_copy(update={"containers": (supposed, *others)}).ordered()
    return state.model_copy(update={"observed": view, "waiting": {}})


def _is_plain(supposed: PodState, start: Step) -> bool:
    """Say whether a start is the container's first one, in a pod whose own start is all that has happened."""
    step = start.input
    if not isinstance(step, StartContainer) or step.restart or start.store is not None or start.cleared:
        return False
    return has_come_to(supposed.pod, supposed.own, step.container, step.sandbox_id)
