"""``syncpod fleet logs``: print the logs of a pod's containers from any node of the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from syncpod.cli.commands import logs as local
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.kind_words import POD_WORDS, WORKLOADS
from syncpod.cli.input.options import Container, Namespace, OfNode, PodNames, Selector, StateDir
from syncpod.cli.streams import interrupts


def logs(
    what: PodNames = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    node: OfNode = "",
    container: Container = "",
    all_containers: local.AllContainers = False,
    follow: local.Follow = False,
    previous: local.Previous = False,
    restart: local.Restart = None,
    uid: local.Uid = "",
    tail: local.Tail = -1,
    since: local.Since = None,
    since_time: local.SinceTime = None,
    rotated: local.Rotated = False,
    limit_bytes: local.LimitBytes = 0,
    timestamps: local.Timestamps = False,
    prefix: local.Prefix = False,
    ignore_errors: local.IgnoreErrors = False,
    max_log_requests: local.MaxLogRequests = local.MOST_FOLLOWED,
    state_dir: StateDir = "",
) -> None:
    """Print the logs of a pod's containers on any node of the fleet.

    The node reads them as `syncpod logs` does there, and sends them sealed. `deployment/web` means one of the
    Deployment's pods. With --follow the command goes on until the container ends, or until Ctrl-C. With --selector it
    prints the last ten lines of each selected pod of the fleet, or as many as --tail says. --max-log-requests counts
    pods here. With --ignore-errors, a node that does not answer is reported, and the other pods' logs are printed.
    """
    words, container = _pod_and_container(what or (), container)
    local.require_numbers(tail, limit_bytes, max_log_requests)
    conditions = read_selector(selector)
    if bool(words) == bool(conditions.requirements):
        raise BadInput("name one pod, `web`, or a workload, `deployment/web`, or choose pods with --selector")
    if words:
        kind_and_name(words)
    elif tail == -1:
        tail = local.SELECTED_TAIL
    given = {"--container": container or None, "--uid": uid or None, "--since": since, "--since-time": since_time}
    numbers = {"--restart": (restart, None), "--tail": (tail, -1), "--limit-bytes": (limit_bytes, 0)}
    numbers["--max-log-requests"] = (max_log_requests, local.MOST_FOLLOWED)
    switches = {
        "--all-containers": all_containers, "--follow": follow, "--previous": previous, "--rotated": rotated,
        "--timestamps": timestamps, "--prefix": prefix, "--ignore-errors": ignore_errors,
    }  # fmt: skip
    flags = [f"--namespace={namespace}", *_flags(given, numbers, switches)]
    if follow:
        interrupts.enable()

    from syncpod.cli.actions.fleet_logs import print_pod_logs, print_selected_logs

    if words:
        code = print_pod_logs(words, namespace, node, flags, state_dir)
    else:
        most = max_log_requests if follow else None
        code = print_selected_logs(
            conditions, namespace, node, flags, state_dir, most_followed=most, ignore_errors=ignore_errors
        )
    raise typer.Exit(code)


def _pod_and_container(words: Sequence[str], container: str) -> tuple[list[str], str]:
    """Return the words that name a pod, and the container, which may be the last word: `logs web app`."""
    if len(words) == 2 and "/" not in words[1] and words[0] not in (*POD_WORDS, *WORKLOADS) and not container:
        return [words[0]], words[1]
    return list(words), container


def _flags(
    given: Mapping[str, str | None], numbers: Mapping[str, tuple[int | None, int | None]], switches: Mapping[str, bool]
) -> list[str]:
    """Return the flags for the command on the node. Numbers that have their default are left out.

    A flag with an empty value is sent too: the node's error says what is valid.
    """
    return [
        *(f"{flag}={value}" for flag, value in given.items() if value is not None),
        *(f"{flag}={number}" for flag, (number, default) in numbers.items() if number != default),
        *(flag for flag, is_given in switches.items() if is_given),
    ]
