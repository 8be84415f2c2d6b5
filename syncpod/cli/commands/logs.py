"""``syncpod logs`` and ``syncpod fleet logs``: print the logs of containers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_duration, read_selector
from syncpod.cli.input.contexts import InFleet, OnlyFleet, flags_for_node
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.kind_words import POD_WORDS, WORKLOADS
from syncpod.cli.input.log_request import LoggedContainers, LogManner
from syncpod.cli.input.options import Container, Namespace, OfNode, PodNames, Selector, StateDir
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector as Conditions

_SELECTED_TAIL: Final = 10
"""The default of --tail when pods are chosen by label: lines of each container, as with kubectl."""
_MOST_FOLLOWED: Final = 5
"""The default of --max-log-requests, as with kubectl."""


@dataclass(frozen=True)
class LogsOptions:
    """The options of `logs` and `fleet logs`."""

    what: PodNames = None
    namespace: Namespace = "default"
    selector: Selector = ""
    node: OnlyFleet[OfNode] = ""
    container: Container = ""
    all_containers: Annotated[bool, typer.Option("--all-containers", help="Print the logs of all containers.")] = False
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the container ends.")] = False
    previous: Annotated[
        bool,
        typer.Option("--previous", "-p", help="Print the log from before the last restart."),
    ] = False
    restart: Annotated[
        int | None,
        typer.Option(
            "--restart",
            metavar="N",
            help="Print the log of the instance with this number, or what the node's journal has of it.",
            show_default=False,
        ),
    ] = None
    uid: Annotated[
        str,
        typer.Option(
            "--uid", metavar="UID", help="With --restart: of the pod's life with this uid, instead of the newest."
        ),
    ] = ""
    tail: Annotated[
        int, typer.Option("--tail", metavar="N", help="Print only the last N lines.", show_default="all; with -l, 10")
    ] = -1
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DURATION", help="Only lines newer than this: 10s, 5m, 1d.", show_default=False
        ),
    ] = None
    since_time: Annotated[
        str | None,
        typer.Option(
            "--since-time", metavar="TIME", help="Only lines from this time on: RFC 3339.", show_default=False
        ),
    ] = None
    rotated: Annotated[bool, typer.Option("--rotated", help="Also read rotated files, the oldest first.")] = False
    limit_bytes: Annotated[
        int,
        typer.Option("--limit-bytes", metavar="N", help="Print at most N bytes of each container.", show_default="all"),
    ] = 0
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")] = False
    prefix: Annotated[bool, typer.Option("--prefix", help="Print pod and container before each line.")] = False
    ignore_errors: Annotated[
        bool, typer.Option("--ignore-errors", help="Report logs that cannot be read, and go on.")
    ] = False
    max_log_requests: Annotated[
        int,
        typer.Option("--max-log-requests", metavar="N", help="How many containers may be followed at once."),
        InFleet("How many pods may be followed at once, and how many containers of each."),
    ] = _MOST_FOLLOWED
    state_dir: OnlyFleet[StateDir] = ""


def logs(given: LogsOptions) -> None:
    """Print the logs of a pod's containers.

    Reads the files that the runtime writes on this machine: for each container the current one, as kubectl does, and
    with --rotated also older ones that are still kept. Without --container, the log is that of the default container:
    the container in the annotation kubectl.kubernetes.io/default-container, or else the first main container, which a
    note names. --follow continues across rotations. While the pod's workflow does not answer, the files are found
    without it, and --follow continues until it is interrupted.

    --restart N prints the log of an instance that ended, also of a pod that is gone: the file, or the last KiB of it
    that the node's journal keeps. If several pods had this name one after the other, the newest one with an instance N
    is chosen, and a note names that life; --uid chooses another life. `syncpod explain` lists the instances and lives.
    """
    given, conditions = _checked(given, "syncpod")
    name = _pod(given, conditions)
    chosen = LoggedContainers(given.namespace, name, given.selector, given.container, given.all_containers)
    manner = LogManner(
        follow=given.follow,
        previous=given.previous,
        tail=None if given.tail == -1 else given.tail,
        since=_since(given.since, given.since_time),
        rotated=given.rotated,
        limit_bytes=given.limit_bytes or None,
        timestamps=given.timestamps,
        prefix=given.prefix,
        ignore_errors=given.ignore_errors,
    )
    if given.follow:
        interrupts.enable()
    from syncpod.cli.actions.logs import print_logs, print_restart

    if given.restart is not None:
        print_restart(chosen, given.restart, given.uid, manner)
    else:
        print_logs(chosen, manner, most_followed=given.max_log_requests)


def fleet_logs(given: LogsOptions) -> None:
    """Print the logs of a pod's containers on any node of the fleet.

    The node reads them as `syncpod logs` does there, and sends them sealed. `deployment/web` means one of the
    Deployment's pods. With --follow the command goes on until the container ends, or until Ctrl-C. With --selector it
    prints the last ten lines of each selected pod of the fleet, or as many as --tail says. With --ignore-errors, a node
    that does not answer is reported, and the other pods' logs are printed.
    """
    given, conditions = _checked(given, "syncpod fleet")
    words = given.what or []
    if bool(words) == bool(conditions.requirements):
        raise BadInput("name one pod, `web`, or a workload, `deployment/web`, or choose pods with --selector")
    if words:
        kind_and_name(words)
    flags = [f"--namespace={given.namespace}", *flags_for_node(given, besides=("namespace", "selector"))]
    if given.follow:
        interrupts.enable()

    from syncpod.cli.actions.fleet_logs import print_pod_logs, print_selected_logs

    if words:
        code = print_pod_logs(words, given.namespace, given.node, flags, given.state_dir)
    else:
        code = print_selected_logs(
            conditions,
            given.namespace,
            given.node,
            flags,
            given.state_dir,
            most_followed=given.max_log_requests if given.follow else None,
            ignore_errors=given.ignore_errors,
        )
    raise typer.Exit(code)


def _checked(given: LogsOptions, program: str) -> tuple[LogsOptions, Conditions]:
    """Return the options, and the conditions of --selector. Raises BadInput.

    A container may also be named after the pod, as with kubectl: ``logs web app``. --tail has another default if
    pods are selected. `program` begins a command for the same pods: ``syncpod fleet``.
    """
    conditions, words = read_selector(given.selector), given.what or []
    is_kind = bool(words) and words[0] in (*POD_WORDS, *WORKLOADS)
    if len(words) == 2 and "/" not in words[1] and not is_kind and not given.container:
        given = replace(given, what=words[:1], container=words[1])
    if given.container and given.all_containers:
        raise BadInput("either --container or --all-containers")
    if given.tail < -1:
        raise BadInput("--tail: must be 0 or more lines")
    if given.limit_bytes < 0:
        raise BadInput("--limit-bytes: must be 0 or more bytes; 0 = all")
    if given.max_log_requests < 1:
        raise BadInput("--max-log-requests: must be 1 or more")
    if given.restart is None and given.uid:
        raise BadInput("--uid: only with --restart: without it, the pod that there is now is read")
    if given.restart is not None:
        if given.restart < 0:
            raise BadInput(f"--restart: must be 0 or more: the number that `{program} explain` gives")
        if not words or given.follow or given.previous or given.all_containers:
            raise BadInput("--restart: name one pod, without --follow, --previous and --all-containers")
    if conditions.requirements and given.tail == -1:
        given = replace(given, tail=_SELECTED_TAIL)
    return given, conditions


def _pod(given: LogsOptions, conditions: Conditions) -> str:
    """Return the named pod; "" = those that meet the conditions. Raises BadInput."""
    words = given.what or []
    if other := next((word for word in words if "/" in word and word.partition("/")[0] not in POD_WORDS), ""):
        raise BadInput(
            f"{other!r}: only pods have logs: name one, or choose the pods by their labels, -l app=NAME; for a fleet's "
            "workloads `syncpod fleet logs`"
        )
    names = pod_names(words)
    if bool(names) == bool(conditions.requirements) or len(names) > 1:
        raise BadInput("name one pod, or choose pods with --selector")
    return "".join(names)


def _since(span: str | None, moment: str | None) -> datetime | None:
    if span is not None and moment is not None:
        raise BadInput("either --since or --since-time")
    try:
        if span is not None:  # 0 = from the beginning, as with kubectl
            return datetime.now(UTC) - long if (long := read_duration(span)) else None
        if moment is None:
            return None
        at = datetime.fromisoformat(moment)
    except ValueError as wrong:
        sentence = f"--since: {wrong}" if span is not None else f"--since-time: {moment!r} is not an RFC 3339 time"
        raise BadInput(sentence) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
