"""``syncpod history``: what was decided and done for a pod, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.messages.queries import HistoryRecord


def history(
    what: PodNames = None,
    namespace: Namespace = "default",
    output: Annotated[str, typer.Option("--output", "-o", metavar="json", help="The output format.")] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
) -> None:
    """Show each decision, step, signal and exit of a pod.

    Pods that have ended are shown too, for as long as Temporal keeps them.
    """
    from syncpod.cli.temporal import session

    name = pod_name(what or [])
    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")

    async def work(client: Client) -> None:
        from syncpod.cli.view.history_lines import lines

        records = await _records(client, namespace, name)
        if output == "json":
            say(json.dumps([record.model_dump(mode="json", by_alias=True) for record in records], indent=4))
        else:
            say("\n".join(lines(records, headers=not no_headers)))

    session.run(work)


async def _records(client: Client, namespace: str, name: str) -> list[HistoryRecord]:
    """Ask the workflow, running or closed; else read the events of its last run."""
    from temporalio.client import WorkflowQueryFailedError
    from temporalio.service import RPCError, RPCStatusCode

    from syncpod.cli.temporal.pod_reads import ask_pod
    from syncpod.cli.temporal.pods import handle_of, not_found
    from syncpod.cli.view.history_lines import from_events
    from syncpod.messages.queries import HistoryRecord

    handle = handle_of(client, namespace, name)
    try:
        answer = await ask_pod(client, handle.id, "history", result_type=list)
        return [HistoryRecord.model_validate(record) for record in answer]
    except WorkflowQueryFailedError:
        pass
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise not_found(name, namespace) from None
    remark("Note: the pod does not answer; this is what Temporal recorded of its last run, without exits and decisions")
    return from_events([event async for event in handle.fetch_history_events()])
