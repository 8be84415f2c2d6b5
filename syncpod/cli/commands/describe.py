"""``syncpod describe``: details of pods, nodes, ConfigMaps, and of Secrets without their values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from syncpod.api.client import NOT_FOUND
from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, read_selector, with_likely_kind
from syncpod.cli.input.options import Namespace, Selector, Things
from syncpod.cli.orphans import note_orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.api.views.pod_description import Facts
    from syncpod.cli.fetched import FetchedPod
    from syncpod.objects import Kind as ObjectKind


def describe(
    what: Things = None,
    namespace: Namespace = "default",
    selector: Selector = "",
) -> None:
    """Show a pod in full: state, conditions, events, steps.

    Also shows a node, `describe node n1`; a ConfigMap, `describe cm settings`; and a Secret without its values,
    `describe secret keys`. A kind without a name means all of that kind: `describe pods`, in the namespace; `describe
    nodes`.
    """
    from syncpod.cli.input.arguments import named_nodes

    if (nodes := named_nodes(what or [])) is not None:
        if selector:
            raise BadInput("--selector: nodes are described by name")
        from syncpod.cli.commands.node_listing import describe_nodes

        describe_nodes(nodes)
        return
    things = named(what or [])
    conditions = read_selector(selector)
    if not what and not conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector")
    if any(things.values()) and conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector, not both")
    described, missing = [], []
    for kind, names in things.items():
        parts, absent = (
            _pods(names, namespace, conditions) if kind == "Pod" else _objects(kind, names, namespace, conditions)
        )
        described += parts
        missing += absent
    if described:
        # Annotations and messages may have control characters from anybody: escape them for the terminal.
        lines = "\n\n\n".join("\n".join(lines) for lines in described).split("\n")
        say("\n".join(printable(line.expandtabs()) for line in lines))
    elif not missing:
        remark(f"No resources found in {namespace} namespace.")
    if missing:
        raise Failure(with_likely_kind(missing, what or []))


def _objects(
    kind: ObjectKind, names: Sequence[str], namespace: str, conditions: Conditions
) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each object, and a message for each that does not exist."""
    from syncpod.cli.machine.object_store import find
    from syncpod.cli.view.object_description import describe as lines_of

    found, missing = find(kind, names, namespace, conditions)
    return [lines_of(one) for one in found], missing


def _pods(names: Sequence[str], namespace: str, conditions: Conditions) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each pod, and a message for each that does not exist."""
    if names and (told := _told(names, namespace)) is not None:
        return told
    import asyncio

    from syncpod.cli.temporal import session

    async def work(client: Client) -> tuple[list[list[str]], list[str]]:
        from syncpod.api.views import pod_description as view
        from syncpod.cli.machine.own_journal import missing
        from syncpod.cli.temporal.pods import list_pods, lone_pods, note_absent_nodes, read_pod

        if names:
            found = await asyncio.gather(*(read_pod(client, namespace, name) for name in names))
            fetched_pods = [fetched for fetched in found if fetched is not None]
            if len(fetched_pods) < len(names):
                fetched_pods += await lone_pods(client, namespace, names)
        else:
            fetched_pods = await list_pods(client, namespace, conditions)
        note_orphans(fetched.document for fetched in fetched_pods)
        now = datetime.now(UTC)
        described = [
            (view.describe if one.current else view.describe_recorded)(one.pod, await _facts(client, one), now)
            for one in fetched_pods
        ]
        note_absent_nodes(fetched_pods)
        absent = sorted(set(names) - {one.pod.metadata.name for one in fetched_pods})
        server = client.service_client.config.target_host, client.namespace
        return described, [missing(server, namespace, name) for name in absent]

    return session.run(work)


def _told(names: Sequence[str], namespace: str) -> tuple[list[list[str]], list[str]] | None:
    """Return the same as this machine's worker describes it; None if the server has to be asked."""
    from syncpod.cli.machine.own_journal import missing
    from syncpod.cli.machine.own_pods import own_server, told_description

    if (server := own_server()) is None:
        return None
    pages, described, absent = _pages(*server), [], []
    for name in dict.fromkeys(names):
        reply = told_description(namespace, name, pages)
        if reply is None:
            return None
        if reply.code == NOT_FOUND:
            absent.append(missing(server, namespace, name))
        else:
            described.append(reply.document)
    note_orphans(described)
    return [each["lines"] for each in described], absent


async def _facts(client: Client, fetched: FetchedPod) -> Facts:
    """Ask the workflow for its events and holds, and Temporal for its pending steps."""
    from syncpod.api.descriptions import facts_of
    from syncpod.cli.temporal.pod_reads import read_records
    from syncpod.cli.temporal.pods import handle_of
    from syncpod.messages.queries import read_events
    from syncpod.temporal.pending_steps import pending_steps

    handle = handle_of(client, *fetched.key)
    description = await handle.describe()
    said = await _said_of(client, handle.id) if fetched.current else None
    told, plan = said or (None, {})
    events = None if told is None else tuple(read_records(read_events, told, "events"))
    pages = _pages(client.service_client.config.target_host, client.namespace)
    return facts_of(fetched.pod, description.run_id, pages, events, plan, await pending_steps(description))


async def _said_of(client: Client, workflow_id: str) -> tuple[list[Any], dict[str, Any]] | None:
    """Return a pod's events and its plan; None if its workflow no longer answers."""
    from temporalio.client import WorkflowQueryFailedError
    from temporalio.service import RPCError

    from syncpod.cli.temporal.pod_reads import ask_pod

    try:
        return (
            await ask_pod(client, workflow_id, "events", result_type=list),
            await ask_pod(client, workflow_id, "plan", result_type=dict),
        )
    except (RPCError, WorkflowQueryFailedError):
        return None


def _pages(address: str, namespace: str) -> str:
    """Return where the server's UI has the pages of workflows (our own server's, or the cloud's); "" = not known."""
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import running_server

    own = running_server(settings().state_dir)
    if own is not None and own.address == address:
        base = own.ui
    elif address.rpartition(":")[0].endswith(".tmprl.cloud"):
        base = "https://cloud.temporal.io"
    else:
        base = ""
    return f"{base}/namespaces/{namespace}/workflows" if base else ""
