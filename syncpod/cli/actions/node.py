"""The work of ``syncpod node``: the state of this machine's node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.api.views.durations import short_duration
from syncpod.api.views.text import columns
from syncpod.cli.failure import Failure
from syncpod.cli.machine.state_directory import running_server
from syncpod.cli.orphans.found_orphans import without_workflow_here
from syncpod.cli.temporal import session
from syncpod.cli.view.node_explanation import silence_of_server
from syncpod.journal.reading import NoJournal, gaps_of
from syncpod.kernel.process_priority import unspared
from syncpod.node.report import NodeCondition
from syncpod.settings.process_records import running_runtime

if TYPE_CHECKING:
    from syncpod.node.report import NodeReport


ORPHANS: Final = ("POD", "UID", "RUNNING", "WHY", "FATE")


def unknown() -> NodeCondition:
    """Return the condition of a node whose worker does not run."""
    why = "the node's worker does not run"
    return NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown", message=why)


def silence_sentence(state_dir: Path) -> str:
    """Return the sentence that the Temporal server does not answer the worker; "" if it does, or if this is unknown."""
    try:
        since = gaps_of(state_dir).silent_since
    except NoJournal:
        return ""
    return "" if since is None else silence_of_server(since)


def unspared_processes(state_dir: Path, worker: int | None) -> list[str]:
    """Return our processes that the kernel would kill before Guaranteed pods, each with its oom_score_adj."""
    server, runtime = running_server(state_dir), running_runtime(state_dir)
    return unspared(
        {
            "worker": worker,
            "server": server.process.pid if server is not None else None,
            "runtime": runtime.process.pid if runtime is not None else None,
        }
    )


def orphans_now() -> list[str]:
    """Return the lines about orphans, from the runtime and the Temporal server, since no worker reports them."""
    try:
        orphans, nameless = session.run(without_workflow_here)
    except Failure as failure:  # runtime or server may be down; the other parts are printed all the same
        return ["", f"Orphans: <unknown>, {failure}"]
    pods = [(f"{one.pod.namespace}/{one.pod.name}", one.pod.uid, str(one.pod.running), one.why) for one in orphans]
    things = [(f"<unidentified {one.kind}>", one.id, str(one.running), "it names no pod") for one in nameless]
    return part("Orphans:", ORPHANS, [(*row, "left: no worker serves this node") for row in (*pods, *things)])


def report_lines(report: NodeReport, orphans: Sequence[str], now: datetime) -> list[str]:
    """Return the report's lines, with an empty line before each part; `orphans` are the lines of the orphans' part."""
    said = (*report.conditions, *((report.ready,) if report.ready is not None else ()))
    conditions = [(each.type, each.status, ago(each.since, now), each.reason, each.message) for each in said]
    remains = [(f"{each.namespace}/{each.name}", each.uid, each.why) for each in report.remains]
    chores = [(each.name, f"every {each.every_seconds:g}s", f"{each.done} {each.what}") for each in report.chores]
    return [
        *part("Conditions:", ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"), conditions),
        *orphans,
        *(part("Remains of pods that are gone:", ("POD", "UID", "WHY"), remains) if remains else ()),
        *part("Housekeeping:", ("CHORE", "PERIOD", "REMOVED"), chores),
    ]


def part(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of one part of the report, under its title."""
    if not rows:
        return ["", f"{title} <none>"]
    return ["", title, *(f"  {line}" for line in columns([header, *rows]))]


def ago(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was: ``5m``."""
    return short_duration(now - since) if since is not None else "<unknown>"
