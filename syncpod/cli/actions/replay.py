"""The work of ``syncpod replay``: whether the code at hand would make the decisions that a run has made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import nodes_among, pod_names
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


def named_workflows(words: list[str], namespace: str) -> dict[str, Failure]:
    """Return the ids of the named workflows, each with the failure to report if it does not exist. Raises BadInput."""
    nodes, rest = nodes_among(words)
    names = pod_names(rest)
    if not names and not nodes:
        raise BadInput("name a pod")
    return {
        **{pod_workflow_id(namespace, name): BadInput(str(not_found(name, namespace))) for name in names},
        **{node_workflow_id(name): BadInput(f'nodes "{name}" not found') for name in nodes},
    }


def replay_file(filename: str) -> list[Replayed]:
    """Replay the run of a file, and return the result. Raises BadInput."""
    try:
        data = standard_input().buffer.read() if filename == "-" else Path(filename).read_bytes()
        history = read_history(data)
        namespace = connection_settings()["namespace"]
        return [asyncio.run(replayed(history, session.keys_of(settings()), namespace))]
    except OSError as error:
        raise BadInput(f"{filename}: {error.strerror}") from None
    except (NoHistory, NoServer) as why:
        raise BadInput(f"{'standard input' if filename == '-' else filename}: {why}") from None


def replay_workflows(
    workflows: dict[str, Failure], run_id: str, all_runs: bool, failures: list[Failure]
) -> list[Replayed]:
    """Replay runs of workflows, and return the results. Raises BadInput.

    For a workflow that cannot be replayed, the reason is added to `failures`.
    """
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
    try:
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


def _run_before(history: WorkflowHistory) -> str:
    """Return the id of the run that continued as new as this one; "" if none did."""
    return str(history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id)
