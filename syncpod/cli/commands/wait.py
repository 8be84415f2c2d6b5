"""``syncpod wait``: wait until pods meet a condition."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_duration, read_selector
from syncpod.cli.input.goals import Goal, parse_goal
from syncpod.cli.input.options import AllNamespaces, Filenames, NamespaceOrFiles, PodNames, Selector

_OUTPUTS = ("json", "yaml", "name")


def wait(
    what: PodNames = None,
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="condition=NAME[=VALUE]|delete|create|jsonpath='{PATH}'[=VALUE]",
            help="The condition to wait for.",
            show_default=False,
        ),
    ] = "",
    filename: Filenames = None,
    selector: Selector = "",
    everything: Annotated[bool, typer.Option("--all", help="Every pod of the namespace.")] = False,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long to wait: 30s, 5m; 0 = check once; -1s = without limit.",
        ),
    ] = "30s",
    output: Annotated[str, typer.Option("--output", "-o", metavar="json|yaml|name", help="The output format.")] = "",
) -> None:
    """Wait until pods meet a condition.

    A condition is met when it has the given value, or True if none is given; a path, when it leads to the given value,
    or to any value if none is given. The timeout is for all pods together. A pod that does not exist is an error,
    unless the wait is for its creation or deletion. If a pod is deleted meanwhile, the wait goes on until it exists
    again.

    --for is written as with `kubectl wait`. On a timeout the exit code is 1.
    """
    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")
    wanted, patience = _goal(goal), _patience(timeout)
    names = pod_names(what or [])
    conditions = read_selector(selector)
    chosen = bool(conditions.requirements) or everything
    if all_namespaces and not chosen:
        raise BadInput("--all-namespaces: is for pods that -l or --all selects")
    if sum((bool(names), bool(filename), bool(conditions.requirements), everything)) != 1:
        raise BadInput("say which pods to wait for, in one of these ways: POD..., -f FILE, -l SELECTOR or --all")
    from syncpod.cli.actions.wait import pods_in_manifests, wait_for_pods, wait_for_selected

    if chosen:
        scope = None if all_namespaces else namespace or "default"
        wait_for_selected(scope, conditions, wanted, patience, output)
    else:
        of_names = [(namespace or "default", name) for name in names]
        wait_for_pods(pods_in_manifests(filename, namespace) if filename else of_names, wanted, patience, output)


def _goal(text: str) -> Goal:
    """Return what to wait for. Raises BadInput."""
    try:
        return parse_goal(text)
    except ValueError as wrong:
        raise BadInput(f"--for: {wrong}" if text else "--for: say what to wait for: --for=condition=Ready") from None


def _patience(text: str) -> timedelta | None:
    """Return how long to wait; None = no limit (kubectl: a week)."""
    try:
        span = read_duration(text.removeprefix("-"))
    except ValueError as wrong:
        raise BadInput(f"--timeout: {wrong}") from None
    return None if text.startswith("-") and span else span
