"""Deletes pods: sends the signal to one pod, or deletes all pods of a node and waits until they are gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.envconfig import ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.label_selector import Selector
from syncpod.api.views.durations import short_duration
from syncpod.cli.console import say
from syncpod.cli.deletion import DELETION_IS_KEPT
from syncpod.cli.failure import Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal import session
from syncpod.cli.temporal.operator_signals import ACCEPT_SECONDS, records_of
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import until_gone
from syncpod.cli.temporal.pods import handle_of
from syncpod.cli.view.progress import Progress
from syncpod.journal.records import HistoryEntry
from syncpod.lifecycle.termination import LONGEST_SECONDS
from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE
from syncpod.messages.pod_commands import DELETE_POD
from syncpod.node.orphan_mark import why_orphaned
from syncpod.pod.origin import list_of
from syncpod.settings.node import NodeSettings
from syncpod.temporal.pending_steps import pending_steps

_MARGIN: Final = timedelta(seconds=30)
"""How long the end of a pod may take beyond its grace period."""
_USUAL_GRACE_SECONDS: Final = 30
_LOOK_SECONDS: Final = 0.25
_ROUNDS: Final = 3
"""How often the node's pods are listed and deleted, since pods may be applied meanwhile."""
_AT_ONCE: Final = 50
"""How many pods are signalled or queried at the same time; more would burden a node that is busy ending its pods."""


async def request_deletion(client: Client, namespace: str, name: str, grace: int | None) -> FetchedPod | None:
    """Signal a pod to end; return the pod as it was before, or None if it does not exist.

    `grace` is in seconds; None = the pod's own. The server keeps the signal while the pod's node is away. Raises
    Failure if the pod rejects the signal because it is not signed, and Squatted if another kind of workflow has the
    name.
    """
    fetched = await TemporalPods(client).read(namespace, name)
    if fetched is None:
        return None
    request: dict[str, str | int] = {} if grace is None else {"gracePeriodSeconds": grace}
    if fetched.pod.metadata.deletion_timestamp is None:
        request["uid"] = fetched.pod.metadata.uid  # without a UID, the signal also ends the successor of an ending pod
    is_signed = session.signs(client)
    before = None if is_signed else await records_of(client, fetched.pod, DELETE_POD.name)
    try:
        await handle_of(client, namespace, name).signal(DELETE_POD.name, request)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    if not is_signed:
        await _require_ending(client, fetched, before or Counter())
    return fetched


async def _require_ending(client: Client, fetched: FetchedPod, before: Counter[HistoryEntry]) -> None:
    """Wait a little until a pod begins to end. Raises Failure with its reason if it rejects the signal."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ACCEPT_SECONDS
    while loop.time() < deadline:
        now = await TemporalPods(client).read(*fetched.key)
        if now is None or not now.current or now.pod.metadata.deletion_timestamp is not None:
            return
        for record in (await records_of(client, fetched.pod, DELETE_POD.name) or Counter()) - before:
            if record.kind == "rejected":
                raise Failure(
                    f'pod "{fetched.pod.metadata.name}": {record.reason.removeprefix(f"signal {DELETE_POD.name}: ")}'
                )
        await asyncio.sleep(_LOOK_SECONDS)


def source_notes(fetched: FetchedPod) -> list[str]:
    """Return a note about a deleted pod if its source will apply it again."""
    meta = fetched.pod.metadata
    source = list_of(meta)
    if source == FILE_SOURCE:
        return [
            f'Note: pod "{meta.name}" comes from a file of its node: it comes back if the file is still there and its '
            "directory is followed"
        ]
    if source == KUBERNETES_SOURCE:
        return [
            f'Note: pod "{meta.name}" comes from its node\'s Kubernetes cluster: it comes back until `kubectl delete` '
            "ends it there"
        ]
    if source:
        return [
            f'Note: pod "{meta.name}" comes from the list {source}: it comes back when that list is sent again with it'
        ]
    return []


def pods_of(config: ClientConnectConfig, node: str) -> list[FetchedPod]:
    """Return the node's pods. Raises Failure if the server does not list them."""

    async def work(client: Client) -> list[FetchedPod]:
        return await _pods(client, node)

    return session.run_on(config, work)


def delete_all(config: ClientConnectConfig, here: NodeSettings, patience: timedelta | None) -> None:
    """Delete all pods of this machine's node, showing their progress, and return when they are gone.

    Pods that run without a workflow are left alone, since nothing would receive the signal. `patience` None = the
    longest grace period of the pods plus half a minute. Raises Failure that names the pods which have not ended.
    """

    async def work(client: Client) -> None:
        for _ in range(_ROUNDS):
            fetched_pods = [one for one in await _pods(client, here.node) if not why_orphaned(one.document)]
            if not fetched_pods:
                return
            await _delete(client, fetched_pods, patience)
        raise Failure(f"pods keep being applied on node {here.node}")

    session.run_on(config, work, here.state_dir)


