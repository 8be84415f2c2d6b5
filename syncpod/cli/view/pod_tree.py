"""The drawing of ``syncpod tree``: nodes, pods, containers, and the thing that each waits for. Values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.listed import ListedPod
from syncpod.api.views.durations import read_moment, short_duration
from syncpod.api.views.pod_columns import summarize
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.messages.running_steps import PendingStep

_KINDS: Final = (
    ("initContainerStatuses", "init container"),
    ("containerStatuses", "container"),
    ("ephemeralContainerStatuses", "ephemeral container"),
)
_CLIP: Final = 120


@dataclass(frozen=True)
class Branch:
    """One pod of the tree."""

    pod: ListedPod
    holds: Sequence[Mapping[str, Any]] = ()
    """Its back-offs: the holds in its workflow's answer to the query `plan`."""
    steps: Sequence[PendingStep] = ()
    """Its pending steps in Temporal."""
    doing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For each container, its running step, and the present action of that step as its node's worker reports it."""


def is_settled(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is at rest: it has finished, or is Ready and not being deleted."""
    status = pod.get("status") or {}
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return False
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    return ready or status.get("phase") in ("Succeeded", "Failed")


def is_explained(branch: Branch) -> bool:
    """Return whether a pod's back-offs explain why it is not at rest, so that its steps need not be read."""
    held = {each.get("subject") for each in branch.holds}
    stuck = [
        str(status.get("name"))
        for kind, status in _statuses(branch)
        if "running" not in (status.get("state") or {}) and _waits(kind, status, branch, None)
    ]
    return bool(held.intersection(stuck)) and not (branch.pod.document.get("metadata") or {}).get("deletionTimestamp")


def lines(branches: Sequence[Branch], now: datetime) -> Iterator[str]:
    """Yield the tree, nodes in the order of their names."""
    for node, pods in _by_node(branches):
        yield f"node/{node} ({len(pods)} pod{'s' if len(pods) != 1 else ''})"
        for number, branch in enumerate(pods):
            last = number == len(pods) - 1
            yield f"{'└─' if last else '├─'} {_pod(branch)}"
            below = "   " if last else "│  "
            leaves = [*_containers(branch, now), *_of_the_pod(branch, now)]
            for place, leaf in enumerate(leaves):
                yield f"{below}{'└─' if place == len(leaves) - 1 else '├─'} {leaf}"


def documents(branches: Sequence[Branch]) -> list[dict[str, Any]]:
    """Return the tree as JSON: a document for each node."""
    return [
        {
            "node": node,
            "pods": [
                {
                    "namespace": each.pod.key[0],
                    "name": each.pod.name,
                    "status": _status(each.pod),
                    "current": each.pod.current,
                    "containers": [
                        {"name": status.get("name"), "kind": kind, "waitsFor": _waits(kind, status, each, None)}
                        for kind, status in _statuses(each)
                    ],
                    "waitsFor": list(_of_the_pod(each, None)),
                }
                for each in pods
            ],
        }
        for node, pods in _by_node(branches)
    ]


def _by_node(branches: Sequence[Branch]) -> Iterator[tuple[str, list[Branch]]]:
    def node(branch: Branch) -> str:
        return str((branch.pod.document.get("spec") or {}).get("nodeName") or "?")

    for name, pods in groupby(sorted(branches, key=lambda each: (node(each), each.pod.key)), key=node):
        yield name, list(pods)


def _status(pod: ListedPod) -> str:
    if pod.current:
        return summarize(pod.document).status
    return f"{pod.recorded.status or (pod.document.get('status') or {}).get('phase') or 'Unknown'}?"


def _pod(branch: Branch) -> str:
    namespace, name = branch.pod.key
    if not branch.pod.current:
        return f"pod/{namespace}/{name}: {_status(branch.pod)}: it does not answer; this was recorded last"
    summary = summarize(branch.pod.document)
    if why_orphaned(branch.pod.document):
        return f"pod/{namespace}/{name}: {summary.status}: it has no workflow; this was reported last"
    restarts = f", {summary.restarts} restart{'s' if summary.restarts != 1 else ''}" if summary.restarts else ""
    return f"pod/{namespace}/{name}: {summary.status}, {summary.ready}/{summary.total} ready{restarts}"


def _statuses(branch: Branch) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each container's kind and status; a sidecar has another kind than other init containers."""
    status, spec = (branch.pod.document.get(part) or {} for part in ("status", "spec"))
    sidecars = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    for key, kind in _KINDS:
        yield from (("sidecar" if each.get("name") in sidecars else kind, each) for each in status.get(key) or ())


def _containers(branch: Branch, now: datetime) -> Iterator[str]:
    for kind, status in _statuses(branch):
        state = status.get("state") or {}
        word = next(iter(state), "waiting")
        said = state.get(word) or {}
        if word == "terminated":
            word = f"{said.get('reason') or 'terminated'} (exit {said.get('exitCode')})"
        waits = _waits(kind, status, branch, now)
        if waits:
            waits = f", {waits}" if _is_due(str(status.get("name", "")), branch) else f", waits for {waits}"
        yield f"{kind} {status.get('name')}: {word}{waits}"


def _is_due(name: str, branch: Branch) -> bool:
    """Return whether a container starts again at a known time."""
    return any(each.get("subject") == name and read_moment(each.get("until")) is not None for each in branch.holds)


def _waits(kind: str, status: Mapping[str, Any], branch: Branch, now: datetime | None) -> str:
    """Return the thing that a container waits for; "" = nothing. Without `now`, times are moments, not spans."""
    state = status.get("state") or {}
    name = str(status.get("name", ""))
    if hold := next((each for each in branch.holds if each.get("subject") == name), None):
        return _held(hold, now)
    if "running" in state:
        if status.get("ready") or kind in ("init container", "ephemeral container"):
            return ""
        return "its startup probe" if status.get("started") is False else "its readiness probe"
    waiting = state.get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    if "terminated" in state or not waiting:
        return ""
    if reason in ("ContainerCreating", "PodInitializing"):
        return _start(name, branch)
    return _clipped(f"{reason}: {waiting.get('message') or ''}".rstrip(": "))


def _start(name: str, branch: Branch) -> str:
    """Return the thing that a container's start waits for: the containers before it, or the container's own start."""
    if (first := _unfinished(branch)) and first != name:
        return f"init container {first}"
    if not _has_sandbox(branch):
        return "its sandbox"
    step, doing = branch.doing.get(name, ("", ""))
    return _clipped(f"{step}, which {doing}") if doing else "its image or its start"


def _of_the_pod(branch: Branch, now: datetime | None) -> Iterator[str]:
    """Yield the things that the pod as a whole waits for: steps, and back-offs that belong to no container."""
    names = {status.get("name") for _, status in _statuses(branch)}
    for hold in branch.holds:
        if hold.get("subject") not in names:
            waits = "" if read_moment(hold.get("until")) is not None else "waits for "
            yield f"{hold.get('subject')}: {waits}{_held(hold, now, 'is tried')}"
    told = {step for step, _ in branch.doing.values()}
    for step in branch.steps:
        if step.name in told and step.attempt <= 1 and not step.failure:
            continue  # shown in the container's line
        words = [f"try {step.attempt}"] if step.attempt > 1 else []
        if step.failure:
            words.append(f"the last one failed: {step.failure}")
        if step.doing:
            words.append(step.doing)
        yield _clipped(f"step {step.name}{': ' if words else ''}{'; '.join(words)}")


def _held(hold: Mapping[str, Any], now: datetime | None, does: str = "starts") -> str:
    """Return a clause about a back-off: its reason and its end; `does` is the verb for the action at its end."""
    until = read_moment(hold.get("until"))
    if until is None:
        return f"an operator: {hold.get('reason')}"
    if now is None:
        return f"{hold.get('reason')} until {hold.get('until')}"
    left = until - now
    due = f"in {short_duration(left)}" if left.total_seconds() > 0 else "now"
    return f"{hold.get('reason')}: {does} again at {until.astimezone():%H:%M:%S}, {due}"


def _unfinished(branch: Branch) -> str:
    """Return the first init container that keeps the next ones from starting; "" = none does."""
    for kind, status in _statuses(branch):
        ended = (status.get("state") or {}).get("terminated")
        is_done = ended is not None and ended.get("exitCode") == 0
        if (kind == "init container" and not is_done) or (kind == "sidecar" and not status.get("started")):
            return str(status.get("name"))
    return ""


def _has_sandbox(branch: Branch) -> bool:
    conditions = (branch.pod.document.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "PodReadyToStartContainers" and each.get("status") == "True" for each in conditions)


def _clipped(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 1]}…"
