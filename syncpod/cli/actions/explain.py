"""Explains the state of a pod and its causes, now or at a time in the past, from its node's journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncpod.api.client import steps_under_way
from syncpod.cli.console import remark, say, terminal_width
from syncpod.cli.failure import Failure
from syncpod.cli.machine.own_journal import last_sign, lives_with_uid, settled
from syncpod.cli.machine.settings import settings
from syncpod.cli.orphan_notes import orphan_of
from syncpod.cli.view.explanation import lines
from syncpod.cli.view.explanation_document import document
from syncpod.journal.causes import OutsideChange
from syncpod.journal.explain import explain, life_at
from syncpod.journal.reading import NoJournal, gaps_of, lives_of
from syncpod.settings.worker_record import read_worker_record, serving

if TYPE_CHECKING:
    from syncpod.cli.view.explanation import HasLog
    from syncpod.journal.reading import LifeRecords
    from syncpod.journal.records import Absence, PodLife
    from syncpod.settings.node import NodeSettings
    from syncpod.temporal.run_history import RunEnd


@dataclass(frozen=True)
class JournaledPod:
    """What is known of a pod that is to be explained."""

    here: NodeSettings
    records: LifeRecords
    """The life that is explained."""
    others: Sequence[LifeRecords]
    """The other lives of its name."""
    absences: Sequence[Absence]
    """When the node had no worker, or no answer from its server."""
    moment: datetime
    """The time whose state is explained."""
    now: datetime
    since: datetime | None
    """The time from which records are shown; None = from the first record."""
    unserved: str = ""
    """Why nothing that is due happens now; "" = it happens, or that is not known."""
    last_sign: datetime | None = None
    """Until when its state is known; None = until now."""
    orphan: dict[str, Any] | None = None
    """The pod as an orphan of this machine; None = it is none, or not known to be one."""
    is_doubtful: bool = False
    """Whether the Temporal server may know that the pod has no workflow any more."""
    is_without_workflow: bool = False
    end: RunEnd | None = None
    """How its last workflow has ended; None = not known, or it has not."""

    @property
    def is_past(self) -> bool:
        """Whether the explained state is an earlier one."""
        return self.moment != self.now


def read_pod(
    namespace: str, name: str, uid: str, moment: datetime | None, span: timedelta | None, *, with_state: bool
) -> JournaledPod | None:
    """Return what this machine knows of a pod; None if the journal has no pod of the name. Raises Failure.

    The pod is the life of the name at `moment` (None = now), with the `uid` unless that is "". Its records go back for
    `span`; None = to the first one. With the present state, what the node can do for the pod now is found out too: a
    note is printed if the node cannot act.
    """
    here = settings()
    unrecorded = settled(here.state_dir)
    now = datetime.now(UTC)
    moment = moment or now
    try:
        lives = lives_of(here.state_dir, namespace, name)
        records = life_at(chosen := lives_with_uid(lives, uid), moment)
        if records is None and chosen:
            first = f"{chosen[0].begun.astimezone():%Y-%m-%d %H:%M:%S}"
            raise Failure(f'the journal has nothing of pod "{name}" before {first}')
        if records is None:
            return None
        gaps = gaps_of(here.state_dir)
    except NoJournal as why:
        raise Failure(str(why)) from None
    others = [each for each in lives if each is not records]
    pod = JournaledPod(here, records, others, gaps.absences, moment, now, _beginning(span, moment))
    if pod.is_past or not with_state:
        return pod
    unserved, known = _unserved(here, records, gaps.silent_since, unrecorded)
    orphan = None if unserved or records.gone is not None else orphan_in_life(records.life)
    has_worked = read_worker_record(here.state_dir) is not None
    is_doubtful = orphan is not None or bool(unserved and has_worked)
    return replace(pod, unserved=unserved, last_sign=known, orphan=orphan, is_doubtful=is_doubtful)


def print_pod(pod: JournaledPod, output: str) -> None:
    """Print a pod's state and its causes."""
    here, life = pod.here, pod.records.life
    doing = _doing(here.state_dir, pod.records) if not (pod.is_past or pod.unserved) else {}
    explanation = explain(
        pod.records,
        pod.moment,
        past=pod.is_past,
        since=pod.since,
        absences=pod.absences,
        last_sign=pod.last_sign,
        doing=doing,
    )
    if pod.is_without_workflow:  # due steps are not done, and the deadline does not end the pod
        explanation = replace(explanation, waits=(), deadline=None, is_being_deleted=False)
    if pod.end is not None:
        end = OutsideChange(pod.end.at, f"its workflow {pod.end.how}")
        explanation = replace(explanation, changes=(*explanation.changes, end))
    has_log = _logs_in(here.log_dir, life)
    if output == "json":
        say(json.dumps(document(explanation, pod.others, has_log=has_log, unserved=pod.unserved), indent=4))
        return
    where: dict[str, Any] = {"log_dir": here.log_dir, "has_log": has_log, "wide": terminal_width()}
    say("\n".join(lines(explanation, pod.others, pod.now, unserved=pod.unserved, **where)))


