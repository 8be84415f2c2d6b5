"""``syncpod explain`` and ``syncpod fleet explain``: the state of pods and nodes, and its causes, from a journal."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Final

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named_nodes, pod_name, read_duration, require_json
from syncpod.cli.input.contexts import OnlyFleet, OnlyNode, flags_for_node
from syncpod.cli.input.fleet_names import kind_and_name, require_pods
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.input.options import Namespace, OfNode, OnlyJson, PodNames, StateDir

_FIELDS: Final = re.compile(r"(po|pods?|cm|configmaps?|secrets?|deploy(ment)?s?)(\.[A-Za-z.]+)?|nodes?\.[A-Za-z.]+")
"""A kind or its fields, as in ``kubectl explain pod.spec``. A pod with such a name must be given as pod/NAME."""


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `explain` and `fleet explain`."""

    what: PodNames = None
    namespace: Namespace = "default"
    node: OnlyFleet[OfNode] = ""
    output: OnlyJson = ""
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="The state at a time: 14:02, 14:02:30 or RFC 3339.", show_default="now"
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DURATION", help="Only this time until now, such as 30m, 6h or 2d.", show_default=False
        ),
    ] = None
    uid: Annotated[
        str, typer.Option("--uid", metavar="UID", help="The life of the name with this uid, instead of the newest.")
    ] = ""
    start: Annotated[
        bool, typer.Option("--start", help="Show where the time of its newest start went, step by step.")
    ] = False
    restart: Annotated[
        int | None,
        typer.Option("--restart", metavar="N", help="With --start: the start with this number; 0 = the first."),
    ] = None
    container: Annotated[
        str, typer.Option("--container", "-c", metavar="NAME", help="With --start: the start of this container.")
    ] = ""
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="With --start: show a tree with each call to the runtime, from the traces in the worker's log.",
        ),
    ] = False
    trace_log: OnlyNode[
        Annotated[
            str,
            typer.Option(
                "--trace-log",
                metavar="FILE",
                help="The worker's log.",
                show_default="of the worker that `up` started",
            ),
        ]
    ] = ""
    placement: Annotated[
        bool, typer.Option("--placement", help="Say for each node of the fleet why the pod is not there.")
    ] = False
    state_dir: OnlyFleet[StateDir] = ""

    @property
    def flags(self) -> list[str]:
        """The flags that choose a node, a time, a life or a start, without their values."""
        chosen = flags_for_node(self, besides=("namespace", "output", "placement"))
        return [*(["--node"] if self.node else []), *(flag.partition("=")[0] for flag in chosen)]


def explain(given: ExplainOptions) -> None:
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
    if given.placement:
        from syncpod.cli.actions.explain_placement import explain_placement

        explain_placement(given.what, given.namespace, given.output, given.flags, given.state_dir)
        return
    _check(given)
    name, nodes = _named(given)
    if nodes is not None:
        from syncpod.cli.actions.explain_node import print_node, read_node

        node = read_node(nodes, read_span(given.since))
        if node.may_have_orphans:
            from syncpod.cli.actions.explain_by_server import with_orphans

            node = with_orphans(node)
        print_node(node, given.output)
        return
    from syncpod.cli.actions.explain import print_pod, read_pod

    period = _period(given.at, given.since)
    pod = read_pod(given.namespace, name, given.uid, *period, with_state=not given.start)
    if pod is None or pod.is_doubtful:
        from syncpod.cli.actions.explain_by_server import with_end_of_workflow

        pod = with_end_of_workflow(pod, given.namespace, name)
    if given.start:
        from syncpod.cli.actions.explain_start import explain_start

        log = given.trace_log if given.trace else None
        explain_start(pod, given.output, given.container, given.restart, log)
    else:
        print_pod(pod, given.output)


