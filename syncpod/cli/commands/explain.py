"""``syncpod explain``: the state of a pod and its causes, from its node's journal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncpod.cli.commands import explain_node
from syncpod.cli.commands.explain_placement import explain_placement
from syncpod.cli.commands.explain_start import explain_start
from syncpod.cli.console import remark, say, terminal_width
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named_nodes, pod_name, read_duration, require_json
from syncpod.cli.input.options import Namespace, OnlyJson, PodNames
from syncpod.cli.machine.journaled_logs import lives_with_uid
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.settings.worker_record import read_worker_record, serving

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.view.explanation import HasLog
    from syncpod.journal.reading import NodeGaps, PodRunRecords
    from syncpod.journal.records import PodLife
    from syncpod.settings.node import NodeSettings
    from syncpod.temporal.run_history import RunEnd

At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="The state at a time: 14:02, 14:02:30 or RFC 3339.", show_default="now"),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="DURATION", help="Only this time until now, such as 30m, 6h or 2d.", show_default=False
    ),
]
Uid = Annotated[
    str, typer.Option("--uid", metavar="UID", help="The life of the name with this uid, instead of the newest.")
]

Start = Annotated[bool, typer.Option("--start", help="Show where the time of its newest start went, step by step.")]
Restart = Annotated[
    int | None, typer.Option("--restart", metavar="N", help="With --start: the start with this number; 0 = the first.")
]
Trace = Annotated[
    bool,
    typer.Option(
        "--trace", help="With --start: show a tree with each call to the runtime, from the traces in the worker's log."
    ),
]
TraceLog = Annotated[
    str,
    typer.Option(
        "--trace-log", metavar="FILE", help="The worker's log.", show_default="of the worker that `up` started"
    ),
]
Placement = Annotated[
    bool, typer.Option("--placement", help="Say for each node of the fleet why the pod is not there.")
]
OfContainer = Annotated[
    str, typer.Option("--container", "-c", metavar="NAME", help="With --start: the start of this container.")
]


_RPC: Final = timedelta(seconds=5)
_FIELDS: Final = re.compile(r"(po|pods?|cm|configmaps?|secrets?|deploy(ment)?s?)(\.[A-Za-z.]+)?|nodes?\.[A-Za-z.]+")
"""A kind or its fields, as in ``kubectl explain pod.spec``. A pod with such a name must be given as pod/NAME."""


def explain(
    what: PodNames = None,
    namespace: Namespace = "default",
    output: OnlyJson = "",
    at: At = None,
    since: Since = None,
    uid: Uid = "",
    start: Start = False,
    restart: Restart = None,
    container: OfContainer = "",
    trace: Trace = False,
    trace_log: TraceLog = "",
    placement: Placement = False,
) -> None:
    """Explain a pod's state, its causes, and what happens next.

    For each end of a container this shows the cause, who decided it, how long the next start waited, and the last lines
    of the log. It also shows what the ends have in common, and the changes to the pod. `explain node` shows the pods of
    this machine's node whose containers ended most often in the last day, the node's events, and what is due next; the
    node may be named, `explain node n1`. Everything comes from this node's journal. So neither the Temporal server nor
    the worker is needed, and pods that are gone are explained for as long as the journal has them: --at or --uid
    chooses an earlier life of the name. On a narrow terminal, long texts in tables are cut, and other long texts are
    wrapped; a pipe gets all texts whole. With --start this shows each part of a container's newest start, with its
    duration. With --trace it also shows each call to the runtime, if the worker was started with
    OTEL_TRACES_EXPORTER=console. With --placement it shows for each node of the fleet that this machine commands
    whether the pod may be there, as `fleet explain --placement` does.
    """
    of_start = {"--restart": restart is not None, "--container": bool(container), "--trace": trace}
    if placement:
        all_else = {"--at": at is not None, "--since": since is not None, "--uid": bool(uid), "--start": start}
        all_else |= of_start
        explain_placement(what, namespace, output, [flag for flag, is_given in all_else.items() if is_given])
        return
    _check(output, at, start=start, of_start=any(of_start.values()))
    if trace_log and not trace:
        raise BadInput("--trace-log: only with --trace")
    _refuse_fields(what or [])
    if (nodes := named_nodes(what or [])) is not None:
        _require_none_of_pods(at, uid, start=start)
        explain_node.explain_node(nodes, output, read_span(since))
        return
    if not what:
        raise BadInput("name a pod, `syncpod explain POD`, or `syncpod explain node` for this machine's node")
    name = pod_name(what)
    unrecorded = _settle_journal()
    now = datetime.now(UTC)
    moment = read_moment(at, now) if at is not None else now
    begin = _beginning(read_span(since), moment)
    if start:
        _explain_start(namespace, name, uid, moment, output, container, restart, trace_log if trace else None)
        return
    _note_day(at, moment, now)
    _explain_pod(namespace, name, uid, output, moment, begin, now, unrecorded)


def _note_day(at: str | None, moment: datetime, now: datetime) -> None:
    """Print a note if a time without a date was taken as a time of yesterday."""
    if at is not None and moment.date() != now.astimezone().date() and _is_clock(at):
        remark(f"Note: {at} is taken as {moment.astimezone():%Y-%m-%d %H:%M:%S}: today's is still to come")


def _refuse_fields(words: Sequence[str]) -> None:
    """Raise BadInput for fields of a kind, which kubectl's `explain` is about."""
    if len(words) == 1 and _FIELDS.fullmatch(words[0]):
        raise BadInput(
            f"{words[0]}: this explains the state of a pod, `explain NAME`; a Pod's fields are explained in "
            "https://kubernetes.io/docs/reference/kubernetes-api/, and docs/pod-support.md says which are supported"
        )


