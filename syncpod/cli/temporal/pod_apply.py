"""Applying a pod: update-with-start, which starts its workflow if there is none."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from weakref import WeakKeyDictionary

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal.liveness import absence, lives
from syncpod.cli.temporal.nodes import is_cordoned, labels_of_node
from syncpod.cli.temporal.pods import handle_of, read_pod
from syncpod.cli.temporal.updates import (
    AGAIN,
    PAUSE_SECONDS,
    answer_in_time,
    is_gone,
    refusal,
    stop_if_cancelled,
)
from syncpod.lifecycle.node_affinity import MESSAGE, REASON, matches_node
from syncpod.messages.queries import SEARCH_ATTRIBUTES
from syncpod.pod import Pod, pod_to_wire
from syncpod.temporal.pod_start import ENDED, look_at, start_operation
from syncpod.temporal.signing import is_overtaken

_AGAIN: Final = AGAIN | {RPCStatusCode.NOT_FOUND}
"""NOT_FOUND: the pod ended between the look-up and the update; the next attempt starts it afresh."""
_SOON_SECONDS: Final = 0.2
"""A node that is there usually answers within this; only then is it asked whether it is."""
_HEARD_SECONDS: Final = 2.0
"""For how long it counts that a node was there. If many pods are applied together, most take longer than the above, and
each would put two questions to the server. That a worker has died shows by its heartbeats, much later than this."""
_heard: Final[WeakKeyDictionary[Client, dict[str, float]]] = WeakKeyDictionary()
"""When each node was last found to be there, by `time.monotonic`."""


class Change(StrEnum):
    """The result of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    FOLLOWS = "follows the one that is being deleted"


@dataclass(frozen=True)
class Applied:
    """One pod that was applied."""

    pod: Pod
    change: Change
    node: str
    """Where it is, or will be."""
    node_is_away: bool = False
    """The workflow has the pod, and starts it when its node's worker is back."""
    follows: str = ""
    """UID of the pod of the same name that is being deleted and that this one replaces; "" = none."""


class Cordoned(Failure):
    """A node takes no new pod."""


async def refuse_cordoned(client: Client, pods: Sequence[Pod], node: str) -> None:
    """Raise Cordoned if a pod is new and its node is cordoned; its node is `node` unless it names one."""
    cordoned = {name for name in {pod.spec.node_name or node for pod in pods} if await is_cordoned(client, name)}
    for pod in pods:
        there = pod.spec.node_name or node
        if there in cordoned and await read_pod(client, pod.metadata.namespace, pod.metadata.name) is None:
            raise Cordoned(
                f"pod {pod.metadata.name}: node {there} is cordoned, and takes no new pod: `syncpod uncordon {there}`"
            )


async def refuse_unmatched(client: Client, pod: Pod, node: str) -> None:
    """Raise BadInput if the pod is new and its node would reject it for its labels; see `node_affinity`."""
    there = pod.spec.node_name or node
    labels = await labels_of_node(client, there)
    if not labels or matches_node(pod, there, labels):
        return
    if await read_pod(client, pod.metadata.namespace, pod.metadata.name) is None:
        raise BadInput(
            f"pod {pod.metadata.name}: node {there} would reject it: {REASON}: {MESSAGE} "
            f"(`syncpod get nodes --show-labels`)"
        )


async def apply_pod(
    client: Client, pod: Pod, *, node: str, has_attributes: bool, patience: timedelta | None = None
) -> Applied:
    """Apply an admitted pod, on `node` unless it names another.

    Waits for the answer as `answer_in_time` does, at most `patience`; for a new pod, only until its node is known not
    to answer. Retries are harmless: all attempts share one update id. Raises BadInput for a change that is not allowed,
    and Failure if the node of an existing pod does not answer in time.

    Of a crowd most pods are new, so whether a pod exists is asked only if it could not be started.
    """
    node = pod.spec.node_name or node
    seconds = patience.total_seconds() if patience else math.inf
    sending = _until_answered(client, pod, node, has_attributes, only_new=True)
    try:
        answered = await answer_in_time(client, node, _unless_silent(client, node, sending), seconds)
    except _Exists:
        return await _apply_again(client, pod, node, has_attributes, seconds)
    return Applied(pod, Change.CREATED, node) if answered else await _unanswered(client, pod, node)


class _Exists(Exception):
    """The pod has a workflow, so it is no new one."""


