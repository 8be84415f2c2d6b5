"""``syncpod node``: the state of this machine's node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.views.layout import mapping
from syncpod.api.views.text import columns, printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.kernel.process_priority import NODE

if TYPE_CHECKING:
    from syncpod.node.report import Orphan
    from syncpod.settings.worker_record import WorkerRecord


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
    from syncpod.cli.actions.node import (
        ORPHANS,
        ago,
        orphans_now,
        part,
        report_lines,
        silence_sentence,
        unknown,
        unspared_processes,
    )

    if worker is not None:
        unspared = unspared_processes(state_dir, worker.pid if serves else None)
        silence = silence_sentence(state_dir) if serves else ""
        say("\n".join(_worker(worker, serves=serves, unspared=unspared, silence=silence)))
    if not serves:
        remark("the worker is not running: what follows is its last report, apart from the orphans, as they are now")
    if (stall := read_loop_stall(state_dir)) is not None:
        say("\n".join(("", "Event loop:", *(f"  {line}" for line in stall_lines(stall, datetime.now(UTC))))))
    if report is not None:
        if serves and (full := full_disk(state_dir)):
            written = f"{ago(report.at, datetime.now(UTC))} ago"
            remark(f"Note: {full}: what follows is the last report that could be written, {written}")
        known = report if serves else report.model_copy(update={"ready": unknown()})
        orphans = part("Orphans:", ORPHANS, [*map(_orphan, report.orphans)]) if serves else orphans_now()
        say("\n".join(printable(line) if line else "" for line in report_lines(known, orphans, datetime.now(UTC))))


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


def _called(orphan: Orphan) -> str:
    return f"{orphan.namespace}/{orphan.name}" if orphan.kind == "pod" else f"<unidentified {orphan.kind}>"
