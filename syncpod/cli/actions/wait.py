"""Waits until pods meet a goal, and prints each that does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.goals import Created, Deleted, Goal
from syncpod.cli.input.manifests import named_in
from syncpod.cli.orphan_notes import orphan_of, without_workflow
from syncpod.cli.streams import interrupts
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import state_of, until_gone, until_seen
from syncpod.cli.temporal.pods import not_found
from syncpod.cli.view.documents import print_documents

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector
    from syncpod.cli.fetched import FetchedPod


def wait_for_pods(keys: Sequence[tuple[str, str]], wanted: Goal, patience: timedelta | None, output: str) -> None:
    """Wait until the pods, each a namespace and a name, meet the goal; print each, in order.

    `patience` is for all pods together; None = no limit. Raises Failure for pods that do not meet the goal.
    """
    interrupts.enable()
    session.run(lambda client: _until_all(client, keys, wanted, patience, output))


def wait_for_selected(
    namespace: str | None, conditions: Selector, wanted: Goal, patience: timedelta | None, output: str
) -> None:
    """Wait for the pods that exist now and meet the conditions, as `wait_for_pods` does; namespace None = all.

    Raises Failure, also if there are no such pods, unless the wait is for deletion.
    """

    async def work(client: Client) -> None:
        keys = [fetched.key for fetched in await TemporalPods(client).listed(namespace, conditions)]
        if not keys and not isinstance(wanted, Deleted):
            raise Failure("no matching resources found")
        await _until_all(client, keys, wanted, patience, output)

    interrupts.enable()
    session.run(work)


def pods_in_manifests(filename: Sequence[str], namespace: str) -> list[tuple[str, str]]:
    """Return namespace and name of each pod in the manifests. Raises BadInput, also if there is none."""
    pods = [each for each in named_in(filename, namespace) if each.kind == "Pod"]
    if not pods:
        raise BadInput(f"{', '.join(filename)}: no pod in it")
    return [(each.namespace, each.name) for each in pods]


async def _until_all(
    client: Client, keys: Sequence[tuple[str, str]], wanted: Goal, patience: timedelta | None, output: str
) -> None:
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
    first = await TemporalPods(client).read(namespace, name)
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
            raise _timed_out(name, await TemporalPods(client).read(namespace, name)) from None
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
