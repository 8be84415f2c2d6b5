"""RemoteCommandWorkflow: carries one piece of a remote command to a node's queue, and its answer back.

The workflow is short: a long command takes many pieces, each with a workflow of its own, so no history grows. The input
is encrypted like everything that the fleet keeps, and sealed for the node on its way there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.fleet import fleet_node_id
    from syncpod.messages.remote_command import (
        REMOTE_COMMAND_WORKFLOW,
        RUN_REMOTE_COMMAND,
        WAIT_SECONDS,
        RemoteCommand,
        RemoteCommandPiece,
        is_repeatable,
        why_not,
    )
    from syncpod.messages.signed import Refused
    from workflows.entity import decoded, invalid
    from workflows.fleet.signed import fleet_commands, require_its_history
    from workflows.rejections import sentence

TAKEN: Final = timedelta(seconds=10)
"""How long a node may take to begin a piece. A node polls all the time, so a node that takes longer is unreachable."""
_ANSWER: Final = timedelta(seconds=15)
"""How long a node may take in addition to the requested wait."""
_BEAT: Final = timedelta(seconds=10)
_RETRY: Final = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
_ONCE: Final = RetryPolicy(maximum_attempts=1)


@workflow.defn(name=REMOTE_COMMAND_WORKFLOW)
class RemoteCommandWorkflow:
    """One piece of a remote command."""

    @workflow.run
    async def run(self, *inputs: Any) -> RemoteCommandPiece:
        """Return the node's answer to a :class:`RemoteCommand`, or why there is none."""
        commands = fleet_commands(inputs)
        require_its_history(commands)
        if commands.refusal:
            raise invalid(commands.refusal)
        try:
            asked = RemoteCommand.model_validate(commands.input)
        except ValueError as wrong:
            raise invalid(sentence(wrong)) from None
        if asked.begin and (why := why_not(asked.words)):
            return RemoteCommandPiece(refused=why)
        wait = min(max(0.0, asked.wait), WAIT_SECONDS)
        try:
            returned: RawValue = await workflow.execute_activity(
                RUN_REMOTE_COMMAND,
                asked,
                task_queue=fleet_node_id(asked.node),
                schedule_to_start_timeout=TAKEN,
                start_to_close_timeout=timedelta(seconds=wait) + _ANSWER,
                heartbeat_timeout=_BEAT,
                # A command that changes something is never run twice. Pieces of its output can be requested again.
                retry_policy=_ONCE if asked.begin and not is_repeatable(asked.words) else _RETRY,
                result_type=RawValue,
            )
        except ActivityError as error:
            return RemoteCommandPiece(refused=_why(asked, error), silent=_was_not_taken(error))
        return _read(asked.node, decoded(returned))


def _read(node: str, said: Any) -> RemoteCommandPiece:
    if isinstance(said, Refused):
        return RemoteCommandPiece(refused=f"the answer from node {node} is refused: {said.why}")
    try:
        return RemoteCommandPiece.model_validate(said)
    except ValueError:
        return RemoteCommandPiece(refused=f"the answer from node {node} cannot be read")


def _was_not_taken(error: ActivityError) -> bool:
    return isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_START


def _why(asked: RemoteCommand, error: ActivityError) -> str:
    node, cause = asked.node, error.cause
    if isinstance(cause, TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return f"node {node} does not answer: it has taken no request for {TAKEN.total_seconds():g} s"
        done = "" if is_repeatable(asked.words) or not asked.begin else "; the command may have been run"
        return f"node {node} began to answer, and then fell silent{done}"
    if isinstance(cause, ApplicationError):
        if cause.type == "NotFoundError":
            return f"the syncpod on node {node} is too old to run commands for its fleet: upgrade it"
        return f"node {node}: {cause.message}"
    return f"node {node} did not answer: {cause or error}"