def fleet_explain(given: ExplainOptions) -> None:
    """Explain the state of a pod of the fleet, and what happens next: `explain web`, `explain deployment/web`.

    The answer comes from the journal of the pod's node, as from `syncpod explain` there, with times in the node's time
    zone. For a pod that is gone, the journals of all nodes are searched. For a workload whose newest template was
    rolled back, the answer is about the pod that failed; for another workload, about a pod that is not well, if there
    is one. The fleet's own records answer for a workload without pods, for a pod that no node has yet, and for a pod
    whose node is Unknown: they also have what the fleet does next. `explain node n1` is about a node.

    With --placement the fleet's placement rules are applied to each node as it is now. That works for a pod on a node,
    for a pod that is on no node yet, and for the next pod of a workload. The pod itself is not counted on its node.
    """
    if given.placement:
        from syncpod.cli.actions.explain_placement import explain_placement

        explain_placement(given.what, given.namespace, given.output, given.flags, given.state_dir)
        return
    _check(given)
    words = [part for word in given.what or [] for part in word.split("/", 1)]
    is_node = bool(words) and words[0] in NODE_WORDS
    if is_node and len(words) != 2:
        raise BadInput("NODE: name one: syncpod fleet explain node n1")
    if is_node:
        require_pods(["Node"], {"--node": bool(given.node)})
        _require_none_of_pods(given.flags)
    else:
        kind_and_name(words)
        _refuse_fields(given.what or [])
    flags = flags_for_node(given, besides=("namespace",))

    from syncpod.cli.actions.fleet_explain import explain_node_of_fleet, explain_pod_of_fleet

    if is_node:
        explain_node_of_fleet(words[1], flags, given.state_dir)
    else:
        explain_pod_of_fleet(words, given.namespace, given.node, flags, given.state_dir)


def _named(given: ExplainOptions) -> tuple[str, list[str] | None]:
    """Return the name of a pod and None; or "" and the names of nodes, [] = this machine's. Raises BadInput."""
    words = given.what or []
    _refuse_fields(words)
    if (nodes := named_nodes(words)) is not None:
        _require_none_of_pods(given.flags)
        return "", nodes
    if not words:
        raise BadInput("name a pod, `syncpod explain POD`, or `syncpod explain node` for this machine's node")
    return pod_name(words), None


def _refuse_fields(words: Sequence[str]) -> None:
    """Raise BadInput for fields of a kind, which kubectl's `explain` is about."""
    if len(words) == 1 and _FIELDS.fullmatch(words[0]):
        raise BadInput(
            f"{words[0]}: this explains the state of a pod, `explain NAME`; a Pod's fields are explained in "
            "https://kubernetes.io/docs/reference/kubernetes-api/, and docs/pod-support.md says which are supported"
        )


def _require_none_of_pods(flags: Collection[str]) -> None:
    """Raise BadInput for a flag that has no meaning for a node."""
    for flag in ("--start", "--at", "--uid"):
        if flag in flags:
            raise BadInput(f"{flag}: needs a pod; name one")


def _check(given: ExplainOptions) -> None:
    """Raise BadInput for flags that exclude each other."""
    require_json(given.output)
    if not given.start and {"--restart", "--container", "--trace"} & set(given.flags):
        raise BadInput("--restart, --container and --trace: only with --start")
    if given.restart is not None and given.restart < 0:
        raise BadInput("--restart: must be 0 or more: the number that `syncpod explain` gives")
    if given.start and given.at is not None:
        raise BadInput("--at: not with --start, which names a start by --restart")
    if given.trace_log and not given.trace:
        raise BadInput("--trace-log: only with --trace")


def _is_clock(text: str) -> bool:
    """Return whether a text is a time without a date."""
    try:
        time.fromisoformat(text)
    except ValueError:
        return False
    return True


def _period(at: str | None, since: str | None) -> tuple[datetime | None, timedelta | None]:
    """Return the time of --at and the duration of --since, each None if it is not given. Raises BadInput.

    Prints a note if a time without a date is taken as a time of yesterday.
    """
    now = datetime.now(UTC)
    moment = None if at is None else read_moment(at, now)
    span = read_span(since)
    if at is not None and moment is not None and moment.date() != now.astimezone().date() and _is_clock(at):
        remark(f"Note: {at} is taken as {moment.astimezone():%Y-%m-%d %H:%M:%S}: today's is still to come")
    return moment, span


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
