"""``syncpod logs``: print the logs of containers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_duration, read_selector
from syncpod.cli.input.kind_words import POD_WORDS
from syncpod.cli.input.log_request import LoggedContainers, LogManner
from syncpod.cli.input.options import Container, Namespace, PodNames, Selector
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector as Conditions

SELECTED_TAIL = 10
"""The default of --tail when pods are chosen by label: lines of each container, as with kubectl."""
MOST_FOLLOWED = 5
"""The default of --max-log-requests, as with kubectl."""

AllContainers = Annotated[bool, typer.Option("--all-containers", help="Print the logs of all containers.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the container ends.")]
Previous = Annotated[bool, typer.Option("--previous", "-p", help="Print the log from before the last restart.")]
Restart = Annotated[
    int | None,
    typer.Option(
        "--restart",
        metavar="N",
        help="Print the log of the instance with this number, or what the node's journal has of it.",
        show_default=False,
    ),
]
Uid = Annotated[
    str,
    typer.Option(
        "--uid", metavar="UID", help="With --restart: of the pod's life with this uid, instead of the newest."
    ),
]
Tail = Annotated[int, typer.Option("--tail", metavar="N", help="Print only the last N lines.", show_default="all")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DURATION", help="Only lines newer than this: 10s, 5m, 1d.", show_default=False),
]
SinceTime = Annotated[
    str | None,
    typer.Option("--since-time", metavar="TIME", help="Only lines from this time on: RFC 3339.", show_default=False),
]
Rotated = Annotated[bool, typer.Option("--rotated", help="Also read rotated files, the oldest first.")]
LimitBytes = Annotated[
    int, typer.Option("--limit-bytes", metavar="N", help="Print at most N bytes of each container.", show_default="all")
]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")]
Prefix = Annotated[bool, typer.Option("--prefix", help="Print pod and container before each line.")]
IgnoreErrors = Annotated[bool, typer.Option("--ignore-errors", help="Report logs that cannot be read, and go on.")]
MaxLogRequests = Annotated[
    int, typer.Option("--max-log-requests", metavar="N", help="How many containers may be followed at once.")
]


def logs(
    what: PodNames = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    container: Container = "",
    all_containers: AllContainers = False,
    follow: Follow = False,
    previous: Previous = False,
    restart: Restart = None,
    uid: Uid = "",
    tail: Tail = -1,
    since: Since = None,
    since_time: SinceTime = None,
    rotated: Rotated = False,
    limit_bytes: LimitBytes = 0,
    timestamps: Timestamps = False,
    prefix: Prefix = False,
    ignore_errors: IgnoreErrors = False,
    max_log_requests: MaxLogRequests = MOST_FOLLOWED,
) -> None:
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
    name, conditions, container = _chosen(what or [], selector, container, all_containers=all_containers)
    require_numbers(tail, limit_bytes, max_log_requests)
    chosen = LoggedContainers(namespace, name, selector, container, all_containers)
    manner = LogManner(
        follow=follow,
        previous=previous,
        tail=(SELECTED_TAIL if conditions.requirements else None) if tail == -1 else tail,
        since=_since(since, since_time),
        rotated=rotated,
        limit_bytes=limit_bytes or None,
        timestamps=timestamps,
        prefix=prefix,
        ignore_errors=ignore_errors,
    )
    if restart is None and uid:
        raise BadInput("--uid: only with --restart: without it, the pod that there is now is read")
    if restart is not None:
        _require_alone(restart, name, follow=follow, previous=previous, all_containers=all_containers)
    if follow:
        interrupts.enable()
    from syncpod.cli.actions.logs import print_logs, print_restart

    if restart is not None:
        print_restart(chosen, restart, uid, manner)
    else:
        print_logs(chosen, manner, most_followed=max_log_requests)


def _chosen(
    words: Sequence[str], selector: str, container: str, *, all_containers: bool
) -> tuple[str, Conditions, str]:
    """Return the named pod ("" = selected ones), the selector, and the container. Raises BadInput.

    A container may also be named after the pod, as with kubectl: ``logs web app``.
    """
    conditions = read_selector(selector)
    if len(words) == 2 and "/" not in words[1] and not container:
        words, container = words[:1], words[1]
    if other := next((word for word in words if _is_of_pods_above(word)), ""):
        raise BadInput(
            f"{other!r}: only pods have logs: name one, or choose the pods by their labels, -l app=NAME; for a fleet's "
            "workloads `syncpod fleet logs`"
        )
    names = pod_names(words)
    if bool(names) == bool(conditions.requirements) or len(names) > 1:
        raise BadInput("name one pod, or choose pods with --selector")
    if container and all_containers:
        raise BadInput("either --container or --all-containers")
    return "".join(names), conditions, container


def _is_of_pods_above(word: str) -> bool:
    """Return whether a word names an object that would have pods in a cluster: ``deploy/web``."""
    kind, slash, _ = word.partition("/")
    return bool(slash) and kind not in POD_WORDS


def _require_alone(restart: int, name: str, *, follow: bool, previous: bool, all_containers: bool) -> None:
    """Raise BadInput for flags that exclude --restart, which means one instance that ended."""
    if restart < 0:
        raise BadInput("--restart: must be 0 or more: the number that `syncpod explain` gives")
    if not name or follow or previous or all_containers:
        raise BadInput("--restart: name one pod, without --follow, --previous and --all-containers")


def require_numbers(tail: int, limit_bytes: int, max_log_requests: int) -> None:
    """Raise BadInput for a number that is out of range."""
    if tail < -1:
        raise BadInput("--tail: must be 0 or more lines")
    if limit_bytes < 0:
        raise BadInput("--limit-bytes: must be 1 or more bytes")
    if max_log_requests < 1:
        raise BadInput("--max-log-requests: must be 1 or more containers")


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
