"""``syncpod explain POD --start``: where the time of a container's start went, from the journal or from a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import say, terminal_width
from syncpod.cli.failure import Failure
from syncpod.cli.machine.state_directory import worker_log
from syncpod.cli.view import span_tree
from syncpod.cli.view.console_spans import spans_in
from syncpod.cli.view.span_tree import traces_of
from syncpod.cli.view.start_timeline import document, heading, lines
from syncpod.journal.start import start_of

if TYPE_CHECKING:
    from syncpod.cli.actions.explain import JournaledPod
    from syncpod.cli.view.span_tree import SpanTree
    from syncpod.journal.reading import LifeRecords
    from syncpod.journal.start import Start

_READ: Final = 64 << 20
"""How many bytes from the end of a worker's log are searched for traces."""


def explain_start(pod: JournaledPod, output: str, container: str, restart: int | None, trace_log: str | None) -> None:
    """Print where the time of a start went: of a container, "" = any, and of a restart; None = the newest start.

    `trace_log` is a worker's log, "" = that of this machine's worker: with it, the traces of the start are printed from
    that log instead. Raises Failure if the journal has no such start, or the log has no trace of it.
    """
    records, traced = pod.records, None
    if trace_log is not None:
        traced = Path(trace_log) if trace_log else worker_log(pod.here.state_dir)
    found = start_of(records, container=container, restart=restart, absences=pod.absences)
    if found is None:
        which = f" of restart {restart}" if restart is not None else ""
        of = f"container {container}" if container else "any container"
        raise Failure(f'the journal has no start{which} of {of} of pod "{records.life.name}"')
    trees = _traces(records, found, traced) if traced is not None else []
    if output == "json":
        more = {"traces": [tree.document() for tree in trees]} if traced is not None else {}
        say(json.dumps(document(records, found) | more, indent=4))
    elif traced is not None:
        say("\n".join((heading(records, found), *span_tree.lines(trees))))
    else:
        say("\n".join(lines(records, found, wide=terminal_width())))


def _traces(records: LifeRecords, start: Start, log: Path) -> list[SpanTree]:
    """Return the traces of a start. Raises Failure if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _READ))
            text = file.read().decode(errors="replace")
    except OSError as error:
        raise Failure(f"the worker's log {log} cannot be read: {error.strerror}") from None
    trees = traces_of(list(spans_in(text)), records.life.uid, start.begun, start.ended)
    if not trees:
        raise Failure(
            f"{log} has no trace of this start. Start the worker with OTEL_TRACES_EXPORTER=console; it prints traces "
            "up to five seconds late"
        )
    return trees
