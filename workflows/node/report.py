"""How a node's workflow presents itself: the query ``node``, the memo, and the page in the UI."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Final, Literal

from syncpod.lifecycle import backoff
from syncpod.messages.node import (
    API_SOURCE,
    FILE_SOURCE,
    DesiredPod,
    NodeCondition,
    NodeSummary,
    NodeView,
    PodKey,
    SourceView,
)
from workflows.node.state import NodeState, Source
from workflows.rejections import last_rejected

_NAMED: Final = 10
"""How many of a source's pods the page names."""
_SHOWN: Final = 50
"""How many of the waiting pods the page names."""


def view(state: NodeState, now: datetime) -> NodeView:
    """Return the whole node."""
    status = state.status
    return NodeView(
        name=state.name,
        since=state.since,
        unschedulable=state.unschedulable,
        sources={
            name: SourceView(reported_at=source.reported_at, boot=source.boot, pods=len(source.pods))
            for name, source in state.sources.items()
        },
        desired=tuple(desired(state, now)),
        boot=status.boot,
        sources_ready=are_sources_ready(state),
        identity=status.identity,
        conditions=status.conditions,
        labels=status.labels,
        capacity=status.capacity,
        allocatable=status.allocatable,
        addresses=status.addresses,
        node_info=status.node_info,
        events=state.events,
    )


def are_sources_ready(state: NodeState) -> bool:
    """Say whether every source that the agent reads has reported since the agent's last boot, and was accepted."""
    status = state.status
    reported = {name for name, source in state.sources.items() if source.boot == status.boot}
    return status.boot > 0 and status.sources_ready and set(status.sources) <= reported


def desired(state: NodeState, now: datetime) -> list[DesiredPod]:
    """Return the pods that the node should have, and those that have not ended yet, by namespace and name."""
    return [_desired(state, key, now) for key in state.pod_keys()]


def _desired(state: NodeState, key: str, now: datetime) -> DesiredPod:
    if (static := state.static.get(key)) is not None and state.winner(key) in ("", FILE_SOURCE):
        return static.model_copy(update={"source": FILE_SOURCE})
    current, wanted, deletion = state.governed.get(key), state.wanted(key), state.deletions.get(key)
    word: Literal["pending", "applied", "ending"] = "applied" if state.is_applied(key) else "pending"
    if deletion is not None or wanted is None:
        word = "applied" if deletion is None and state.is_unjudged(key) else "ending"
    uid = wanted.uid if wanted is not None else deletion.uid if deletion is not None else ""
    source = state.winner(key) or (current.source if current is not None else API_SOURCE)
    held = state.backoff.entries.get(key)
    pod = PodKey.of(key)
    return DesiredPod(
        namespace=pod.namespace,
        name=pod.name,
        uid=uid or next(iter(reversed(state.uids(key))), ""),
        source=source,
        state=word,
        reason=held.reason if held is not None else "",
        message=held.message if held is not None else "",
        retry_at=backoff.held_until(state.backoff, key, now=now),
    )


def summary(state: NodeState) -> NodeSummary:
    """Return the content of the workflow's memo."""
    return NodeSummary(
        name=state.name,
        since=state.since,
        unschedulable=state.unschedulable,
        labels=state.status.labels,
        addresses=state.status.addresses,
        node_info=state.status.node_info,
    )


def details(state: NodeState, now: datetime) -> str:
    """Return the node as a page: conditions, with reasons for bad ones, sources, and pods that are not up to date."""
    lines = [f"**{state.name}**" + (", cordoned" if state.unschedulable else ""), ""]
    lines += [f"- {_condition(each)}" for each in state.status.conditions]
    lines += [f"- source {name}: {_pods(source)}" for name, source in sorted(state.sources.items())]
    static = (key for key, each in state.static.items() if each.state != "applied")
    found = (_desired(state, key, now) for key in sorted({*state.open_keys(), *static}))
    waiting = list(islice((each for each in found if each.state != "applied"), _SHOWN))
    if waiting:
        lines += ["", "**Not up to date**", ""]
        lines += [
            f"- **{each.namespace}/{each.name}** of {each.source}: {each.state}"
            + (f": {_line(each.message)}" if each.message else "")
            for each in waiting
        ]
    return "\n".join([*lines, *last_rejected(state.events)])


def _condition(condition: NodeCondition) -> str:
    """Return a condition, with its message if it is not as it should be."""
    is_good = condition.status == ("True" if condition.type == "Ready" else "False")
    why = f": {_line(condition.message)}" if condition.message and not is_good else ""
    return f"{condition.type}: {condition.status} ({condition.reason}){why}"


def _pods(source: Source) -> str:
    """Return how many pods a source has, and the first of them."""
    some = ", ".join(islice(source.pods, _NAMED))
    more = ", …" if len(source.pods) > _NAMED else ""
    return f"{len(source.pods)} pods" + (f": {some}{more}" if some else "")


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
