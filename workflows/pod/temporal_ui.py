"""A pod's texts in the Temporal UI: summaries of steps and timers, and the page of its current details.

A row of the UI has at most :data:`LONGEST_SUMMARY` characters; a step's row has the step's name before the summary. No
row contains a hook's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from syncpod.go_durations import go_duration
from syncpod.journal.error_text import innermost
from syncpod.lifecycle import backoff, conditions
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.start_errors import START_ERROR
from syncpod.messages.pod_card import pod_card
from syncpod.messages.queries import PodSummary
from syncpod.messages.steps import Fault, KillContainer, KillPod, KillTarget, StartContainer
from syncpod.pod import ContainerState, ContainerStatus, PodStatus
from workflows.pod.decision import Hold, Step
from workflows.pod.search_attributes import printed
from workflows.pod.state import PodState
from workflows.rejections import last_rejected
from workflows.summaries import LONGEST_SUMMARY, clip

_EXITS_SHOWN = 5
_SHORTEST_CLAUSE = 10
_HOOK_FAILED = "its postStart hook failed"


# --- summaries --------------------------------------------------------------------------------------------------------


def step_summary(state: PodState, step: Step) -> str:
    """Return what a step does and why, and which parts of the pod it ends or how its last try failed."""
    longest = LONGEST_SUMMARY - len(f"{step.name.value} • ")
    failed = state.backoff.entries.get(step.key)
    if failed is not None:
        return _around(f"{step.summary}; last try: ", _clause(failed.reason, failed.message), "", longest)
    match step.input:
        case KillPod(targets=targets, final=True) as kill:
            ends = f"; ends {', '.join(map(_how_ended, targets))}" if targets else ""
            lost = ", ".join(each.name for each in state.pod.spec.volumes if each.empty_dir and kill.deleted)
            return clip(f"{step.summary}{ends}{f'; lost with it: emptyDir {lost}' if lost else ''}", longest)
        case KillContainer(target=target) if target.pre_stop is not None:
            return clip(f"{step.summary}; its preStop comes first", longest)
        case StartContainer() if _has_failed_hook(state, step.container):
            return clip(f"{step.summary}; {_HOOK_FAILED}", longest)
    return clip(step.summary, longest)


def _how_ended(target: KillTarget) -> str:
    return target.name if target.pre_stop is None else f"{target.name} after its preStop"


def timer_summary(state: PodState, holds: Sequence[Hold], deadline: datetime | None) -> str:
    """Return the timer's text: `web exited 3 after 1s; restart 8 in 5m`. `deadline` None = the active deadline."""
    if deadline is None:
        return "active deadline of the pod"
    due = next(hold for hold in holds if hold.until == deadline)
    last, delay = state.last_exit(due.subject), _short(due.delay)
    if due.subject == backoff.RESTART_ALL and state.restart_all is not None:
        return _around("all containers restart: ", state.restart_all.cause, f"; in {delay}")
    if due.reason == "CrashLoopBackOff" and last is not None:
        return _around(f"{due.subject} ", _end(state, last), f"; restart {due.restart} in {delay}")
    return _around(f"{due.subject}: {due.reason}: ", _clause(due.reason, due.message), f"; again in {delay}")


def _end(state: PodState, exit_: Exit) -> str:
    """Say how an instance ended: `exited 3 after 1s`, `was ended after 30s: failed liveness probe`."""
    after = f" after {ran}" if (ran := _ran(exit_)) else ""
    if _has_failed_hook(state, exit_.name) and exit_ == state.last_exit(exit_.name):
        return f"was ended{after}: {_HOOK_FAILED}"
    if exit_.reason == START_ERROR and exit_.message:
        return f"did not start: {innermost(exit_.message)}"
    if exit_.cause:
        return f"was ended{after}: {exit_.why}"
    why = f" ({exit_.reason})" if exit_.reason not in ("", "Error", "Completed") else ""
    return f"exited {exit_.exit_code}{why}{after}"


def _has_failed_hook(state: PodState, name: str) -> bool:
    """Say whether the newest instance of a container was killed because its postStart hook had failed."""
    why = state.waiting.get(name)
    return why is not None and why.reason == Fault.POST_START_HOOK_ERROR


def _ran(exit_: Exit) -> str:
    """Return how long an instance ran, in whole seconds; "" if that is not known."""
    if exit_.started_at is None or exit_.finished_at is None:
        return ""
    return _short(timedelta(seconds=round(max(0.0, (exit_.finished_at - exit_.started_at).total_seconds()))))


def _clause(reason: str, message: str) -> str:
    """Return the end of an error, which names the cause; for a hook's failure, only the reason."""
    return reason if reason == Fault.POST_START_HOOK_ERROR else innermost(message)