def _explain_start(
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
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import worker_log

    state_dir = settings().state_dir
    _, records = _lives(state_dir, namespace, name, moment, uid)
    log = None if trace_log is None else Path(trace_log) if trace_log else worker_log(state_dir)
    explain_start(records, output, container, restart, log, absences=_gaps(state_dir).absences)


def _explain_pod(
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
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.view.explanation import lines
    from syncpod.cli.view.explanation_document import document
    from syncpod.journal.causes import OutsideChange
    from syncpod.journal.explain import explain as explained

    here, past = settings(), moment != now
    lives, records = _lives(here.state_dir, namespace, name, moment, uid)
    gaps = _gaps(here.state_dir)
    unserved, last_sign = ("", None) if past else _unserved(here, records, gaps.silent_since, unrecorded)
    ended: RunEnd | None = None
    alone = ""
    if not past and (alone := _without_workflow(here.state_dir, records, unserved)):
        from syncpod.cli.temporal.ended_workflows import end_of

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


def _settle_journal() -> str:
    from syncpod.cli.machine.own_journal import settled
    from syncpod.cli.machine.settings import settings

    return settled(settings().state_dir)


def _doing(state_dir: Path, records: PodRunRecords) -> dict[tuple[str, str], str]:
    """Return the worker's descriptions of the pod's running steps, by step and container; {} if it does not answer."""
    if records.gone is not None or not records.present.get("underWay"):
        return {}
    from syncpod.api.client import steps_under_way

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
    from syncpod.journal.explain import life_at
    from syncpod.journal.reading import NoJournal, lives_of

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
    from syncpod.journal.reading import NoJournal, gaps_of

    try:
        return gaps_of(state_dir)
    except NoJournal as why:
        raise Failure(str(why)) from None


def _require_none_of_pods(at: str | None, uid: str, *, start: bool) -> None:
    """Raise BadInput for a flag that has no meaning for a node."""
    flags = {
        "--start: needs a pod": start,
        "--at: needs a pod": at is not None,
        "--uid: needs a pod": bool(uid),
    }
    for flag, is_given in flags.items():
        if is_given:
            raise BadInput(f"{flag}; name one")


def _check(output: str, at: str | None, *, start: bool, of_start: bool) -> None:
    """Raise BadInput for flags that exclude each other."""
    require_json(output)
    if of_start and not start:
        raise BadInput("--restart, --container and --trace: only with --start")
    if start and at is not None:
        raise BadInput("--at: not with --start, which names a start by --restart")


def _is_clock(text: str) -> bool:
    """Return whether a text is a time without a date."""
    try:
        time.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_moment(text: str, now: datetime) -> datetime:
    """Return the moment that a text names. A time without a date is the last such time. Raises BadInput."""
    if _is_clock(text):
        return _last(time.fromisoformat(text), now)
    try:
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):  # OverflowError: the year is out of range in another time zone
        raise BadInput(f"--at: {text!r} is not a time: write 14:02, 14:02:30 or 2026-11-23T14:02:30Z") from None
    if moment > now:
        raise BadInput(f"--at: {text} is in the future")
    return moment


def _last(clock: time, now: datetime) -> datetime:
    """Return the latest past moment with this time of day, in the time's own zone, or else in the local zone."""
    today = datetime.combine(now.astimezone(clock.tzinfo).date(), clock)
    moment = today.astimezone()
    return moment if moment <= now else (today - timedelta(days=1)).astimezone()


def read_span(since: str | None) -> timedelta | None:
    """Return the duration of --since; None if the flag is not given. Raises BadInput."""
    try:
        return None if since is None else read_duration(since)
    except ValueError as wrong:
        raise BadInput(f"--since: {wrong}") from None


def _beginning(since: timedelta | None, until: datetime) -> datetime | None:
    """Return the time from which records are shown; None = from the first record."""
    try:
        return None if since is None else until - since
    except OverflowError:
        return None


def _unknown(lives: list[PodRunRecords], namespace: str, name: str, state_dir: Path) -> Failure:
    """Return the failure that the journal does not have the pod, or did not have it yet."""
    if lives:
        first = lives[0].begun.astimezone()
        return Failure(f'the journal has nothing of pod "{name}" before {first:%Y-%m-%d %H:%M:%S}')
    where = f"the journal of this node ({state_dir}) has no pod {name} in namespace {namespace}"
    from syncpod.cli.machine.state_directory import full_disk, recorded_worker
    from syncpod.cli.temporal.ended_workflows import is_open_on

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
    from syncpod.cli.machine.own_journal import last_sign

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
    from syncpod.node.tombstones import tombstone_in

    return tombstone_in(state_dir, life.uid, life.incarnation) is not None


def _has_none(life: PodLife) -> bool:
    """Return whether the Temporal server has no open workflow for a pod; False if the server does not answer."""
    from temporalio.service import RPCError, RPCStatusCode

    from syncpod.cli.temporal import session
    from syncpod.messages.identity import pod_workflow_id
    from syncpod.temporal.workflow_starts import ENDED

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
