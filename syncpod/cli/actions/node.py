"""Shows this machine's node: its worker, and the report that the worker writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.api.client import refresh_report
from syncpod.api.views.durations import short_duration
from syncpod.api.views.layout import mapping
from syncpod.api.views.node_description import stall_lines
from syncpod.api.views.text import columns, printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import full_disk, running_server
from syncpod.cli.view.node_explanation import silence_of_server
from syncpod.journal.reading import NoJournal, gaps_of
from syncpod.kernel.process_priority import NODE, unspared
from syncpod.node.loop_stalls import read_loop_stall
from syncpod.node.report import read_node_report
from syncpod.settings.process_records import running_runtime
from syncpod.settings.worker_record import read_worker_record, serving

if TYPE_CHECKING:
    from syncpod.node.report import NodeReport, Orphan
    from syncpod.settings.worker_record import WorkerRecord

ORPHANS: Final = ("POD", "UID", "RUNNING", "WHY", "FATE")
"""The columns of the orphans' part."""


@dataclass(frozen=True)
class OwnNode:
    """A node as its state directory has it."""

    state_dir: Path
    worker: WorkerRecord | None
    """Its worker, or the last one; None if there was none."""
    serves: bool
    """Whether the worker runs."""
    report: NodeReport | None
    """The newest report that could be written."""


def read_own_node() -> OwnNode:
    """Have the worker write its report anew, if it runs, and return the node. Raises Failure if there is none."""
    state_dir = settings().state_dir
    refresh_report(state_dir)
    worker, report = read_worker_record(state_dir), read_node_report(state_dir)
    if worker is None and report is None:
        raise Failure(f"no node has its state in {state_dir}; start one with `syncpod up`")
    return OwnNode(state_dir, worker, serving(state_dir) is not None, report)


def print_worker(own: OwnNode) -> None:
    """Print what is known of the worker, and the newest stall of its event loop; print a remark if it does not run."""
    if own.worker is not None:
        closer = _unspared(own.state_dir, own.worker.pid if own.serves else None)
        silence = _silence(own.state_dir) if own.serves else ""
        say("\n".join(_worker(own.worker, serves=own.serves, unspared=closer, silence=silence)))
    if not own.serves:
        remark("the worker is not running: what follows is its last report, apart from the orphans, as they are now")
    if (stall := read_loop_stall(own.state_dir)) is not None:
        say("\n".join(("", "Event loop:", *(f"  {line}" for line in stall_lines(stall, datetime.now(UTC))))))


def print_report(own: OwnNode) -> None:
    """Print the report of a worker that runs, if it has written one, after a note if that is not the present state."""
    if own.report is None:
        return
    now = datetime.now(UTC)
    if full := full_disk(own.state_dir):
        remark(f"Note: {full}: what follows is the last report that could be written, {_ago(own.report.at, now)} ago")
    orphans = part_lines("Orphans:", ORPHANS, [*map(_orphan, own.report.orphans)])
    say("\n".join(report_lines(own.report, orphans, now)))


def report_lines(report: NodeReport, orphans: Sequence[str], now: datetime) -> list[str]:
    """Return the report's lines for a terminal, with an empty line before each part.

    `orphans` are the lines of the orphans' part.
    """
    said = (*report.conditions, *((report.ready,) if report.ready is not None else ()))
    conditions = [(each.type, each.status, _ago(each.since, now), each.reason, each.message) for each in said]
    remains = [(f"{each.namespace}/{each.name}", each.uid, each.why) for each in report.remains]
    chores = [(each.name, f"every {each.every_seconds:g}s", f"{each.done} {each.what}") for each in report.chores]
    lines = [
        *part_lines("Conditions:", ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"), conditions),
        *orphans,
        *(part_lines("Remains of pods that are gone:", ("POD", "UID", "WHY"), remains) if remains else ()),
        *part_lines("Housekeeping:", ("CHORE", "PERIOD", "REMOVED"), chores),
    ]
    return [printable(line) if line else "" for line in lines]


def part_lines(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of one part of the report, under its title."""
    if not rows:
        return ["", f"{title} <none>"]
    return ["", title, *(f"  {line}" for line in columns([header, *rows]))]


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


def _silence(state_dir: Path) -> str:
    """Return the sentence that the Temporal server does not answer the worker; "" if it does, or if this is unknown."""
    try:
        since = gaps_of(state_dir).silent_since
    except NoJournal:
        return ""
    return "" if since is None else silence_of_server(since)


def _unspared(state_dir: Path, worker: int | None) -> list[str]:
    """Return our processes that the kernel would kill before Guaranteed pods, each with its oom_score_adj."""
    server, runtime = running_server(state_dir), running_runtime(state_dir)
    return unspared(
        {
            "worker": worker,
            "server": server.process.pid if server is not None else None,
            "runtime": runtime.process.pid if runtime is not None else None,
        }
    )


def _orphan(orphan: Orphan) -> tuple[str, ...]:
    """Return the table cells of an orphan that the worker reports."""
    fate = f"left: {orphan.left}" if orphan.left else "being killed"
    return _called(orphan), orphan.uid or orphan.id, str(orphan.running), orphan.why, fate


def _called(orphan: Orphan) -> str:
    return f"{orphan.namespace}/{orphan.name}" if orphan.kind == "pod" else f"<unidentified {orphan.kind}>"


def _ago(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was: ``5m``."""
    return short_duration(now - since) if since is not None else "<unknown>"