def _around(before: str, clause: str, after: str, longest: int = LONGEST_SUMMARY) -> str:
    """Return a summary. If it is too long, the beginning of `clause` is cut, since an error ends with its cause."""
    room = max(_SHORTEST_CLAUSE, longest - len(before) - len(after))
    return clip(before + (clause if len(clause) <= room else f"…{clause[1 - room :]}") + after, longest)


def _short(duration: timedelta) -> str:
    """Write a duration as `10s`, `5m`, `1h`, `1m20s`."""
    text = go_duration(duration)
    for unit, zero in (("m", "0s"), ("h", "0m")):
        text = text.removesuffix(zero) if text.endswith(unit + zero) else text
    return text


# --- the page ---------------------------------------------------------------------------------------------------------


def details(state: PodState, holds: Sequence[Hold], sender: str) -> str:
    """Return the pod's state as a page of Markdown: its line of ``get pods``, conditions, containers, exits, waits.

    It ends with the pod's card, which the static details show only in a pod's first run. The card names `sender`, who
    is in the memo of each run. The page has lists and no tables, since the Temporal UI shows columns without a gap.
    """
    status = state.status
    lines = [_title(state)]
    if state.deletion is not None:
        since, grace = state.deletion.requested_at, state.deletion.grace_seconds
        lines += ["", f"Being deleted since {since:%H:%M:%S} UTC, grace {grace} s."]
    for hold in holds:
        how_long = f"until {hold.until:%H:%M:%S} UTC" if hold.until is not None else "for an operator"
        lines += ["", f"Waits {how_long}: {hold.subject}, {hold.reason}. {hold.message}"]
    lines += last_rejected(state.events)
    lines += _list("Containers", [_container_line(each) for each in _container_statuses(status)])
    newest = state.exits[: -_EXITS_SHOWN - 1 : -1]
    lines += _list(
        "Last exits",
        [f"{e.at:%d %b %H:%M:%S} UTC: **{e.name}**, restart {e.restart}, {_line(_end(state, e))}" for e in newest],
    )
    conditions_ = [f"{c.type}: {c.status}{f' ({c.reason})' if c.reason else ''}" for c in status.conditions]
    lines += _list("Conditions", conditions_)
    card = pod_card(state.pod, state.pod.spec.node_name or state.node.name, sender)
    return "\n".join([*lines, "", "**Node, sender, images**", "", card])


def _title(state: PodState) -> str:
    """Return the first line: STATUS, READY and RESTARTS as in ``get pods``, then name, phase if it differs, and UID."""
    meta, shown = state.pod.metadata, printed(state)
    counts = [f"{shown.ready}/{shown.total} ready"]
    if shown.restarts:
        counts.append(f"{shown.restarts} restart{'s' if shown.restarts != 1 else ''}")
    phase = state.status.phase or "Pending"
    words = [f"**{shown.word}**", *counts, f"{meta.namespace}/{meta.name}"]
    words += [f"phase {phase}"] if phase != shown.word else []
    return " · ".join([*words, f"uid `{meta.uid}`"])


def _list(title: str, items: Sequence[str]) -> list[str]:
    """Return a titled list; nothing if it is empty."""
    return ["", f"**{title}**", "", *(f"- {item}" for item in items)] if items else []


def _container_statuses(status: PodStatus) -> list[ContainerStatus]:
    kinds = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    return [each for kind in kinds for each in kind]


def _container_line(status: ContainerStatus) -> str:
    restarts = f", {status.restart_count} restart{'s' if status.restart_count != 1 else ''}"
    ready = ", ready" if status.ready else ""
    return f"**{status.name}**: {_state_words(status)}{ready}{restarts if status.restart_count else ''}"


def is_unready(state: PodState) -> bool:
    """Say whether a pod is not ready and has not Succeeded: the UI has a list of these pods."""
    return state.status.phase != "Succeeded" and not conditions.is_true(state.status.conditions, conditions.READY)


def summary(state: PodState, holds: Sequence[Hold]) -> PodSummary:
    """Return a pod's part of the node's page."""
    meta, shown, ready = state.pod.metadata, printed(state), conditions.find(state.status.conditions, conditions.READY)
    held = [f"{hold.subject}: {hold.reason}: {_clause(hold.reason, hold.message)}" for hold in holds]
    why = held[0] if held else state.status.message or (ready.message if ready is not None else "") or ""
    return PodSummary(f"{meta.namespace}/{meta.name}", shown.word, shown.restarts, why)


def _line(text: str) -> str:
    return " ".join(text.split())


def _state_words(status: ContainerStatus) -> str:
    state: ContainerState = status.state
    if state.running:
        return "running"
    if state.terminated:
        return f"exited {state.terminated.exit_code} {state.terminated.reason or ''}".rstrip()
    return f"waiting {state.waiting.reason or ''}".rstrip() if state.waiting else "waiting"
