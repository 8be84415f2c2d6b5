"""``syncpod replay``: whether the code at hand would make the decisions that a run has made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BAD_INPUT, FAILED, BadInput, Failure
from syncpod.cli.input.arguments import nodes_among, pod_names, require_json
from syncpod.cli.input.manifest_files import standard_input
from syncpod.cli.input.options import Namespace, OnlyJson, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHistory

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
    runs = _of_file(filename) if filename else _of_workflows(_workflows(words, namespace), run_id, all_runs, failures)
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


def _workflows(words: list[str], namespace: str) -> dict[str, Failure]:
    """Return the ids of the named workflows, each with the failure to report if it does not exist. Raises BadInput."""
    from syncpod.cli.temporal.pods import not_found
    from syncpod.messages.identity import pod_workflow_id
    from syncpod.messages.node import node_workflow_id

    nodes, rest = nodes_among(words)
    names = pod_names(rest)
    if not names and not nodes:
        raise BadInput("name a pod")
    return {
        **{pod_workflow_id(namespace, name): BadInput(str(not_found(name, namespace))) for name in names},
        **{node_workflow_id(name): BadInput(f'nodes "{name}" not found') for name in nodes},
    }


def _of_file(filename: str) -> list[Replayed]:
    """Replay the run of a file, and return the result. Raises BadInput."""
    import asyncio

    from syncpod.cli.machine.settings import settings
    from syncpod.cli.temporal import session
    from syncpod.replay.history import NoHistory, read_history
    from syncpod.replay.run import replayed
    from syncpod.temporal.plugin import NoServer, connection_settings

    try:
        data = standard_input().buffer.read() if filename == "-" else Path(filename).read_bytes()
        history = read_history(data)
        namespace = connection_settings()["namespace"]
        return [asyncio.run(replayed(history, session.keys_of(settings()), namespace))]
    except OSError as error:
        raise BadInput(f"{filename}: {error.strerror}") from None
    except (NoHistory, NoServer) as why:
        raise BadInput(f"{'standard input' if filename == '-' else filename}: {why}") from None


def _of_workflows(
    workflows: dict[str, Failure], run_id: str, all_runs: bool, failures: list[Failure]
) -> list[Replayed]:
    """Replay runs of workflows, and return the results. Raises BadInput.

    For a workflow that cannot be replayed, the reason is added to `failures`.
    """
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.temporal import session
    from syncpod.replay.history import NoHistory
    from syncpod.replay.run import replayed

    if run_id and len(workflows) != 1:
        raise BadInput("--run-id: a run is of one pod; name one")
    keys = session.keys_of(settings())

    async def work(client: Client) -> list[Replayed]:
        found: list[Replayed] = []
        for workflow_id, absent in workflows.items():
            before: str | None = run_id or None
            try:
                while (history := await _history(client, workflow_id, before)) is not None:
                    found.append(await replayed(history, keys, client.namespace))
                    before = _run_before(history)
                    if not (all_runs and before):
                        break
                else:
                    if before == (run_id or None):
                        raise BadInput(f"{absent}: its workflow has no run {run_id}" if run_id else str(absent))
            except NoHistory as why:
                failures.append(BadInput(str(why)))
            except BadInput as failure:
                failures.append(failure)
        return found

    try:
        return session.run(work)
    except Failure as failure:  # exit code 1 would mean that a decision differs
        raise BadInput(str(failure)) from None


async def _history(client: Client, workflow_id: str, run_id: str | None) -> WorkflowHistory | None:
    """Return the history of a run, None = the newest; None if the server has none. Raises RPCError."""
    from temporalio.service import RPCError, RPCStatusCode

    try:
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


def _run_before(history: WorkflowHistory) -> str:
    """Return the id of the run that continued as new as this one; "" if none did."""
    return str(history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id)


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
