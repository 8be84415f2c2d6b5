"""The demands of a fleet's run on its commands, and on its own history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.encryption import UNKNOWN_KEY
    from syncpod.messages.signed import FleetCommands, first_and_more
    from syncpod.messages.worker_functions import BEGINS


class NotItsHistory(Exception):
    """A run's history is not what a run of this fleet is. The text says why, and what to do."""


def fleet_commands(inputs: Sequence[Any]) -> FleetCommands:
    """Return what a run asks of its commands; `inputs` is what it was started with. Call it before anything else.

    `not_its_history` says why for a run that was reset, or whose start does not count any more, though it was begun:
    the decisions of its history could not be replayed. It does for a run that another fleet has begun, too: that must
    not end by a worker that serves that fleet's server by mistake.
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
    # Replay: a run that refuses its start takes no other step, so its history has no task that it could repeat.
    if commands.refusal and workflow.unsafe.is_replaying():
        commands.not_its_history = (
            f"workflow {info.workflow_id} cannot go on: {commands.refusal}. If it was begun before the fleet's "
            "commands were signed, terminate it; then apply a workload or an object again (nodes come by themselves)"
        )
    return commands


def require_its_history(commands: FleetCommands) -> None:
    """Raise NotItsHistory if a run's history is not what a run of this fleet is: its tasks fail with that sentence.

    Call it first in ``run``, not in ``__init__``: after an exception there the SDK leaves a coroutine that nobody
    awaits. No task in which it is raised is answered, so whatever its handlers have done before is forgotten.
    """
    if commands.not_its_history:
        raise NotItsHistory(commands.not_its_history)
