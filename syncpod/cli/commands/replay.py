"""``syncpod replay``: whether the code at hand would make the decisions that a run has made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BAD_INPUT, FAILED, BadInput, Failure
from syncpod.cli.input.arguments import require_json
from syncpod.cli.input.options import Namespace, OnlyJson, PodNames

if TYPE_CHECKING:
    from syncpod.replay.run import Replayed


def replay(
    what: PodNames = None,
    filename: Annotated[
        str,
        typer.Option(
            "--filename", "-f", metavar="FILE|-", help="A history as `temporal workflow show -o json` has it."
        ),
    ] = "",
    namespace: Namespace = "default",
    run_id: Annotated[str, typer.Option("--run-id", metavar="ID", help="This run, instead of the newest.")] = "",
    all_runs: Annotated[
        bool, typer.Option("--all", help="Also the runs before it, as far as each continued as new.")
    ] = False,
    output: OnlyJson = "",
) -> None:
    """Replay a pod's decisions with the code at hand.

    It names the first decision in which this version of the program differs from the recorded history: a step, a wait,
    or the end of the run. It needs only the history: no worker, and nothing is sent to the workflow. Pods that have
    ended can be replayed for as long as Temporal keeps them. `node/NAME` is the workflow of a node.
    """
    words = what or []
    if bool(words) == bool(filename):
        raise BadInput("name a pod whose history Temporal has, or a file with one: -f FILE")
    if filename and (run_id or all_runs):
        raise BadInput("--run-id, --all: a file has one run")
    require_json(output)
    if run_id and not _is_run_id(run_id):
        raise BadInput(f"--run-id: must be the id of a run, 0198f3c2-7d4e-7b1a-9c55-2f6f0e0d7a10, not {run_id!r}")
    failures: list[Failure] = []
    from syncpod.cli.actions.replay import named_workflows, replay_file, replay_workflows

    runs = (
        replay_file(filename)
        if filename
        else replay_workflows(named_workflows(words, namespace), run_id, all_runs, failures)
    )
    if output == "json":
        say(json.dumps([_document(run) for run in runs], indent=4))
    else:
        for run in runs:
            say(_line(run))
    differs = any(run.difference is not None for run in runs)
    if failures:
        raise Failure("\n".join(map(str, failures)), FAILED if differs else BAD_INPUT)
    raise typer.Exit(FAILED if differs else 0)


def _is_run_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _line(run: Replayed) -> str:
    """Return the result of a replay as a sentence."""
    if run.difference is not None:
        return f"{run.workflow_id}: run {run.run_id} differs at {run.difference.sentence()}"
    if not run.recorded_by:
        return f"{run.workflow_id}: run {run.run_id} has decided nothing yet"
    same = "the code at hand makes the same decisions"
    return f"{run.workflow_id}: replayed {run.events} events of run {run.run_id}: {same}"


def _document(run: Replayed) -> dict[str, Any]:
    """Return the result of a replay as a JSON object."""
    found = run.difference
    return {
        "workflowId": run.workflow_id,
        "runId": run.run_id,
        "events": run.events,
        "recordedBy": run.recorded_by,
        "same": found is None,
        "difference": found
        and {
            "eventId": found.event,
            "history": found.history or None,
            "now": found.now or None,
            "cause": found.cause or None,
        },
    }
