"""The output of ``syncpod explain POD -o json``. Values in, values out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncpod.api.views.durations import stamp
from syncpod.cli.view.explanation import HasLog, length
from syncpod.journal.causes import UNKNOWN, End
from syncpod.journal.explain import Explanation
from syncpod.journal.patterns import patterns
from syncpod.journal.reading import LifeRecords


def document(
    explanation: Explanation, others: Sequence[LifeRecords], *, has_log: HasLog, unserved: str
) -> dict[str, Any]:
    """Return all facts of an explanation, also those that the text of `explain` leaves out."""
    records = explanation.records
    return {
        **_life_document(records),
        "at": stamp(explanation.at),
        "knownUntil": stamp(explanation.known_until),
        "phase": explanation.phase,
        "status": explanation.status,
        "reason": explanation.reason,
        "message": explanation.message,
        "unserved": unserved,
        "deleting": explanation.is_being_deleted,
        "waits": [
            {"subject": each.subject, "until": stamp(each.until), "reason": each.reason, "message": each.message}
            for each in explanation.waits
        ],
        "underWay": [
            {"what": each.what, "since": stamp(each.since), "doing": each.doing} for each in explanation.under_way
        ],
        "containers": [
            {
                "name": each.name,
                "running": each.runs,
                "ready": each.is_ready,
                "patterns": patterns(
                    each.ends, changed=explanation.changed, span=length, clock=lambda at: stamp(at) or ""
                ),
                "ends": [_end_document(end, has_log) for end in each.ends],
            }
            for each in explanation.containers
        ],
        "changes": [
            {"at": stamp(each.at), "what": each.what, "times": each.times, "first": stamp(each.first or each.at)}
            for each in explanation.changes
        ],
        "absences": [
            {"begun": stamp(each.begun), "ended": stamp(each.ended), "how": each.how} for each in explanation.absences
        ],
        "otherLives": [_life_document(each) for each in others],
    }


def _life_document(records: LifeRecords) -> dict[str, Any]:
    life = records.life
    return {
        "namespace": life.namespace,
        "name": life.name,
        "uid": life.uid,
        "begun": stamp(records.begun),
        "seen": stamp(records.seen),
        "gone": stamp(records.gone),
        "ends": sum(each.has_ended for each in records.instances),
    }


def _end_document(end: End, has_log: HasLog) -> dict[str, Any]:
    instance = end.instance
    return {
        "restart": instance.restart,
        "image": instance.image,
        "startedAt": stamp(instance.started_at),
        "endedAt": stamp(instance.ended_at),
        "exitCode": instance.exit_code,
        "signal": (instance.signal or None) if end.cause.kind != UNKNOWN else None,
        "reason": instance.reason,
        "message": instance.message,
        "cause": end.cause.words,
        "kind": end.cause.kind,
        "decidedBy": end.cause.by,
        "waitedSeconds": end.waited.total_seconds() if end.waited is not None else None,
        "backOff": end.back_off,
        "cutShort": end.cut_short,
        "hasLogFile": has_log(instance.container, instance.restart),
        "logEnd": instance.log_end,
    }
