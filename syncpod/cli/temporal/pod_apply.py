"""Applies a pod by update-with-start, which starts its workflow if there is none."""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from weakref import WeakSet

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import AlreadyExists, BadInput, Failure
from syncpod.cli.temporal.liveness import absence, lives
from syncpod.cli.temporal.nodes import read_summary
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import require_pods_own
from syncpod.cli.temporal.updates import (
    AGAIN,
    PAUSE_SECONDS,
    answer_in_time,
    is_gone,
    refusal,
    stop_if_cancelled,
)
from syncpod.lifecycle.node_affinity import MESSAGE, REASON, matches_node
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NodeSummary
from syncpod.messages.pod_commands import AppliedPod, Change
from syncpod.messages.queries import SEARCH_ATTRIBUTES
from syncpod.pod import Pod, pod_to_wire
from syncpod.temporal.run_history import begun_by
from syncpod.temporal.signing import is_overtaken
from syncpod.temporal.workflow_starts import look_at, start_operation

_AGAIN: Final = AGAIN | {RPCStatusCode.NOT_FOUND}
"""Errors after which the update is sent again. NOT_FOUND: the pod ended meanwhile, and the next attempt starts it."""
_SOON_SECONDS: Final = 0.2
"""A live node usually answers within this time; the node's liveness is checked only after it."""
_RPC: Final = timedelta(seconds=5)
_OWN_SECONDS: Final = 4.0
"""If a live node has not answered for so long, a workflow that is not a pod's may have the pod's name."""
_without_attributes: Final[WeakSet[Client]] = WeakSet()
"""The clients of namespaces that lack some of our search attributes."""


AWAY: Final = "away"
BUSY: Final = "busy"


@dataclass(frozen=True)
class Applied:
    """One pod that was applied."""

    pod: Pod
    change: Change
    node: str
    """The node that it is on, or will be on."""
    silence: str = ""
    """Why its node did not answer, `AWAY` or `BUSY`: the workflow starts the pod when the worker answers; "" = it
    did."""
    follows: str = ""
    """UID of the pod of the same name that is being deleted, and that this pod replaces; "" = none."""


class Cordoned(Failure):
    """A node takes no new pod."""


async def refuse_cordoned(client: Client, pods: Sequence[Pod], node: str) -> Mapping[str, NodeSummary]:
    """Raise Cordoned if a pod is new and its node is cordoned. A pod's node is `node` unless the pod names one.

    Returns the summaries, by name, of the nodes that have a workflow, which a worker must have served.
    """
    names = sorted({pod.spec.node_name or node for pod in pods})
    found = zip(names, await asyncio.gather(*(read_summary(client, name) for name in names)), strict=True)
    nodes = {name: summary for name, summary in found if summary is not None}
    for pod in pods:
        there = pod.spec.node_name or node
        is_cordoned = there in nodes and nodes[there].unschedulable
        if is_cordoned and await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name) is None:
            raise Cordoned(
                f"pod {pod.metadata.name}: node {there} is cordoned, and takes no new pod: `syncpod uncordon {there}`"
            )
    return nodes


async def refuse_unmatched(client: Client, pod: Pod, node: str, nodes: Mapping[str, NodeSummary]) -> None:
    """Raise BadInput if the pod is new and its node would reject it because of the node's labels (`node_affinity`).

    `nodes` is the result of `refuse_cordoned`.
    """
    there = pod.spec.node_name or node
    summary = nodes.get(there)
    if summary is None or not summary.labels or matches_node(pod, there, summary.labels):
        return
    if await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name) is None:
        raise BadInput(
            f"pod {pod.metadata.name}: node {there} would reject it: {REASON}: {MESSAGE} "
            f"(`syncpod get nodes --show-labels`)"
        )


async def apply_pod(
    client: Client,
    pod: Pod,
    *,
    node: str,
    has_attributes: bool | None = None,
    patience: timedelta | None = None,
    creates: bool = False,
) -> Applied:
    """Apply an admitted pod, on `node` unless it names another; one request also starts its workflow if necessary.

    With `creates`, the same request is refused if there is a pod of its name, which is left as it is: AlreadyExists.

    `has_attributes`: whether the namespace has our search attributes; None = the server's answer shows it. Waits as
    `answer_in_time` does, at most `patience`; for a new pod, only until its node is known not to answer. A retry is
    harmless, since it has the same update id. It gets a new id only after a refusal because the pod had ended, or
    because a later command had been accepted. Raises BadInput for a change that is not allowed, and Failure if the node
    of an existing pod does not answer in time.
    """
    node = pod.spec.node_name or node
    seconds = patience.total_seconds() if patience else math.inf
    command = uuid.uuid4().hex
    sending = _until_answered(client, pod, node, has_attributes, command, creates=creates)
    answer = await answer_in_time(client, node, _unless_silent(client, pod, node, command, sending), seconds)
    if answer is None:
        return await _unanswered(client, pod, node, command)
    if isinstance(answer, _Begun):
        return Applied(pod, Change.CREATED, node, silence=AWAY)
    follows = answer.uid if answer.change is Change.FOLLOWS else ""
    return Applied(pod, answer.change, answer.node or node, follows=follows)