async def _apply_again(client: Client, pod: Pod, node: str, has_attributes: bool, seconds: float) -> Applied:
    """Apply a pod that exists, and say what has become of it."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    before = await read_pod(client, namespace, name)
    sending = _until_answered(client, pod, node, has_attributes)
    if before is None:  # it has ended meanwhile
        sending = _unless_silent(client, node, sending)
    if not await answer_in_time(client, node, sending, seconds):
        if before is None:
            return await _unanswered(client, pod, node)
        raise await _unknown(client, name, before.pod.spec.node_name)
    if before is None:
        return Applied(pod, Change.CREATED, node)
    if before.pod.metadata.deletion_timestamp is not None:
        return Applied(pod, Change.FOLLOWS, node, follows=before.pod.metadata.uid)
    after = await read_pod(client, namespace, name)
    return Applied(pod, _compare(before, after), before.pod.spec.node_name or node)


async def _unanswered(client: Client, pod: Pod, node: str) -> Applied:
    """Return a new pod that its node has not answered for, if it has a workflow. Raises Failure."""
    if await _is_open(client, pod.metadata.namespace, pod.metadata.name):
        return Applied(pod, Change.CREATED, node, node_is_away=not await lives(client, node))
    raise await _unknown(client, pod.metadata.name, node)


async def _unknown(client: Client, name: str, asked: str) -> Failure:
    """Return the failure of a change that may have been made."""
    return Failure(
        f'pod "{name}": {await absence(client, (asked,))}, so it is not known whether the '
        "change will be made; apply it again when the node is back"
    )


async def has_search_attributes(client: Client) -> bool:
    """Return whether the namespace has our search attributes; False if the server does not say."""
    try:
        answer = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=timedelta(seconds=5)
        )
    except RPCError:
        return False
    return SEARCH_ATTRIBUTES.keys() <= answer.custom_attributes.keys()


def _compare(before: FetchedPod, after: FetchedPod | None) -> Change:
    if after is None or not before.current or after.pod.metadata.uid != before.pod.metadata.uid:
        return Change.CONFIGURED
    old, new = before.pod, after.pod
    same = (old.spec, old.metadata.labels, old.metadata.annotations) == (
        new.spec,
        new.metadata.labels,
        new.metadata.annotations,
    )
    return Change.UNCHANGED if same else Change.CONFIGURED


async def _until_answered(client: Client, pod: Pod, node: str, has_attributes: bool, *, only_new: bool = False) -> bool:
    """Send the update until it is answered; return True. Raises BadInput with the workflow's refusal.

    `only_new`: raises _Exists if the pod had a workflow before the first attempt, which then changes nothing.
    """
    update_id, is_signed_anew, is_first = uuid.uuid4().hex, False, True
    while True:
        # A later attempt may find the workflow that an earlier one has started.
        start = start_operation(pod, node, has_attributes=has_attributes, only_new=only_new and is_first)
        try:
            await client.execute_update_with_start_workflow(
                "apply", pod_to_wire(pod), id=update_id, result_type=dict, start_workflow_operation=start
            )
        except WorkflowAlreadyStartedError:
            if not (only_new and is_first):
                raise
            raise _Exists from None
        except WorkflowUpdateFailedError as error:
            # Somebody else may have applied the same new pod; a clock that is far behind is not waited for.
            signs_anew = is_overtaken(error) and not is_signed_anew
            if not (is_gone(error) or signs_anew):
                raise BadInput(refusal(pod, error)) from None
            is_signed_anew = is_signed_anew or signs_anew
            update_id = uuid.uuid4().hex
        except RPCError as error:
            if error.status not in _AGAIN:
                raise
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            stop_if_cancelled()
        else:
            return True
        finally:
            await look_at(start)
        is_first = False
        await asyncio.sleep(PAUSE_SECONDS)


async def _unless_silent(client: Client, node: str, sending: Coroutine[Any, Any, bool]) -> bool:
    """Await the sending of a new pod's update; return False once the node is known not to answer.

    By then the update has started the pod's workflow with everything it needs, so there is nothing to wait for.
    """
    sent, silent = asyncio.create_task(sending), asyncio.create_task(_is_silent(client, node))
    try:
        await asyncio.wait({sent, silent}, return_when=asyncio.FIRST_COMPLETED)
        return await sent if sent.done() or not silent.result() else False
    finally:
        sent.cancel()
        silent.cancel()
        await asyncio.gather(sent, silent, return_exceptions=True)


async def _is_silent(client: Client, node: str) -> bool:
    """Return whether a node is not going to answer soon: its worker is dead. A busy one is waited for."""
    await asyncio.sleep(_SOON_SECONDS)
    heard = _heard.setdefault(client, {})
    if time.monotonic() - heard.get(node, -math.inf) < _HEARD_SECONDS:
        return False
    try:
        is_there = await lives(client, node)
    except RPCError:
        return False
    if is_there:
        heard[node] = time.monotonic()
    return not is_there


async def _is_open(client: Client, namespace: str, name: str) -> bool:
    try:
        described = await handle_of(client, namespace, name).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.status not in ENDED
