"""The output of ``describe node``: the node as `kubectl describe` lays it out, then its sources and its waits.

Pure: values in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from syncpod.api.listed import ListedPod
from syncpod.api.listed_node import ListedNode
from syncpod.api.views.durations import age, moment_text, read_moment, short_duration
from syncpod.api.views.layout import NONE, mapping, pairs
from syncpod.api.views.text import align
from syncpod.journal.records import EventRecord
from syncpod.messages.node import API_SOURCE, NodeView
from syncpod.node.loop_stalls import LoopStall
from syncpod.node.orphan_mark import STATUS, why_orphaned
from syncpod.pod import Pod
from syncpod.pod.origin import list_of


def describe(node: ListedNode, pods: Sequence[ListedPod], now: datetime) -> list[str]:
    """Return the lines of a description; `pods` are those on the node."""
    view = node.view
    lines = [*pairs(_head(node, now)), *(pairs([("Event Loop", stall_lines(node.stall, now))]) if node.stall else ())]
    lines += _conditions(node)
    lines += _named("Addresses", [(each.type, each.address) for each in view.addresses])
    if node.current or node.is_told:
        lines += _named("Capacity", view.capacity.items())
        lines += _named("Allocatable", view.allocatable.items())
    lines += _named("System Info", _system(view))
    if node.current:
        lines += _sources(view, now)
    lines += _pods(view, pods, now)
    known = node.current or node.is_told
    lines += _events(view.events, now) if known else ["Events:  <unknown>, the node did not answer"]
    return lines


def _head(node: ListedNode, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    view = node.view
    yield "Name", [node.name]
    yield "Roles", [NONE]
    yield "Labels", mapping(view.labels)
    yield "CreationTimestamp", [moment_text(view.since)]
    yield "Unschedulable", [str(view.unschedulable).lower()]
    yield "Worker", [f"{view.identity or '<unknown>'}, {_sign(node, now)}"]
    if node.lives and not node.current:
        yield (
            "Note",
            ["the node is busy: its worker lives, but has not answered in time; its last answer follows"],
        )
    elif not node.current:
        yield "Note", ["the node does not answer: its last reported state follows"]


def _sign(node: ListedNode, now: datetime) -> str:
    """Return when the node's worker last gave a sign of life, or since when it has been dead."""
    if node.heard is None:
        return "no sign of it yet" if node.lives else "no sign of it: it was stopped, or has never run"
    if node.lives:
        return f"last sign of it {age(node.heard, now)} ago"
    return f"dead since {node.heard.astimezone():%Y-%m-%d %H:%M:%S}, {age(node.heard, now)} ago"


def stall_lines(stall: LoopStall, now: datetime) -> list[str]:
    """Return lines about the stalls of a worker's event loop: how long, when, and where."""
    lasted, ago = short_duration(timedelta(seconds=stall.seconds)), age(stall.since, now)
    verb = "stood" if stall.over else "has stood"
    where = [f"at {place}" for place in reversed(stall.stack)]
    return [f"{verb} still for {lasted}, {ago} ago: it {stall.doing}", *where]


def _conditions(node: ListedNode) -> list[str]:
    head = ["Type", "Status", "LastTransitionTime", "Reason", "Message"]
    rows = [head, ["-" * len(word) for word in head]]
    told = {each.type: each for each in node.view.conditions} if not node.current else {}
    for each in node.conditions:
        before = told.get(each.type)
        last = f" Last reported: {before.status}, {before.message or before.reason}" if before else ""
        rows.append([each.type, each.status, moment_text(each.last_transition_time), each.reason, each.message + last])
    return ["Conditions:", *(f"  {'  '.join(row)}".rstrip() for row in align(rows))]


def _named(title: str, values: Iterable[tuple[str, str]]) -> list[str]:
    lines = list(pairs(((name, [value]) for name, value in values), indent=2))
    return [f"{title}:", *lines] if lines else [f"{title}:  {NONE}"]


def _system(view: NodeView) -> list[tuple[str, str]]:
    info = view.node_info
    said = {
        "Kernel Version": info.kernel_version,
        "OS Image": info.os_image,
        "Operating System": info.operating_system,
        "Architecture": info.architecture,
        "Container Runtime Version": info.container_runtime_version,
        "Kubelet Version": info.kubelet_version,
    }
    return [(name, value) for name, value in said.items() if value]


def _sources(view: NodeView, now: datetime) -> list[str]:
    rows = [("Source", "Pods", "Reported")]
    rows += [(name, str(each.pods), f"{age(each.reported_at, now)} ago") for name, each in sorted(view.sources.items())]
    lines = _table("Sources", rows)
    waiting = [each for each in view.desired if each.state != "applied"]
    held: list[Sequence[str]] = [("Pod", "Source", "State", "Why", "Retry")]
    for each in waiting:
        left = f"in {short_duration(each.retry_at - now)}" if each.retry_at is not None else "now"
        why = " ".join(each.message.split())
        held.append((f"{each.namespace}/{each.name}", each.source, each.state, why or NONE, left))
    return [*lines, *(_table("Waiting Pods", held) if waiting else [])]


def _pods(view: NodeView, pods: Sequence[ListedPod], now: datetime) -> list[str]:
    sources = {(each.namespace, each.name): each.source for each in view.desired}
    rows = [("Namespace", "Name", "Phase", "Source", "Age")]
    for each in pods:
        pod = Pod.model_validate(each.document)
        meta, phase = pod.metadata, str(pod.status.phase or "Pending")
        # The list of the source may name another pod, which waits for this pod's name. The marks of a silent pod are
        # not known.
        listed = sources.get((meta.namespace, meta.name), API_SOURCE)
        source = (list_of(meta) or API_SOURCE) if each.current else listed
        lived = age(meta.creation_timestamp, now)
        if why_orphaned(each.document):
            phase = STATUS
        elif not each.current:  # the age may be only that of the workflow's current run
            created = read_moment(each.recorded.created)
            phase, lived = f"{phase}?", "?" if created is None else age(created, now)
        rows.append((meta.namespace, meta.name, phase, source, lived))
    return _table(f"Pods ({len(pods)} in total)", rows)


def _events(events: Sequence[EventRecord], now: datetime) -> list[str]:
    rows = [("Type", "Reason", "Age", "Message")]
    for event in events:
        seen = age(event.last, now)
        if event.count > 1:
            seen += f" (x{event.count} over {age(event.first, now)})"
        rows.append((event.type, event.reason, seen, " ".join(event.message.split())))
    return _table("Events", rows)


def _table(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a titled table; the first row is its head."""
    if len(rows) == 1:
        return [f"{title}:  {NONE}"]
    ruled = [rows[0], ["-" * len(word) for word in rows[0]], *rows[1:]]
    return [f"{title}:", *(f"  {'  '.join(row)}".rstrip() for row in align(ruled))]
