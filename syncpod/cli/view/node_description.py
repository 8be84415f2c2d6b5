"""The output of ``describe node``: the node as `kubectl describe` lays it out, then its sources and its waits.

Pure: values in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from syncpod.api.listed_node import ListedNode
from syncpod.api.views.durations import age, moment_text, read_moment, short_duration
from syncpod.api.views.layout import NONE, mapping, pairs
from syncpod.api.views.text import align
from syncpod.cli.fetched import FetchedPod
from syncpod.journal.records import EventRecord
from syncpod.messages.node import API_SOURCE, NodeView
from syncpod.node.loop_stalls import LoopStall
from syncpod.node.orphan_mark import STATUS, why_orphaned
from syncpod.pod.origin import list_of


def describe(
    fetched: ListedNode, pods: Sequence[FetchedPod], now: datetime, stall: LoopStall | None = None
) -> list[str]:
    """Return the lines of a description; `pods` are those on the node, `stall` its worker's newest stall, if known."""
    view = fetched.view
    lines = [*pairs(_head(fetched, now)), *(pairs([("Event Loop", stall_lines(stall, now))]) if stall else ())]
    lines += _conditions(fetched)
    lines += _named("Addresses", [(each.type, each.address) for each in view.addresses])
    if fetched.current or fetched.is_told:
        lines += _named("Capacity", view.capacity.items())
        lines += _named("Allocatable", view.allocatable.items())
    lines += _named("System Info", _system(view))
    if fetched.current:
        lines += _sources(view, now)
    lines += _pods(view, pods, now)
    known = fetched.current or fetched.is_told
    lines += _events(view.events, now) if known else ["Events:  <unknown>, the node did not answer"]
    return lines


def _head(fetched: ListedNode, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    view = fetched.view
    yield "Name", [fetched.name]
    yield "Roles", [NONE]
    yield "Labels", mapping(view.labels)
    yield "CreationTimestamp", [moment_text(view.since)]
    yield "Unschedulable", [str(view.unschedulable).lower()]
    yield "Worker", [f"{view.identity or '<unknown>'}, {_sign(fetched, now)}"]
    if fetched.lives and not fetched.current:
        yield (
            "Note",
            ["the node is busy: its worker lives, but has not answered in time; its last answer follows"],
        )
    elif not fetched.current:
        yield "Note", ["the node does not answer: its last reported state follows"]


def _sign(fetched: ListedNode, now: datetime) -> str:
    """Return when the node's worker last gave a sign of life, or since when it has been dead."""
    if fetched.heard is None:
        return "no sign of it yet" if fetched.lives else "no sign of it: it was stopped, or has never run"
    if fetched.lives:
        return f"last sign of it {age(fetched.heard, now)} ago"
    return f"dead since {fetched.heard.astimezone():%Y-%m-%d %H:%M:%S}, {age(fetched.heard, now)} ago"


def stall_lines(stall: LoopStall, now: datetime) -> list[str]:
    """Return lines about the stalls of a worker's event loop: how long, when, and where."""
    lasted, ago = short_duration(timedelta(seconds=stall.seconds)), age(stall.since, now)
    verb = "stood" if stall.over else "has stood"
    where = [f"at {place}" for place in reversed(stall.stack)]
    return [f"{verb} still for {lasted}, {ago} ago: it {stall.doing}", *where]


def _conditions(fetched: ListedNode) -> list[str]:
    head = ["Type", "Status", "LastTransitionTime", "Reason", "Message"]
    rows = [head, ["-" * len(word) for word in head]]
    told = {each.type: each for each in fetched.view.conditions} if not fetched.current else {}
    for each in fetched.conditions:
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


def _pods(view: NodeView, pods: Sequence[FetchedPod], now: datetime) -> list[str]:
    sources = {(each.namespace, each.name): each.source for each in view.desired}
    rows = [("Namespace", "Name", "Phase", "Source", "Age")]
    for each in pods:
        meta, phase = each.pod.metadata, str(each.pod.status.phase or "Pending")
        # The list of the source may name another pod, which waits for this pod's name. The marks of a silent pod are
        # not known.
        listed = sources.get((meta.namespace, meta.name), API_SOURCE)
        source = (list_of(meta) or API_SOURCE) if each.current else listed
        lived = age(meta.creation_timestamp, now)
        if why_orphaned(each.wire):
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
