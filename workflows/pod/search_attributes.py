"""A pod in a list of workflows: its search attributes, and when a change of them is worth an event.

Phase, readiness, labels and place are written whenever they change, together with the printed status and the number of
restarts. If only the printed status or the number of restarts has changed, it is written while the pod rests: so no
list is wrong for hours, and consecutive steps cost no event. The progress of a start (`ContainerCreating`, `Init:1/3`)
is never written alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from syncpod.lifecycle import conditions
from syncpod.lifecycle.printed_status import PrintedStatus, printed_status
from syncpod.messages.queries import SEARCH_ATTRIBUTES, labels_attribute, status_attribute
from syncpod.pod.wire import to_wire
from workflows.pod.state import PodState

_KINDS: Final[dict[str, Callable[[str], SearchAttributeKey[Any]]]] = {
    "Keyword": SearchAttributeKey.for_keyword,
    "Bool": SearchAttributeKey.for_bool,
    "Int": SearchAttributeKey.for_int,
    "KeywordList": SearchAttributeKey.for_keyword_list,
}
_KEYS: Final = {name: _KINDS[kind](name) for name, kind in SEARCH_ATTRIBUTES.items()}
_GOES_ALONG: Final = ("PodStatus", "PodRestarts")
"""The attributes whose changes may wait until another attribute is written or the pod rests."""


def updates(state: PodState, *, started_with: bool, rests: bool) -> list[SearchAttributeUpdate[Any]]:
    """Return the search attributes that differ from those last written, and record them as written.

    Returns none until it is certain that the namespace has them: the run was started with them (`started_with`), or the
    node has reported them. Writing an unknown one would fail the workflow task. `rests` is True if no step is about to
    change the pod. If it is False, changes of status and restarts alone wait for a later call.
    """
    if not (started_with or state.node.search_attributes):
        return []
    wanted, written = _wanted(state), state.written
    changed = [name for name, value in wanted.items() if written.get(name) != value]
    if not (set(changed) - set(_GOES_ALONG) or (rests and _is_news(written, wanted))):
        return []
    state.written = wanted
    return [update for name in changed if (update := _update(name, wanted[name], written.get(name))) is not None]


def printed(state: PodState) -> PrintedStatus:
    """Return the pod's columns as ``get pods`` prints them."""
    return printed_status(_as_printed(state))


def _wanted(state: PodState) -> dict[str, Any]:
    meta = state.pod.metadata
    shown = printed(state)
    return {
        "PodNamespace": meta.namespace,
        "PodName": meta.name,
        "PodUID": meta.uid,
        "PodPhase": state.status.phase or "Pending",
        "NodeName": state.node.name or state.pod.spec.node_name or "",
        "PodReady": conditions.is_true(state.status.conditions, conditions.READY),
        "PodStatus": status_attribute(shown.word),
        "PodRestarts": shown.restarts,
        "PodLabels": labels_attribute(dict(meta.labels)),
    }


def _as_printed(state: PodState) -> dict[str, Any]:
    """Return the part of the Pod's JSON that the columns need: all of it would take ten times as long."""
    pod, spec = state.pod, state.pod.spec
    return {
        "metadata": {"deletionTimestamp": pod.metadata.deletion_timestamp},
        "spec": {
            "containers": [{"name": each.name} for each in spec.containers],
            "initContainers": [
                {"name": each.name, "restartPolicy": each.restart_policy} for each in spec.init_containers
            ],
        },
        "status": to_wire(state.status),
    }


def _is_news(written: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Say whether a change that may wait is worth an event of its own: any change but the progress of a start."""
    before, now = str(written.get("PodStatus", "")), wanted["PodStatus"]
    is_start_going_on = _is_of_a_start(before) and _is_of_a_start(now)
    return (before != now and not is_start_going_on) or written.get("PodRestarts") != wanted["PodRestarts"]


def _is_of_a_start(word: str) -> bool:
    progress = word.removeprefix("Init:")
    return word in ("Pending", "ContainerCreating", "PodInitializing") or (progress != word and progress[:1].isdigit())


def _update(name: str, value: Any, before: Any) -> SearchAttributeUpdate[Any] | None:
    """Return the update of one attribute. An empty value is not written, except to clear labels written before."""
    key = _KEYS[name]
    if value not in ("", []):
        return key.value_set(value)
    return key.value_unset() if before and name == "PodLabels" else None
