"""Waits for pods: until they are up or have finished, or until they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.views.durations import short_duration
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine.kept_logs import last_words
from syncpod.cli.temporal.pod_apply import Applied
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import handle_of
from syncpod.cli.view.unready import unready
from syncpod.lifecycle.rejection import was_rejected
from syncpod.pod import Pod
from syncpod.pod.origin import is_readmitted

POLL_SECONDS: Final = 0.25


class Settled(StrEnum):
    """The state of a pod, for a command that waits for it."""

    READY = "ready"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    GONE = "gone"
    NOT_YET = "not yet"


def settled(fetched: FetchedPod | None) -> Settled:
    """Return the state of a pod."""
    if fetched is None:
        return Settled.GONE
    if not fetched.current:
        return Settled.NOT_YET
    match fetched.pod.status.phase:
        case "Succeeded":
            return Settled.SUCCEEDED
        case "Failed":
            status = fetched.pod.status
            waits = was_rejected(status.phase, status.message) and is_readmitted(fetched.pod.metadata)
            return Settled.NOT_YET if waits else Settled.FAILED
    return Settled.READY if is_ready(fetched.pod) else Settled.NOT_YET


def is_ready(pod: Pod) -> bool:
    """Return whether the pod's Ready condition is true."""
    return any(entry.type == "Ready" and entry.status == "True" for entry in pod.status.conditions)


Outcome = tuple[Applied, FetchedPod | None, Settled]
"""An applied pod, the pod as it was last read (None = not found, or not read), and its state."""


async def until_settled(
    client: Client,
    applied: Sequence[Applied],
    *,
    timeout: timedelta | None,
    show: Callable[[Sequence[FetchedPod]], None] = lambda fetched_pods: None,
    gives_up: Callable[[Pod], bool] = lambda pod: False,
) -> list[Outcome]:
    """Wait until each pod is ready or has finished, or until the timeout (None = no limit); return all states in order.

    It does not wait for a pod for which `gives_up` returns True. With a timeout of 0, nothing is read if no node
    answered the apply; otherwise all pods are read at least once, whatever the timeout. `show` is called with all pods
    after each round. The pause after a round is as long as the round or longer, so that the node is not kept from its
    other work.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout.total_seconds() if timeout is not None else None
    if timeout == timedelta() and all(one.silence for one in applied):
        return [(one, None, Settled.NOT_YET) for one in applied]
    keys, source = [(one.pod.metadata.namespace, one.pod.metadata.name) for one in applied], TemporalPods(client)
    outcome: list[Outcome] = []
    while True:
        begun = loop.time()
        try:
            async with asyncio.timeout_at(deadline if outcome else None):
                fetched_pods = await source.read_all(keys)
                show([fetched for fetched in fetched_pods if fetched is not None])
                states = await _come_to(source, applied, fetched_pods)
        except TimeoutError:  # a node that does not answer takes two seconds to do so
            return outcome
        outcome = list(zip(applied, fetched_pods, states, strict=True))
        done = all(
            state != Settled.NOT_YET or (fetched is not None and fetched.current and gives_up(fetched.pod))
            for _, fetched, state in outcome
        )
        if done or (deadline is not None and loop.time() > deadline):
            return outcome
        pause = max(POLL_SECONDS, loop.time() - begun)
        await asyncio.sleep(pause if deadline is None else min(pause, max(deadline - loop.time(), 0)))


_WITHOUT_IMAGE: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    }
)
"""The kubelet's waiting reasons of a container whose image cannot be pulled."""


def lacks_image(pod: Pod) -> bool:
    """Return whether a container of the pod waits for an image that could not be pulled. The node keeps trying."""
    entries = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(each.state.waiting is not None and each.state.waiting.reason in _WITHOUT_IMAGE for each in entries)


def sentences(outcomes: Sequence[Outcome], timeout: timedelta | None) -> tuple[list[str], list[str]]:
    """Return a sentence for each pod that is ready or has succeeded, and one for each that is not."""
    good, bad = [], []
    for applied, fetched, state in outcomes:
        name = applied.pod.metadata.name
        match state:
            case Settled.READY | Settled.SUCCEEDED:
                good.append(f"pod/{name} {state.value}")
            case Settled.FAILED:
                bad.append(f'pod "{name}" has failed{_because(applied, fetched)}')
            case Settled.GONE:
                bad.append(f'pod "{name}" has been deleted meanwhile')
            case Settled.NOT_YET:
                waited = f" after {short_duration(timeout)}" if timeout else ""
                bad.append(f'pod "{name}" is not ready{waited}{_because(applied, fetched)}')
    return good, bad