async def _unanswered(client: Client, pod: Pod, node: str, command: str) -> Applied:
    """Return the result if this command started a new pod's workflow. Else raise Failure: the outcome is unknown."""
    if await _has_begun(client, pod, command):
        return Applied(pod, Change.CREATED, node, silence=BUSY if await lives(client, node) else AWAY)
    existing = await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name)
    there = existing.pod.spec.node_name if existing is not None else ""
    raise Failure(
        f'pod "{pod.metadata.name}": {await absence(client, (there or node,))}, so it is not known whether the '
        "change will be made; apply it again when the node is back"
    )


async def _has_begun(client: Client, pod: Pod, command: str) -> bool:
    """Return whether this command started the pod's workflow, which then has all that it needs. Raises RPCError."""
    workflow_id = pod_workflow_id(pod.metadata.namespace, pod.metadata.name)
    return await begun_by(client, workflow_id, timeout=_RPC) == command


async def has_search_attributes(client: Client) -> bool:
    """Return whether the namespace has our search attributes; False if the server does not answer."""
    try:
        answer = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=timedelta(seconds=5)
        )
    except RPCError:
        return False
    return SEARCH_ATTRIBUTES.keys() <= answer.custom_attributes.keys()


async def _is_to_be_created(client: Client, pod: Pod, command: str) -> bool:
    """Return whether a pod whose name was taken is still to be created. Raises AlreadyExists.

    False if an earlier attempt of this command has created the pod, and the answer was lost. True if the last pod of
    the name has ended, whose workflow closes in a moment, or if the server does not answer now.
    """
    meta = pod.metadata
    with contextlib.suppress(RPCError):
        if await _has_begun(client, pod, command):
            return False
        if await TemporalPods(client).read(meta.namespace, meta.name) is not None:
            raise AlreadyExists("pods", meta.name, meta.namespace)
    return True


async def _until_answered(
    client: Client, pod: Pod, node: str, has_attributes: bool | None, command: str, *, creates: bool = False
) -> AppliedPod:
    """Send the update until it is answered; return the answer.

    Raises BadInput with the workflow's refusal, and with `creates` AlreadyExists.
    """
    update_id, is_signed_anew = command, False
    while True:
        attributes = client not in _without_attributes if has_attributes is None else has_attributes
        # A later attempt may find the workflow that an earlier one has started.
        start = start_operation(
            pod, node, has_attributes=attributes, sender=client.identity, begun_by=command, creates=creates
        )
        try:
            answer = await client.execute_update_with_start_workflow(
                "apply", pod_to_wire(pod), id=update_id, result_type=dict, start_workflow_operation=start
            )
        except WorkflowAlreadyStartedError:
            creates = await _is_to_be_created(client, pod, command)
        except WorkflowUpdateFailedError as error:
            # Overtaken: another client may have applied the same new pod. Sign anew only once: if this machine's clock
            # is far behind, further attempts would not help.
            signs_anew = is_overtaken(error) and not is_signed_anew
            if not (is_gone(error) or signs_anew):
                raise BadInput(refusal(pod, error)) from None
            is_signed_anew = is_signed_anew or signs_anew
            update_id = uuid.uuid4().hex
        except RPCError as error:
            if has_attributes is None and attributes and _is_about_attributes(error):
                _without_attributes.add(client)
                continue
            if error.status not in _AGAIN:
                raise
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            stop_if_cancelled()
        else:
            return AppliedPod.model_validate(answer)
        finally:
            await look_at(start)
        await asyncio.sleep(PAUSE_SECONDS)


def _is_about_attributes(error: RPCError) -> bool:
    """Return whether the server refuses a start because its namespace lacks a search attribute."""
    return error.status == RPCStatusCode.INVALID_ARGUMENT and "search attribute" in error.message.lower()


class _Begun:
    """A new pod has its workflow, and its node is known not to answer."""


async def _unless_silent(
    client: Client, pod: Pod, node: str, command: str, sending: Coroutine[Any, Any, AppliedPod]
) -> AppliedPod | _Begun:
    """Await the answer to an update; stop waiting if the pod is new and its node is known not to answer.

    Then the update has started the pod's workflow with all that it needs, so there is nothing to wait for.
    """
    sent = asyncio.create_task(sending)
    silent = asyncio.create_task(_is_new_and_silent(client, pod, node, command))
    try:
        await asyncio.wait({sent, silent}, return_when=asyncio.FIRST_COMPLETED)
        return await sent if sent.done() or not silent.result() else _Begun()
    finally:
        sent.cancel()
        silent.cancel()
        await asyncio.gather(sent, silent, return_exceptions=True)


async def _is_new_and_silent(client: Client, pod: Pod, node: str, command: str) -> bool:
    """Return whether a pod is new and its node's worker is dead. A busy worker gets more time.

    Raises Squatted if another kind of workflow has the name.
    """
    await asyncio.sleep(_SOON_SECONDS)
    try:
        if not await lives(client, node):
            return await _has_begun(client, pod, command)
        await asyncio.sleep(_OWN_SECONDS)
        await require_pods_own(client, pod.metadata.namespace, pod.metadata.name)
    except RPCError:
        pass
    return False
