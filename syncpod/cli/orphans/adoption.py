"""Adopts a pod that runs without a workflow: starts its workflow from the node's record of the pod."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from syncpod.cli.failure import Failure
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import Squatted, require_pods_own
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.pod_card import POD_MEMO, Readoption, with_readoption
from syncpod.messages.pod_commands import DELETE_POD
from syncpod.messages.queries import read_history
from syncpod.messages.steps import Outcome
from syncpod.node.pod_records import PodRecord
from syncpod.pod import pod_to_wire
from syncpod.settings.worker_record import serving
from syncpod.temporal.run_history import how_ended
from syncpod.temporal.workflow_starts import adoption, start_arguments

if TYPE_CHECKING:
    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here

ADOPTED_SECONDS: Final = 30.0
"""How long a node may take to adopt a pod: its worker lists the runtime once."""
_POLL_SECONDS: Final = 0.1
_RPC: Final = timedelta(seconds=5)


class HasWorkflow(Failure):
    """A pod's name has an open workflow already."""


async def start_for(
    client: Client,
    node: str,
    record: PodRecord,
    *,
    has_attributes: bool,
    replace: bool = False,
    delete: dict[str, Any] | None = None,
) -> None:
    """Start the workflow of a recorded pod on this node, to adopt its running containers.

    `has_attributes`: whether the namespace has our search attributes. With `replace`, the same call terminates an open
    workflow of that name, so that the pod is never without a workflow. A workflow of that name that is not a pod's is
    always terminated. `delete` is the payload of a delete signal, which the workflow handles before all else; an open
    workflow that is not replaced receives the signal too. Without `delete`, HasWorkflow is raised for such a workflow.
    """
    try:
        await require_pods_own(client, record.pod.metadata.namespace, record.pod.metadata.name)
    except Squatted:
        replace = True
    signal: dict[str, Any] = {} if delete is None else {"start_signal": DELETE_POD.name, "start_signal_args": [delete]}
    conflict = WorkflowIDConflictPolicy.FAIL if delete is None else WorkflowIDConflictPolicy.USE_EXISTING
    if replace:
        conflict = WorkflowIDConflictPolicy.TERMINATE_EXISTING
    arguments = start_arguments(record.pod, node, has_attributes=has_attributes, sender=client.identity)
    readoption = Readoption(await _how_ended(client, arguments["id"]), ends=delete is not None)
    arguments["memo"] = {POD_MEMO: with_readoption(arguments["memo"][POD_MEMO], readoption)}
    try:
        await client.start_workflow(
            POD_WORKFLOW,
            {"pod": pod_to_wire(record.pod), **adoption(record.incarnation)},
            id_conflict_policy=conflict,
            **arguments,
            **signal,
        )
    except WorkflowAlreadyStartedError:
        raise HasWorkflow(f'pod "{record.pod.metadata.name}" has an open workflow') from None


async def _how_ended(client: Client, workflow_id: str) -> str:
    """Return how a pod's workflow has ended, in a clause; "" if it is open, or the server does not answer."""
    try:
        ended = await how_ended(client, workflow_id, timeout=_RPC)
    except RPCError:
        return ""
    return "" if ended is None else ended.sentence


async def until_adopted(client: Client, place: Here, orphan: FoundOrphan) -> None:
    """Wait until the pod's workflow has adopted the running containers.

    Raises Failure after ADOPTED_SECONDS, and at once if no worker serves the node or the adoption has failed.
    """
    key = orphan.pod.namespace, orphan.pod.name
    deadline = asyncio.get_running_loop().time() + ADOPTED_SECONDS
    while serving(place.node.state_dir) is not None and asyncio.get_running_loop().time() < deadline:
        try:
            answer: list[Any] = await TemporalPods(client).answer(key, "history", result_type=list)
        except (WorkflowQueryFailedError, RPCError):
            answer = []
        records = read_history(answer)
        steps = [each for each in records if each.kind == "step" and each.subject == StepName.CREATE_SANDBOX.value]
        if any(each.outcome == Outcome.ADOPTED.value for each in steps):
            return
        if steps:
            raise Failure(f'pod "{orphan.pod.name}" is not adopted yet: {steps[-1].reason}; it will be tried again')
        await asyncio.sleep(_POLL_SECONDS)
    why = "no worker serves this node" if serving(place.node.state_dir) is None else "its node does not answer"
    raise Failure(f'pod "{orphan.pod.name}" has a workflow now, but {why}: its worker will adopt it (`syncpod up`)')