async def _pods(client: Client, node: str) -> list[FetchedPod]:
    return [
        fetched for fetched in await TemporalPods(client).listed(None, Selector()) if fetched.pod.spec.node_name == node
    ]


async def _delete(client: Client, fetched_pods: list[FetchedPod], patience: timedelta | None) -> None:
    some = asyncio.Semaphore(_AT_ONCE)

    async def request(fetched: FetchedPod) -> None:
        async with some:
            await request_deletion(client, *fetched.key, None)

    await asyncio.gather(*map(request, fetched_pods))
    waits = {asyncio.create_task(until_gone(client, *one.key, one.pod.metadata.uid)): one for one in fetched_pods}
    allowed = patience or _longest_grace(fetched_pods) + _MARGIN
    deadline = asyncio.get_running_loop().time() + allowed.total_seconds()
    pending = set(waits)
    try:
        with Progress() as progress:
            while pending and asyncio.get_running_loop().time() < deadline:
                _, pending = await asyncio.wait(pending, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                left = await TemporalPods(client).read_all([waits[task].key for task in pending]) if pending else []
                progress.show([fetched for fetched in left if fetched is not None and _is_under_way(fetched)])
    finally:
        for task in pending:
            task.cancel()
    for task in waits.keys() - pending:
        task.result()
    for fetched in fetched_pods:
        if fetched not in [waits[task] for task in pending]:
            say(f'pod "{fetched.pod.metadata.name}" deleted from {fetched.key[0]} namespace')
    if pending:
        stuck = await _why_left(client, (waits[task] for task in pending))
        after = short_duration(allowed)
        raise Failure(
            "\n".join(
                f'pod "{fetched.pod.metadata.name}" did not end within {after}, and is being ended further: '
                f"{reason or 'it is gone by now'}"
                for fetched, reason in stuck
            )
        )


async def _why_left(client: Client, left: Iterable[FetchedPod]) -> list[tuple[FetchedPod, str]]:
    """Return these pods, which are being deleted, by name, each with the reason for its delay. Raises RPCError."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def why(fetched: FetchedPod) -> tuple[FetchedPod, str]:
        async with some:
            return fetched, await why_not_gone(client, fetched)

    return await asyncio.gather(*map(why, sorted(left, key=lambda fetched: fetched.key)))


def why_silent_pod_is_left(fetched: FetchedPod) -> str:
    """Return why a pod that does not answer is not gone, although the signal to delete it was sent."""
    if fetched.stuck:
        return fetched.why_silent
    return fetched.silence if fetched.lives else f"{fetched.silence}: {DELETION_IS_KEPT}"


async def why_not_gone(client: Client, fetched: FetchedPod) -> str:
    """Return why a pod that is being deleted is not gone, by its workflow's current plan; "" if it is gone.

    Raises RPCError.
    """
    now = await TemporalPods(client).read(*fetched.key)
    if now is None:
        return ""
    if not now.current:
        return why_silent_pod_is_left(now)
    try:
        plan: dict[str, Any] = await TemporalPods(client).answer(fetched.key, "plan", result_type=dict)
    except (RPCError, WorkflowQueryFailedError):
        return "its workflow does not answer"
    return "; ".join((_what_is_left(now, plan), *await _steps_of(client, fetched)))


def _what_is_left(now: FetchedPod, plan: dict[str, Any]) -> str:
    if holds := [f"{hold['reason']}: {hold['message']}" for hold in plan["holds"]]:
        return "; ".join(holds)
    entries = (*now.pod.status.init_container_statuses, *now.pod.status.container_statuses)
    if running := [entry.name for entry in entries if entry.state.running is not None]:
        grace = now.pod.metadata.deletion_grace_period_seconds
        return f"still running: {', '.join(running)}{'' if grace is None else f' (grace period {grace} s)'}"
    return "its remains are being removed"


async def _steps_of(client: Client, fetched: FetchedPod) -> list[str]:
    """Return for each running step of the pod its reported activity and its last failure."""
    try:
        steps = await pending_steps(await handle_of(client, *fetched.key).describe())
    except RPCError:
        return []
    return [
        ", ".join(filter(None, (step.name, step.doing, step.failure and f"last failed: {step.failure}")))
        for step in steps
        if step.doing or step.failure
    ]


def _is_under_way(fetched: FetchedPod) -> bool:
    """Return whether the pod has not ended yet. A pod that has ended keeps its phase until it is gone."""
    return fetched.pod.status.phase not in ("Succeeded", "Failed")


def _longest_grace(fetched_pods: list[FetchedPod]) -> timedelta:
    graces = [fetched.pod.spec.termination_grace_period_seconds for fetched in fetched_pods]
    longest = max(_USUAL_GRACE_SECONDS if grace is None else grace for grace in graces)
    return timedelta(seconds=min(longest, LONGEST_SECONDS))
