"""The commands that a fleet's run accepts, and whether its history may be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.encryption import UNKNOWN_KEY
    from syncpod.messages.signed import FleetCommands, first_and_more
    from syncpod.messages.worker_functions import BEGINS


class NotItsHistory(Exception):
    """The run must not go on from its history. The text is the reason and the remedy."""


def fleet_commands(inputs: Sequence[Any]) -> FleetCommands:
    """Return the :class:`FleetCommands` of a run that was started with `inputs`. Call it before anything else.

    The result has `not_its_history` if the run must not go on, for one of three reasons. The run was reset. Its start
    was accepted once and is refused now, so the decisions of its history cannot be replayed. Or another fleet has begun
    the run: a worker that serves that fleet's server by mistake must not end it.
    """
    info = workflow.info()
    start, more = first_and_more(inputs)
    commands = FleetCommands(start, info.workflow_start_time, info.continued_run_id or "", more=more)
    if not commands.signed:
        return commands
    if info.original_execution_run_id != info.run_id:
        commands.not_its_history = (
            f"workflow {info.workflow_id} was reset, and a fleet does not go on with such a run: terminate it"
        )
        return commands
    if UNKNOWN_KEY in commands.refusal:
        commands.not_its_history = (
            f"workflow {info.workflow_id} was begun by another fleet than the one whose keys this worker has: either "
            "the worker is another fleet's, which has to end, or the workflow is, which you then terminate"
        )
        return commands
    begins = workflow.extern_functions().get(BEGINS)
    if begins is not None and not commands.refusal and (why := begins(info.workflow_id, info.run_id, commands.number)):
        commands.refusal = commands.refused("the start", why)
    # Replay: a run that refuses its start ends in its first task. So in a replay, the start was accepted before.
    if commands.refusal and workflow.unsafe.is_replaying():
        commands.not_its_history = (
            f"workflow {info.workflow_id} cannot go on: {commands.refusal}. If it was begun before the fleet's "
            "commands were signed, terminate it; then apply a workload or an object again (nodes come by themselves)"
        )
    return commands


def require_its_history(commands: FleetCommands) -> None:
    """Raise NotItsHistory if a run must not go on from its history: its workflow tasks then fail with that sentence.

    Call it first in ``run``, not in ``__init__``: after an exception there the SDK leaves a coroutine that nobody
    awaits. A task that fails has no effect, so nothing that its handlers have done before counts.
    """
    if commands.not_its_history:
        raise NotItsHistory(commands.not_its_history)
