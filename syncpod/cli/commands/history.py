"""``syncpod history``: what was decided and done for a pod, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace, PodNames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from temporalio.client import Client

    from syncpod.journal.records import HistoryEntry


def history(
    what: PodNames = None,
    namespace: Namespace = "default",
    output: Annotated[str, typer.Option("--output", "-o", metavar="json", help="The output format.")] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
) -> None:
    """Show each decision, step, signal and exit of a pod.

    A step stands where it began, before what it has caused. Pods that have ended are shown too. When Temporal has
    forgotten them, it is what this machine's journal has of their last life.
    """
    name = pod_name(what or [])
    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")

    if (told := _told(namespace, name)) is not None:
        _print(*told, output, headers=not no_headers)
        return
    from syncpod.cli.temporal import session

    async def work(client: Client) -> None:
        from syncpod.messages.queries import write_history

        records = await _records(client, namespace, name)
        _print(
            write_history(records),
            records,
            output,
            headers=not no_headers,
        )

    session.run(work)


def _told(namespace: str, name: str) -> tuple[list[dict[str, Any]], list[HistoryEntry]] | None:
    """Return the history as this machine's worker has it, and its records; None if the server has to be asked.

    It has to be if the worker is of another version and its answer lacks something: the models have defaults.
    """
    from syncpod.cli.machine.own_pods import told_reports

    told = told_reports(namespace, [name], "history")
    try:
        return (told[0]["history"], _read(told[0]["history"])) if told else None
    except (KeyError, TypeError, ValueError):
        return None


def _read(told: Sequence[Mapping[str, Any]]) -> list[HistoryEntry]:
    """Return the records without their models, whose import takes longer than all the rest of the command."""
    from syncpod.journal.records import HistoryEntry

    return [
        HistoryEntry(
            at=datetime.fromisoformat(each["at"]),
            took_ms=each["tookMs"],
            **{
                part: each[part] for part in ("kind", "subject", "container", "restart", "reason", "outcome", "attempt")
            },
        )
        for each in told
    ]


def _print(
    documents: Sequence[Mapping[str, Any]],
    records: Sequence[HistoryEntry],
    output: str,
    *,
    headers: bool,
) -> None:
    from syncpod.cli.view.history_lines import lines

    if output == "json":
        say(json.dumps(documents, indent=4))
    else:
        say("\n".join(lines(records, headers=headers)))


async def _records(client: Client, namespace: str, name: str) -> list[HistoryEntry]:
    """Ask the workflow, running or closed; else read the events of its last run, or the journal if there is none."""
    from temporalio.client import WorkflowQueryFailedError
    from temporalio.service import RPCError, RPCStatusCode

    from syncpod.cli.temporal.pod_reads import ask_pod, read_records
    from syncpod.cli.temporal.pods import handle_of, not_found
    from syncpod.cli.view.history_lines import from_events
    from syncpod.messages.queries import read_history

    handle = handle_of(client, namespace, name)
    try:
        answer = await ask_pod(client, handle.id, "history", result_type=list)
        return read_records(read_history, answer, "history")
    except WorkflowQueryFailedError:
        pass
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            known = _journaled((client.service_client.config.target_host, client.namespace), namespace, name)
            if known is None:
                raise not_found(name, namespace) from None
            return known
    remark("Note: the pod does not answer; this is what Temporal recorded of its last run, without exits and decisions")
    return from_events([event async for event in handle.fetch_history_events()])


def _journaled(server: tuple[str, str], namespace: str, name: str) -> list[HistoryEntry] | None:
    """Return what this machine's journal has of the last life of a pod, with a note; None if it has nothing."""
    from syncpod.cli.machine.own_journal import last_life
    from syncpod.cli.view.explanation import Clock, lifetime
    from syncpod.journal.records import SENDER

    records = last_life(server, namespace, name)
    if records is None:
        return None
    lived = lifetime(records, Clock(datetime.now(UTC)))
    remark(
        f'Note: Temporal has nothing of pod "{name}" any more; this is what the node\'s journal has of its last life, '
        f"{lived}; `syncpod explain -n {namespace} {name}` says why it restarted"
    )
    return [line for line in records.lines if line.kind != SENDER]
