"""Explains which pods of this machine's node restart, and why, from the node's journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncpod.cli.console import say, terminal_width
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.own_journal import last_sign, settled
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import recorded_worker
from syncpod.cli.orphan_notes import orphans_here
from syncpod.cli.view.node_explanation import document, lines, silence_of_server
from syncpod.journal.reading import NoJournal, gaps_of, node_summary
from syncpod.node.recorded_events import recorded_cordon, recorded_node_events
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from syncpod.journal.reading import JournalSummary
    from syncpod.journal.records import Absence
    from syncpod.node.recorded_events import NodeEvent
    from syncpod.settings.node import NodeSettings

_A_DAY: Final = timedelta(days=1)
_MOST: Final = 15
"""Maximum number of pods that are shown."""


@dataclass(frozen=True)
class JournaledNode:
    """What is known of a node that is to be explained."""

    name: str
    summary: JournalSummary
    events: Sequence[NodeEvent]
    absences: Sequence[Absence]
    """When it had no worker, or no answer from its server."""
    now: datetime
    since: datetime
    """The time from which records are shown."""
    served: Sequence[str]
    """Sentences about the worker that serves it, and about its state."""
    unserved: str
    """What must happen before anything that is due happens; "" = nothing."""
    may_have_orphans: bool
    """Whether some of the pods that are shown may run without a workflow."""
    orphans: Sequence[str] = ()
    """The UIDs of its orphans."""


def read_node(names: Sequence[str], span: timedelta | None) -> JournaledNode:
    """Return what is known of this machine's node, with the pods whose containers ended most often lately.

    `names` are the nodes that were named; empty = this machine's node. Records go back for `span`; None = a day. Raises
    Failure, also for another node, and BadInput.
    """
    here = settings()
    unrecorded = settled(here.state_dir)
    now = datetime.now(UTC)
    node = _required(names, here.state_dir, here.node)
    begin = now - (_A_DAY if span is None else span)
    try:
        summary = node_summary(here.state_dir, begin, most=_MOST)
        gaps = gaps_of(here.state_dir)
    except NoJournal as why:
        raise Failure(str(why)) from None
    served, unserved = [_served(here)], "`syncpod up`" if serving(here.state_dir) is None else ""
    if not unserved and gaps.silent_since is not None:
        unserved = "the Temporal server answers"
        served.append(silence_of_server(gaps.silent_since))
    if unrecorded:
        served.append(f"{unrecorded}: what follows lacks what has happened since")
    if (by := recorded_cordon(here.state_dir)) is not None:
        served.append(f"it is cordoned{by and f' by {by}'}: it takes no new pods (`syncpod uncordon` ends that)")
    return JournaledNode(
        node,
        summary,
        events=[each for each in recorded_node_events(here.state_dir) if each.last >= begin],
        absences=[each for each in gaps.absences if each.ended >= begin],
        now=now,
        since=begin,
        served=served,
        unserved=unserved,
        may_have_orphans=bool(summary.due or summary.restless) and bool(orphans_here(None)),
    )


def print_node(node: JournaledNode, output: str) -> None:
    """Print which pods of a node restart, the node's events, and what is due next."""
    told = node.summary, node.events, node.absences, node.now, node.since
    if output == "json":
        say(json.dumps(document(*told, node.served, node.orphans), indent=4))
        return
    how: dict[str, Any] = {"orphans": node.orphans, "unserved": node.unserved, "wide": terminal_width()}
    say("\n".join(lines(*told, node=node.name, served=node.served, **how)))


def _required(names: Sequence[str], state_dir: Path, configured: str) -> str:
    """Return the name of this machine's node: its worker's, or else the configured one.

    Raises Failure if another node was named, and BadInput for several names.
    """
    if len(names) > 1:
        raise BadInput(f"name one node, not {len(names)}")
    worker = serving(state_dir) or recorded_worker(state_dir)
    node = worker.node if worker is not None else configured
    if names and names[0] != node:
        raise Failure(
            f'nodes "{names[0]}" not found: this machine\'s node is {node}; '
            f"of another, `syncpod fleet explain node {names[0]}`, or run `explain node` there"
        )
    return node


def _served(here: NodeSettings) -> str:
    """Return the sentence about the worker that serves the node, or that none does."""
    worker = serving(here.state_dir)
    if worker is None:
        last = last_sign(here)
        since = f" since {last.astimezone():%Y-%m-%d %H:%M:%S}" if last is not None else ""
        return f"no worker serves it{since}: nothing happens to its pods before `syncpod up`"
    return f"worker {worker.pid} serves it, on {worker.runtime}; `syncpod node` shows its conditions"