def _because(applied: Applied, fetched: FetchedPod | None) -> str:
    """Return why a pod is not ready: its status, and which of its containers are not ready and why."""
    if fetched is None:
        return f": node {applied.node} is {applied.silence}" if applied.silence else ""
    if not fetched.current:
        return f": {fetched.silence}"
    left = ", its workflow still has something to do" if is_ready(fetched.pod) else ""
    return f": {unready(fetched.pod)}{last_words(fetched.pod)}{left}"


async def _come_to(
    source: TemporalPods, applied: Sequence[Applied], fetched_pods: Sequence[FetchedPod | None]
) -> list[Settled]:
    """Return the state of each applied pod; NOT_YET while the pod that it follows still exists.

    A pod that was Ready before a change stays Ready until the first step of the change, so it counts as ready only when
    its workflow has nothing left to do.
    """
    states = []
    for one, fetched in zip(applied, fetched_pods, strict=True):
        follows = one.follows and (fetched is None or fetched.pod.metadata.uid == one.follows)
        states.append(Settled.NOT_YET if follows else settled(fetched))
    ready = [at for at, state in enumerate(states) if state is Settled.READY]
    pods = [fetched.pod for at in ready if (fetched := fetched_pods[at]) is not None]
    for at, is_idle in zip(ready, await _are_idle(source, pods), strict=True):
        states[at] = Settled.READY if is_idle else Settled.NOT_YET
    return states


async def _are_idle(source: TemporalPods, pods: Sequence[Pod]) -> list[bool]:
    """Return for each pod whether its workflow has no steps and no back-offs left; False if it does not answer.

    Ephemeral containers that wait for a back-off do not count: they are not part of the applied manifest.
    """
    keys = [(pod.metadata.namespace, pod.metadata.name) for pod in pods]
    plans = await source.answers(keys, "plan", result_type=dict)
    return [plan is not None and _is_idle(pod, plan) for pod, plan in zip(pods, plans, strict=True)]


def _is_idle(pod: Pod, plan: dict[str, Any]) -> bool:
    ephemeral = {container.name for container in pod.spec.ephemeral_containers}
    apart = ephemeral & {hold["subject"] for hold in plan["holds"]}
    pending = [*(step["container"] for step in plan["steps"]), *(hold["subject"] for hold in plan["holds"])]
    return apart.issuperset(pending)


async def until_seen(
    client: Client, namespace: str, name: str, seen: Callable[[FetchedPod | None], bool], deadline: float | None
) -> tuple[FetchedPod | None, bool]:
    """Read a pod until `seen` returns True, or until the deadline; return the pod as last read, and the last result.

    `deadline` is in the loop's time; None = no limit. The pod is read at least once.
    """
    source = TemporalPods(client)
    while True:
        fetched = await source.read(namespace, name)
        if seen(fetched):
            return fetched, True
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            return fetched, False
        await asyncio.sleep(POLL_SECONDS)


def state_of(fetched: FetchedPod | None) -> str:
    """Return the state of a pod after a wait that timed out, and the cause of that state, if known."""
    if fetched is None:
        return "it does not exist"
    if not fetched.current:
        return fetched.silence
    return f"it is {unready(fetched.pod)}"


async def until_gone(client: Client, namespace: str, name: str, uid: str) -> None:
    """Wait until the pod with this UID ("" = any) has ended; a later pod of the same name is another one.

    A run may end while its pod lives on: the run continues as new, or was stuck, and the node replaces it.
    """
    while True:
        handle = handle_of(client, namespace, name)
        try:
            run = (await handle.describe()).run_id
            await client.get_workflow_handle(handle.id, run_id=run).result(follow_runs=False)
        except (WorkflowContinuedAsNewError, WorkflowFailureError):
            fetched = await TemporalPods(client).read(namespace, name)
            if fetched is None or (uid and fetched.current and fetched.pod.metadata.uid != uid):
                return
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return
            raise
        else:
            return
