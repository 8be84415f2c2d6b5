"""``syncpod wait``: wait until pods meet a condition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names, read_duration, read_selector
from syncpod.cli.input.manifests import named_in
from syncpod.cli.input.options import AllNamespaces, Filenames, NamespaceOrFiles, PodNames, Selector
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.fetched import FetchedPod
    from syncpod.cli.input.goals import Goal

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
    from syncpod.cli.temporal import session

    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")
    wanted, patience = _goal(goal), _patience(timeout)
    names = pod_names(what or [])
    conditions = read_selector(selector)
    chosen = bool(conditions.requirements) or everything or (all_namespaces and not names)
    if sum((bool(names), bool(filename), chosen)) != 1:
        raise BadInput("say which pods to wait for, in one of these ways: POD..., -f FILE, -l SELECTOR or --all")
    if names and all_namespaces:
        raise BadInput("named pods are in one namespace: leave out --all-namespaces")
    keys = _of_files(filename, namespace) if filename else [(namespace or "default", name) for name in names]
    scope = None if all_namespaces else namespace or "default"

    async def work(client: Client) -> None:
        waited = keys or await _selected(client, scope, conditions, wanted)
        await _wait(client, waited, wanted, patience, output)

    interrupts.enable()
    session.run(work)


def _goal(text: str) -> Goal:
    from syncpod.cli.input.goals import parse_goal

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


def _of_files(sources: Sequence[str], namespace: str) -> list[tuple[str, str]]:
    pods, _ = named_in(sources, namespace)
    if not pods:
        raise BadInput(f"{', '.join(sources)}: no pod in it")
    return pods


async def _selected(
    client: Client, namespace: str | None, conditions: Conditions, wanted: Goal
) -> list[tuple[str, str]]:
    """Return the selected pods. Raises Failure if there are none, unless the wait is for deletion."""
    from syncpod.cli.input.goals import Deleted
    from syncpod.cli.temporal.pods import list_pods

    keys = [fetched.key for fetched in await list_pods(client, namespace, conditions)]
    if not keys and not isinstance(wanted, Deleted):
        raise Failure("no matching resources found")
    return keys


async def _wait(
    client: Client, keys: Sequence[tuple[str, str]], wanted: Goal, patience: timedelta | None, output: str
) -> None:
    """Wait for all pods at once, and print the results in order. Raises Failure for those that do not meet the goal."""
    import asyncio

    loop = asyncio.get_running_loop()
    deadline = None if patience is None else loop.time() + patience.total_seconds()
    waits = [asyncio.create_task(_until(client, *key, wanted, deadline)) for key in keys]
    failures: list[Failure] = []
    for (_, name), wait in zip(keys, waits, strict=True):
        try:
            fetched = await wait
        except Failure as failure:
            failures.append(failure)
            continue
        if fetched is not None:
            _print(name, fetched, output)
    if failures:
        raise Failure("\n".join(map(str, failures)), max(failure.code for failure in failures))


async def _until(client: Client, namespace: str, name: str, wanted: Goal, deadline: float | None) -> FetchedPod | None:
    """Wait until a pod meets the goal, and return its last known state; None if it did not exist, as wanted."""
    import asyncio

    from syncpod.cli.input.goals import Created, Deleted
    from syncpod.cli.temporal.pod_waits import until_gone, until_seen
    from syncpod.cli.temporal.pods import not_found, read_pod

    first = await read_pod(client, namespace, name)
    is_there = first is not None or isinstance(wanted, Created)
    if not is_there and (orphan := await asyncio.to_thread(orphan_of, namespace, name)) is not None:
        raise Failure(f"pod {name} {without_workflow(orphan)}")
    if isinstance(wanted, Deleted):
        if first is None:
            return None
        try:
            async with asyncio.timeout_at(deadline):
                await until_gone(client, namespace, name, first.pod.metadata.uid)
        except TimeoutError:
            raise _timed_out(name, await read_pod(client, namespace, name)) from None
        return first
    if first is None and not isinstance(wanted, Created):
        raise not_found(name, namespace)

    def is_met(fetched: FetchedPod | None) -> bool:
        return fetched is not None and (isinstance(wanted, Created) or wanted.is_met(fetched.wire))

    try:
        if is_met(first):
            return first
        fetched, came = await until_seen(client, namespace, name, is_met, deadline)
    except ValueError as wrong:
        raise BadInput(f"--for: {wrong}") from None
    if not came:
        raise _timed_out(name, fetched)
    return fetched


def _timed_out(name: str, fetched: FetchedPod | None) -> Failure:
    """Return the Failure with kubectl's message and the pod's state."""
    from syncpod.cli.temporal.pod_waits import state_of

    return Failure(f"timed out waiting for the condition on pods/{name}: {state_of(fetched)}")


def _print(name: str, fetched: FetchedPod, output: str) -> None:
    if output in ("json", "yaml"):
        from syncpod.cli.view.documents import print_documents

        print_documents([fetched.document], output, single=True)
    else:
        say(f"pod/{name}" if output == "name" else f"pod/{name} condition met")
