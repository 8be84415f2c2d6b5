"""The work of ``syncpod wait``: wait until pods meet a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.goals import Created, Deleted, parse_goal
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.cli.temporal.pod_waits import state_of, until_gone, until_seen
from syncpod.cli.temporal.pods import list_pods, not_found, read_pod
from syncpod.cli.view.documents import print_documents

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.fetched import FetchedPod
    from syncpod.cli.input.goals import Goal


def read_goal(text: str) -> Goal:
    """Return what to wait for. Raises BadInput."""
    try:
        return parse_goal(text)
    except ValueError as wrong:
        raise BadInput(f"--for: {wrong}" if text else "--for: say what to wait for: --for=condition=Ready") from None


async def selected_pods(
    client: Client, namespace: str | None, conditions: Conditions, wanted: Goal
) -> list[tuple[str, str]]:
    """Return the selected pods. Raises Failure if there are none, unless the wait is for deletion."""
    keys = [fetched.key for fetched in await list_pods(client, namespace, conditions)]
    if not keys and not isinstance(wanted, Deleted):
        raise Failure("no matching resources found")
    return keys


async def wait_for_all(
    client: Client, keys: Sequence[tuple[str, str]], wanted: Goal, patience: timedelta | None, output: str
) -> None:
    """Wait for all pods at once, and print the results in order. Raises Failure for those that do not meet the goal."""
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
    return Failure(f"timed out waiting for the condition on pods/{name}: {state_of(fetched)}")


def _print(name: str, fetched: FetchedPod, output: str) -> None:
    if output in ("json", "yaml"):
        print_documents([fetched.document], output, single=True)
    else:
        say(f"pod/{name}" if output == "name" else f"pod/{name} condition met")
