"""The work of ``syncpod explain``: the state of a pod and its causes, from its node's journal."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.client import steps_under_way
from syncpod.cli.actions.explain_start import explain_start
from syncpod.cli.console import remark, say, terminal_width
from syncpod.cli.failure import Failure
from syncpod.cli.machine.journaled_logs import lives_with_uid
from syncpod.cli.machine.own_journal import last_sign, settled
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import full_disk, recorded_worker, worker_log
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.cli.temporal import session
from syncpod.cli.temporal.ended_workflows import end_of, is_open_on
from syncpod.cli.view.explanation import lines
from syncpod.cli.view.explanation_document import document
from syncpod.journal.causes import OutsideChange
from syncpod.journal.explain import explain as explained
from syncpod.journal.explain import life_at
from syncpod.journal.reading import NoJournal, gaps_of, lives_of
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.tombstones import tombstone_in
from syncpod.settings.worker_record import read_worker_record, serving
from syncpod.temporal.workflow_starts import ENDED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.view.explanation import HasLog
    from syncpod.journal.reading import NodeGaps, PodRunRecords
    from syncpod.journal.records import PodLife
    from syncpod.settings.node import NodeSettings
    from syncpod.temporal.run_history import RunEnd


_RPC: Final = timedelta(seconds=5)


def explain_one_start(
    namespace: str,
    name: str,
    uid: str,
    moment: datetime,
    output: str,
    container: str,
    restart: int | None,
    trace_log: str | None,
) -> None:
    """Print one start of a container. With `trace_log` ("" = the worker's own log), also print its runtime calls."""
    state_dir = settings().state_dir
    _, records = _lives(state_dir, namespace, name, moment, uid)
    log = None if trace_log is None else Path(trace_log) if trace_log else worker_log(state_dir)
    explain_start(records, output, container, restart, log, absences=_gaps(state_dir).absences)


def explain_pod(
    namespace: str,
    name: str,
    uid: str,
    output: str,
    moment: datetime,
    begin: datetime | None,
    now: datetime,
    unrecorded: str,
) -> None:
    """Print a pod's state at a moment, now or in the past, from the journal, which lacks news if `unrecorded`."""
    here, past = settings(), moment != now
    lives, records = _lives(here.state_dir, namespace, name, moment, uid)
    gaps = _gaps(here.state_dir)
    unserved, last_sign = ("", None) if past else _unserved(here, records, gaps.silent_since, unrecorded)
    ended: RunEnd | None = None
    alone = ""
    if not past and (alone := _without_workflow(here.state_dir, records, unserved)):
        unserved, ended = alone, end_of(namespace, name)
        # No worker has recorded anything since the workflow ended.
        last_sign = records.seen if ended is None else max(records.seen, ended.at)
    doing = _doing(here.state_dir, records) if not (past or unserved) else {}
    explanation = explained(
        records, moment, past=past, since=begin, absences=gaps.absences, last_sign=last_sign, doing=doing
    )
    if alone:  # without a workflow, due steps are not done, and the deadline does not end the pod
        explanation = replace(explanation, waits=(), deadline=None, is_being_deleted=False)
    if ended is not None:
        explanation = replace(
            explanation, changes=(*explanation.changes, OutsideChange(ended.at, f"its workflow {ended.how}"))
        )
    others = [each for each in lives if each is not records]
    has_log = _logs_in(here.log_dir, records.life)
    if output == "json":
        say(json.dumps(document(explanation, others, has_log=has_log, unserved=unserved), indent=4))
        return
    where: dict[str, Any] = {"log_dir": here.log_dir, "has_log": has_log, "wide": terminal_width()}
    say("\n".join(lines(explanation, others, now, unserved=unserved, **where)))


def settle_journal() -> str:
    """Read the journal of this machine, and return a sentence about what is missing in it, "" if nothing is."""
    return settled(settings().state_dir)


def _doing(state_dir: Path, records: PodRunRecords) -> dict[tuple[str, str], str]:
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


def _lives(
    state_dir: Path, namespace: str, name: str, moment: datetime, uid: str
) -> tuple[list[PodRunRecords], PodRunRecords]:
    """Return all lives of a pod's name in the journal, and the life at a moment. Raises Failure if there is none.

    If `uid` is not "", that life has this uid.
    """
    try:
        lives = lives_of(state_dir, namespace, name)
    except NoJournal as why:
        raise Failure(str(why)) from None
    chosen = lives_with_uid(lives, uid)
    records = life_at(chosen, moment)
    if records is None:
        raise _unknown(chosen, namespace, name, state_dir)
    return lives, records


def _gaps(state_dir: Path) -> NodeGaps:
    """Return the times in which the node had no worker, or no answer from its server. Raises Failure."""
    try:
        return gaps_of(state_dir)
    except NoJournal as why:
        raise Failure(str(why)) from None


def _unknown(lives: list[PodRunRecords], namespace: str, name: str, state_dir: Path) -> Failure:
    """Return the failure that the journal does not have the pod, or did not have it yet."""
    if lives:
        first = lives[0].begun.astimezone()
        return Failure(f'the journal has nothing of pod "{name}" before {first:%Y-%m-%d %H:%M:%S}')
    where = f"the journal of this node ({state_dir}) has no pod {name} in namespace {namespace}"
    worker = recorded_worker(state_dir)
    if worker is not None and is_open_on(worker.node, namespace, name):
        if serving(state_dir) is None:
            return Failure(f"{where}: it is a pod of this node, whose worker died before it noted it: `syncpod up`")
        why = full_disk(state_dir) or "try again"
        return Failure(f"{where} yet: it is a pod of this node, whose worker has not noted it; {why}")
    return Failure(f"{where}; for a pod of another node, run `explain` there")


def _unserved(
    here: NodeSettings, records: PodRunRecords, silent_since: datetime | None, unrecorded: str
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


def _without_workflow(state_dir: Path, records: PodRunRecords, unserved: str) -> str:
    """Return the sentence that the pod runs without a workflow; "" if it does not, or if that is not known.

    `unserved` is the sentence of `_unserved`. While no worker serves the node, the sentence is returned only if the
    Temporal server has no open workflow for the pod.
    """
    life = records.life
    if unserved and _is_noted_as_over(state_dir, life) and _has_none(life):
        return "it is deleted, and the node's worker has yet to end its containers: start the worker by `syncpod up`"
    orphan = orphan_of(life.namespace, life.name) if records.gone is None else None
    if orphan is None or orphan["metadata"].get("uid") != life.uid:
        return ""
    if not unserved:
        return f"it {without_workflow(orphan)}"
    return f"it {without_workflow(orphan)}; no worker serves this node: `syncpod up` first" if _has_none(life) else ""


def _is_noted_as_over(state_dir: Path, life: PodLife) -> bool:
    """Return whether the node has recorded that a pod's life is over: its next worker ends the running containers."""
    if read_worker_record(state_dir) is None:
        return False

    return tombstone_in(state_dir, life.uid, life.incarnation) is not None


def _has_none(life: PodLife) -> bool:
    """Return whether the Temporal server has no open workflow for a pod; False if the server does not answer."""

    async def work(client: Client) -> bool:
        handle = client.get_workflow_handle(pod_workflow_id(life.namespace, life.name))
        try:
            return (await handle.describe(rpc_timeout=_RPC)).status in ENDED
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND

    try:
        return session.run(work)
    except Failure:
        return False


def _logs_in(log_dir: Path, life: PodLife) -> HasLog:
    """Return a function that tests, by container and restart number, whether an instance's log file exists."""
    pod = log_dir / f"{life.namespace}_{life.name}_{life.uid}"

    def has_log(container: str, restart: int) -> bool:
        try:
            return (pod / container / f"{restart}.log").is_file()
        except (OSError, ValueError):
            return False

    return has_log
