"""The conditions that a pod's readiness gates name, which other clients set at the API server. Values in, values out.

Mirrors pkg/kubelet/status/generate.go, v1.36, GeneratePodReadyCondition, which reads them from the API server's status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.pod.status import PodCondition

_MOST_BYTES: Final = 1024
_GONE: Final = "the cluster has this condition no more"


class GateCondition(NamedTuple):
    """A condition that a gate names, with the fields that the pod's workflow needs."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def has_gates(given: Mapping[str, Any]) -> bool:
    """Return whether a Pod of the API server has readiness gates."""
    return any(_gates(given))


def news_of_gates(given: Mapping[str, Any], known: Iterable[PodCondition | Mapping[str, Any]]) -> list[GateCondition]:
    """Return the conditions of a Pod's gates that differ from those in its workflow.

    A condition that was removed at the API server is returned as Unknown: a workflow's conditions are never removed.
    """
    there = {str(each.get("type")): each for each in mappings(mapping(given.get("status")).get("conditions"))}
    before = {each.type: each for each in map(_known, known)}
    news = []
    for name in dict.fromkeys(_gates(given)):
        now = _condition(name, there[name]) if name in there else GateCondition(name, "Unknown", message=_GONE)
        if now != before.get(name) and (name in there or name in before):
            news.append(now)
    return news


def _condition(name: str, given: Mapping[str, Any]) -> GateCondition:
    status = given.get("status")
    return GateCondition(
        name,
        status if status in ("True", "False") else "Unknown",
        _cut(given.get("reason")),
        _cut(given.get("message")),
    )


def _known(condition: PodCondition | Mapping[str, Any]) -> GateCondition:
    fields = condition.model_dump() if isinstance(condition, PodCondition) else condition
    return GateCondition(*(str(fields.get(name) or "") for name in GateCondition._fields))


def _cut(text: Any) -> str:
    """Return a text short enough for a workflow's state; the API server has no limit."""
    return str(text or "").encode()[:_MOST_BYTES].decode(errors="ignore")


def _gates(given: Mapping[str, Any]) -> Iterator[str]:
    for gate in mappings(mapping(given.get("spec")).get("readinessGates")):
        if name := gate.get("conditionType"):
            yield str(name)