def orphan_in_life(life: PodLife) -> dict[str, Any] | None:
    """Return the orphan of this life on this machine's node; None if there is none. Blocks."""
    orphan = orphan_of(life.namespace, life.name)
    return orphan if orphan is not None and orphan["metadata"].get("uid") == life.uid else None


def _beginning(span: timedelta | None, until: datetime) -> datetime | None:
    """Return the time from which records are shown; None = from the first record."""
    try:
        return None if span is None else until - span
    except OverflowError:
        return None


def _doing(state_dir: Path, records: LifeRecords) -> dict[tuple[str, str], str]:
    """Return the worker's descriptions of the pod's running steps, by step and container; {} if it does not answer."""
    if records.gone is not None or not records.present.get("underWay"):
        return {}
    try:
        return {
            (str(each["step"]), str(each["container"])): str(each["doing"])
            for each in steps_under_way(state_dir)
            if each["uid"] == records.life.uid
        }
    except (TypeError, KeyError):  # a worker of another version
        return {}


def _unserved(
    here: NodeSettings, records: LifeRecords, silent_since: datetime | None, unrecorded: str
) -> tuple[str, datetime | None]:
    """Return a sentence if the node cannot act, and until when its state is known; print a note too.

    It cannot act without a worker, nor while its server does not answer, since `silent_since`. Its acts are not known
    while they cannot be recorded, for the reason `unrecorded`. Returns "" and None otherwise, or if the pod is gone.
    """
    if records.gone is not None:
        return "", None
    if serving(here.state_dir) is not None:
        if unrecorded:
            day = f"{records.seen.astimezone():%Y-%m-%d %H:%M:%S}"
            remark(f"Note: {unrecorded}; this is the last state that could be recorded, at {day}")
            return f"{unrecorded}: nothing that happens is recorded until that is mended", records.seen
        if silent_since is None:
            return "", None
        known = max(records.seen, silent_since)
        since, day = f"{silent_since.astimezone():%H:%M:%S}", f"{known.astimezone():%Y-%m-%d %H:%M:%S}"
        remark(f"Note: the Temporal server has not answered this node since {since}; this is the state at {day}")
        return f"the Temporal server has not answered since {since}: nothing of this happens until it does", known
    seen, sign = records.seen, last_sign(here)
    known = max(seen, sign) if sign is not None else seen
    since = f" since {known.astimezone():%Y-%m-%d %H:%M:%S}" if sign is not None else ""
    remark(f"Note: no worker serves this node{since}; this is the state at {known.astimezone():%Y-%m-%d %H:%M:%S}")
    return "no worker serves this node: nothing of this happens until `syncpod up`", known


def _logs_in(log_dir: Path, life: PodLife) -> HasLog:
    """Return a function that tests, by container and restart number, whether an instance's log file exists."""
    pod = log_dir / f"{life.namespace}_{life.name}_{life.uid}"

    def has_log(container: str, restart: int) -> bool:
        try:
            return (pod / container / f"{restart}.log").is_file()
        except (OSError, ValueError):
            return False

    return has_log
