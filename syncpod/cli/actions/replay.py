"""Replays recorded runs with the code at hand, and prints the first decision of each that differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.console import say
from syncpod.cli.failure import BAD_INPUT, FAILED, BadInput, Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.standard_streams import standard_input
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pods import not_found
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import node_workflow_id
from syncpod.replay.history import NoHistory, read_history
from syncpod.replay.run import replayed
from syncpod.temporal.plugin import NoServer, connection_settings

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHistory

    from syncpod.replay.run import Replayed


def replay_file(filename: str, output: str) -> bool:
    """Replay the run of a file, ``-`` = standard input, and print the result. Raises BadInput.

    Returns whether a decision differs.
    """
    try:
        data = standard_input().buffer.read() if filename == "-" else Path(filename).read_bytes()
        history = read_history(data)
        namespace = connection_settings()["namespace"]
        run = asyncio.run(replayed(history, session.keys_of(settings()), namespace))
    except OSError as error:
        raise BadInput(f"{filename}: {error.strerror}") from None
    except (NoHistory, NoServer) as why:
        raise BadInput(f"{'standard input' if filename == '-' else filename}: {why}") from None
    return _print([run], output)


def replay_workflows(
    namespace: str, pods: Sequence[str], nodes: Sequence[str], run_id: str, output: str, *, all_runs: bool
) -> bool:
    """Replay a run of each workflow, the newest or `run_id`, with `all_runs` also those before it; print the results.

    Returns whether a decision differs. Raises Failure, after the results, for workflows that cannot be replayed; its
    code is FAILED only if a decision differs.
    """
    failures: list[Failure] = []
    runs = _replayed({**_pods(namespace, pods), **_nodes(nodes)}, run_id, failures, all_runs=all_runs)
    differs = _print(runs, output)
    if failures:
        raise Failure("\n".join(map(str, failures)), FAILED if differs else BAD_INPUT)
    return differs


def _pods(namespace: str, names: Sequence[str]) -> dict[str, Failure]:
    """Return the ids of pods' workflows, each with the failure if it does not exist."""
    return {pod_workflow_id(namespace, name): BadInput(str(not_found(name, namespace))) for name in names}


def _nodes(names: Sequence[str]) -> dict[str, Failure]:
    """Return the ids of nodes' workflows, each with the failure if it does not exist."""
    return {node_workflow_id(name): BadInput(f'nodes "{name}" not found') for name in names}


def _replayed(
    workflows: Mapping[str, Failure], run_id: str, failures: list[Failure], *, all_runs: bool
) -> list[Replayed]:
    """Replay runs of workflows, and return the results. Raises BadInput.

    For a workflow that cannot be replayed, the reason is added to `failures`.
    """
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
    try:
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


def _run_before(history: WorkflowHistory) -> str:
    """Return the id of the run that continued as new as this one; "" if none did."""
    return str(history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id)


def _print(runs: Sequence[Replayed], output: str) -> bool:
    """Print the results of replays, and return whether a decision differs."""
    if output == "json":
        say(json.dumps([_document(run) for run in runs], indent=4))
    else:
        for run in runs:
            say(_line(run))
    return any(run.difference is not None for run in runs)


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
