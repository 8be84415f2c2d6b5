"""``syncpod node``: the state of this machine's node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.api.views.durations import short_duration
from syncpod.api.views.layout import mapping
from syncpod.api.views.text import columns, printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.kernel.process_priority import NODE, unspared

if TYPE_CHECKING:
    from syncpod.node.report import NodeCondition, NodeReport, Orphan
    from syncpod.settings.worker_record import WorkerRecord

_ORPHANS: Final = ("POD", "UID", "RUNNING", "WHY", "FATE")


def node() -> None:
    """Show this machine's node: worker, conditions, housekeeping.

    It also lists pods that run without a workflow, and remains of deleted pods that the node cannot remove.
    The conditions are as in `kubectl describe node`. A pod without a workflow is killed only if the Temporal server's
    own records show that it should not run. Otherwise it keeps running, and is listed here with the reason: `syncpod
    adopt` starts a workflow for it, `syncpod prune` ends it. If the oom_score_adj of worker, server or embedded runtime
    may not be lowered here, the kernel would kill them before Guaranteed pods: then their values are shown.
    """
    from syncpod.api.client import refresh_report
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import full_disk
    from syncpod.cli.view.node_description import stall_lines
    from syncpod.node.loop_stalls import read_loop_stall
    from syncpod.node.report import read_node_report
    from syncpod.settings.worker_record import read_worker_record, serving

    state_dir = settings().state_dir
    refresh_report(state_dir)
    worker, report = read_worker_record(state_dir), read_node_report(state_dir)
    if worker is None and report is None:
        raise Failure(f"no node has its state in {state_dir}; start one with `syncpod up`")
    serves = serving(state_dir) is not None
    if worker is not None:
        unspared = _unspared(state_dir, worker.pid if serves else None)
        silence = _silence(state_dir) if serves else ""
        say("\n".join(_worker(worker, serves=serves, unspared=unspared, silence=silence)))
    if not serves:
        remark("the worker is not running: what follows is its last report, apart from the orphans, as they are now")
    if (stall := read_loop_stall(state_dir)) is not None:
        say("\n".join(("", "Event loop:", *(f"  {line}" for line in stall_lines(stall, datetime.now(UTC))))))
    if report is not None:
        if serves and (full := full_disk(state_dir)):
            written = f"{_ago(report.at, datetime.now(UTC))} ago"
            remark(f"Note: {full}: what follows is the last report that could be written, {written}")
        known = report if serves else report.model_copy(update={"ready": _unknown()})
        orphans = _part("Orphans:", _ORPHANS, [*map(_orphan, report.orphans)]) if serves else _orphans_now()
        say("\n".join(printable(line) if line else "" for line in _report(known, orphans, datetime.now(UTC))))


def _unknown() -> NodeCondition:
    from syncpod.node.report import NodeCondition

    why = "the node's worker does not run"
    return NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown", message=why)


def _silence(state_dir: Path) -> str:
    """Return the sentence that the Temporal server does not answer the worker; "" if it does, or if this is unknown."""
    from syncpod.cli.view.node_explanation import silence_of_server
    from syncpod.journal.reading import NoJournal, gaps_of

    try:
        since = gaps_of(state_dir).silent_since
    except NoJournal:
        return ""
    return "" if since is None else silence_of_server(since)


def _unspared(state_dir: Path, worker: int | None) -> list[str]:
    """Return our processes that the kernel would kill before Guaranteed pods, each with its oom_score_adj."""
    from syncpod.cli.machine.state_directory import running_server
    from syncpod.settings.process_records import running_runtime

    server, runtime = running_server(state_dir), running_runtime(state_dir)
    return unspared(
        {
            "worker": worker,
            "server": server.process.pid if server is not None else None,
            "runtime": runtime.process.pid if runtime is not None else None,
        }
    )


def _worker(worker: WorkerRecord, *, serves: bool, unspared: Sequence[str], silence: str) -> list[str]:
    told = f"{', '.join(unspared)}, since {NODE} may not be set here: Guaranteed pods are killed later than these"
    return columns(
        [
            ("Name:", worker.node),
            ("Labels:", ",".join(mapping(worker.labels))),
            ("Runtime:", f"{worker.runtime} at {worker.endpoint}"),
            ("Temporal:", f"{worker.address}, namespace {worker.namespace}, task queue {worker.task_queue}"),
            *([("", silence)] if silence else ()),
            ("Worker:", f"pid {worker.pid}" if serves else "not running"),
            *([("oom_score_adj:", told)] if unspared else ()),
        ]
    )


def _orphan(orphan: Orphan) -> tuple[str, ...]:
    """Return the table cells of an orphan that the worker reports."""
    fate = f"left: {orphan.left}" if orphan.left else "being killed"
    return _called(orphan), orphan.uid or orphan.id, str(orphan.running), orphan.why, fate


def _orphans_now() -> list[str]:
    """Return the lines about orphans, from the runtime and the Temporal server, since no worker reports them."""
    from syncpod.cli.orphans.found_orphans import without_workflow_here
    from syncpod.cli.temporal import session

    try:
        orphans, nameless = session.run(without_workflow_here)
    except Failure as failure:  # runtime or server may be down; the other parts are printed all the same
        return ["", f"Orphans: <unknown>, {failure}"]
    pods = [(f"{one.pod.namespace}/{one.pod.name}", one.pod.uid, str(one.pod.running), one.why) for one in orphans]
    things = [(f"<unidentified {one.kind}>", one.id, str(one.running), "it names no pod") for one in nameless]
    return _part("Orphans:", _ORPHANS, [(*row, "left: no worker serves this node") for row in (*pods, *things)])


def _report(report: NodeReport, orphans: Sequence[str], now: datetime) -> list[str]:
    """Return the report's lines, with an empty line before each part; `orphans` are the lines of the orphans' part."""
    said = (*report.conditions, *((report.ready,) if report.ready is not None else ()))
    conditions = [(each.type, each.status, _ago(each.since, now), each.reason, each.message) for each in said]
    remains = [(f"{each.namespace}/{each.name}", each.uid, each.why) for each in report.remains]
    chores = [(each.name, f"every {each.every_seconds:g}s", f"{each.done} {each.what}") for each in report.chores]
    return [
        *_part("Conditions:", ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"), conditions),
        *orphans,
        *(_part("Remains of pods that are gone:", ("POD", "UID", "WHY"), remains) if remains else ()),
        *_part("Housekeeping:", ("CHORE", "PERIOD", "REMOVED"), chores),
    ]


def _called(orphan: Orphan) -> str:
    return f"{orphan.namespace}/{orphan.name}" if orphan.kind == "pod" else f"<unidentified {orphan.kind}>"


def _part(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return ["", f"{title} <none>"]
    return ["", title, *(f"  {line}" for line in columns([header, *rows]))]


def _ago(since: datetime | None, now: datetime) -> str:
    return short_duration(now - since) if since is not None else "<unknown>"
