"""The output of ``syncpod explain POD --start``: where the time of one start went. Values in, text out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from syncpod.api.views.durations import stamp
from syncpod.api.views.layout import table, wrapped
from syncpod.cli.console import paint
from syncpod.journal.reading import LifeRecords
from syncpod.journal.start import Phase, Start

NOT_KNOWN: Final = (
    "A step's time is from its scheduling to its result, including the wait for the worker and all tries.",
    "The journal does not have the calls to the runtime within a step. Traces have them: --trace (docs/traces.md).",
)
"""Remarks about the figures: the times that they include and leave out."""


def heading(records: LifeRecords, start: Start) -> str:
    """Return a line that names the start."""
    one, life, began = start.instance, records.life, start.begun.astimezone()
    which = f"Start of {one.container}, restart {one.restart}, of pod {life.namespace}/{life.name}"
    return paint(f"{which}: {began:%F %H:%M:%S.%f}"[:-3], "bold")


def lines(records: LifeRecords, start: Start, *, wide: int | None = None) -> list[str]:
    """Return the timeline of one start, in lines of at most `wide` characters; None = of any length."""
    rows = [("AT", "TOOK", "WHAT"), *(_row(start, phase) for phase in start.phases)]
    steps, held, between = (_ms(start.spent(kind)) for kind in ("step", "back-off", "between"))
    away = "".join(f"{kind} {_ms(spent)}, " for kind in ("no worker", "no server") if (spent := start.spent(kind)))
    whole = _ms(start.ended - start.begun)
    probes = f", until a probe succeeded {_ms(start.spent('probes'))}" if start.spent("probes") else ""
    known = f"{whole} in all: steps {steps}, back-off {held}, {away}no step under way {between}{probes}"
    return [
        heading(records, start),
        *(f"  {line}" for line in table(rows, wide=wide and wide - 2, cut=(2,))),
        *(line for said in (known, _readiness(start), *NOT_KNOWN) for line in wrapped(said, wide)),
    ]


def _row(start: Start, phase: Phase) -> tuple[str, str, str]:
    what = " ".join(phase.what.split())
    return _ms(phase.begun - start.begun), "-" if phase.kind == "moment" else _ms(phase.took), what


def _readiness(start: Start) -> str:
    if start.ready is not None:
        return f"Ready {_ms(start.ready - start.begun)} after the beginning, by its readiness probe."
    return (
        "When it was ready is not known: no readiness probe succeeded. Without one it is once it runs and has started."
    )


def _ms(span: timedelta) -> str:
    return f"{round(span / timedelta(milliseconds=1))}ms"


def document(records: LifeRecords, start: Start) -> dict[str, Any]:
    """Return the timeline as JSON, with times in UTC and durations in milliseconds."""
    one, life = start.instance, records.life
    return {
        "namespace": life.namespace,
        "name": life.name,
        "uid": life.uid,
        "container": one.container,
        "restart": one.restart,
        "begun": stamp(start.begun),
        "running": stamp(one.started_at),
        "ready": stamp(start.ready),
        "phases": [
            {
                "at": stamp(each.begun),
                "kind": each.kind,
                "tookMs": round(each.took / timedelta(milliseconds=1)),
                "what": each.what,
            }
            for each in start.phases
        ],
        "notKnown": list(NOT_KNOWN),
    }
