"""Restarts of all containers, the action RestartAllContainers of a restart rule: all are removed and started again.

A restart of all is recorded when its removals begin. It lasts until the first container is started again. Until then
the condition AllContainersRestarting is True, and one back-off holds the whole pod (see `container_start`).
"""

from __future__ import annotations

from datetime import datetime

from syncpod.lifecycle import backoff, conditions
from syncpod.lifecycle.conditions import ALL_CONTAINERS_RESTARTING
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.restart import matching_rule
from syncpod.messages.steps import RemoveContainers, StepInput
from syncpod.pod import Pod, PodCondition
from workflows.pod import holds
from workflows.pod.state import PodState, RestartOfAll


def reset_by(state: PodState, removal: StepInput) -> RestartOfAll | None:
    """Return the restart of all that these removals begin; None if no recorded exit has caused one."""
    if not isinstance(removal, RemoveContainers):
        return None
    removed = (exit_ for exit_ in reversed(state.exits) if exit_.id in removal.ids)
    exit_ = next((each for each in removed if _rule_restarts_all(state.pod, each)), None)
    if exit_ is None:
        return None
    number = state.restart_all.number + 1 if state.restart_all is not None else 1
    cause = f"{exit_.name} exited with code {exit_.exit_code}"
    return RestartOfAll(number=number, cause=cause, at=exit_.at, removed=removal.ids, exit_code=exit_.exit_code)


def release(state: PodState) -> bool:
    """End the back-off of the pending restart of all, at an operator's request. Return whether one was pending."""
    last = state.pending_restart_of_all
    if last is not None:
        holds.end_all(state, backoff.RESTART_ALL, last.number)
    return last is not None


def finish(state: PodState, last: RestartOfAll, now: datetime) -> None:
    """Record that the restart of all is over, since its first container is started again."""
    state.restart_all = last.model_copy(update={"begun": True})
    holds.use_up(state, backoff.RESTART_ALL)
    known = state.status.conditions
    over = conditions.stamp(
        PodCondition(type=ALL_CONTAINERS_RESTARTING, status="False"),
        known,
        now=now,
        generation=state.pod.metadata.generation,
    )
    state.status = state.status.model_copy(update={"conditions": conditions.with_condition(known, over)})


def _rule_restarts_all(pod: Pod, exit_: Exit) -> bool:
    every = (*pod.spec.containers, *pod.spec.init_containers)
    container = next((each for each in every if each.name == exit_.name), None)
    rule = matching_rule(container, exit_.exit_code) if container is not None else None
    return rule is not None and rule.action == "RestartAllContainers"
