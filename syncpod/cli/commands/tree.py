"""``syncpod tree``: nodes, their pods and containers, and what each waits for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names
from syncpod.cli.orphans import note_orphans

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from temporalio.client import Client

    from syncpod.api.listed import ListedPod
    from syncpod.cli.fetched import FetchedPod
    from syncpod.cli.view.pod_tree import Branch
    from syncpod.messages.running_steps import PendingStep

_ASKED_OF_STEPS: Final = 50
"""For how many pods, at most, the command asks the server which steps it is trying."""

_PODS: Final = ("po", "pod", "pods")
"""A first word that means pods; a node of that name is `node/pod`."""

Nodes = Annotated[list[str] | None, typer.Argument(metavar="NODE", hidden=True, show_default=False)]


def tree(
    nodes: Nodes = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="json", help="The output format.")] = "",
) -> None:
    """Draw nodes, pods and containers, and what each waits for.

    Without NODE it draws all nodes that have pods. A line names what its pod or container waits for: the end of a
    back-off, an image, the sandbox, an init container, a probe, or a step that is tried again. Pods of this machine's
    node are read from its worker; the lines of other pods come from their status. `syncpod explain POD` has one pod
    in detail.
    """
    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")
    names = _names(nodes or [])
    branches = _told_branches(names)
    _print(_asked_branches(names) if branches is None else branches, output)


def _names(words: Sequence[str]) -> list[str]:
    """Return the nodes that are named. Raises BadInput, for a pod with the command that is about one."""
    if words and words[0].partition("/")[0] in _PODS:
        name = words[0].partition("/")[2] or "".join(words[1:2]) or "POD"
        raise BadInput(f"{words[0]!r}: {_of_a_pod(name)}")
    return node_names(words) if words else []


def _of_a_pod(name: str) -> str:
    """Return what the command takes, and which one says what the pod of this name waits for."""
    return f"name nodes, as NAME or node/NAME; `syncpod explain {name}` says what a pod waits for"


def _of_a_fleet() -> str:
    """Return where the pods of its other nodes are looked at if this machine's node is part of a fleet; "" if not."""
    from syncpod.cli.machine.settings import settings
    from syncpod.settings.membership import read_membership

    if read_membership(settings().state_dir) is None:
        return ""
    return "; `syncpod fleet get pods -o wide`, where the fleet is served, lists the pods of its other nodes"


def _print(branches: Sequence[Branch], output: str) -> None:
    from syncpod.cli.view.pod_tree import documents, lines

    if not branches:
        remark("No pods found")
    if output == "json":
        say(json.dumps(documents(branches), indent=4))
    elif branches:
        say("\n".join(map(printable, lines(branches, datetime.now(UTC)))))


def _told_branches(names: Collection[str]) -> list[Branch] | None:
    """Return the tree by this machine's worker; None if the server must be asked.

    The server is asked for the steps alone that it is trying for pods that are not at rest. If there are none, the
    Temporal SDK is not imported, which would take longer than everything else.
    """
    from dataclasses import replace

    from syncpod.api.listed import ListedPod
    from syncpod.cli.machine.own_pods import told_reports
    from syncpod.cli.view.pod_tree import Branch, is_explained, is_settled

    told = told_reports(None, (), "pod", "plan")
    if told is None or set(names) - {(one["pod"].get("spec") or {}).get("nodeName") for one in told}:
        return None
    branches = [
        Branch(ListedPod(one["pod"]), one["plan"].get("holds", ()))
        for one in told
        if not names or (one["pod"].get("spec") or {}).get("nodeName") in names
    ]
    note_orphans(one.pod.document for one in branches)
    unsettled = [one for one in branches if not (is_settled(one.pod.document) or is_explained(one))]
    if not unsettled:
        return branches
    from syncpod.cli.temporal import session

    steps = session.run(lambda client: _steps_of(client, [one.pod for one in unsettled]))
    doing = _doing([one.pod for one in unsettled])
    return [replace(one, steps=steps.get(one.pod.key, ()), doing=doing.get(one.pod.key, {})) for one in branches]


def _doing(pods: Sequence[ListedPod]) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """Return by pod and container what this machine's worker is doing for it: a step's name, and what it does now."""
    from syncpod.api.client import steps_under_way
    from syncpod.cli.machine.settings import settings

    keys = {(one.document.get("metadata") or {}).get("uid"): one.key for one in pods}
    found: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for step in steps_under_way(settings().state_dir):
        if step["container"] and (key := keys.get(step["uid"])) is not None:
            found.setdefault(key, {})[step["container"]] = step["step"], step["doing"]
    return found


def _asked_branches(names: Collection[str]) -> list[Branch]:
    """Return the tree by the server and the nodes. Raises Failure for nodes that do not exist."""
    from syncpod.cli.temporal import session

    async def work(client: Client) -> list[Branch]:
        from syncpod.api.label_selector import Selector
        from syncpod.cli.temporal.pods import list_pods, note_absent_nodes

        pods = await list_pods(client, None, Selector(()), nodes=names or None)
        if missing := await _missing(client, set(names) - {each.pod.spec.node_name for each in pods}):
            raise Failure("\n".join(f'nodes "{name}" not found: {_of_a_pod(name)}{_of_a_fleet()}' for name in missing))
        note_orphans(each.document for each in pods)
        branches = await _branches(client, pods)
        note_absent_nodes(pods)
        return branches

    return session.run(work)


async def _missing(client: Client, names: Collection[str]) -> list[str]:
    """Return those of these nodes that do not exist."""
    from syncpod.cli.temporal.nodes import read_node

    return [name for name in sorted(names) if await read_node(client, name) is None]


async def _branches(client: Client, pods: Sequence[FetchedPod]) -> list[Branch]:
    """Return the pods with what they wait for."""
    from syncpod.cli.temporal.pod_reads import told_by_this_node
    from syncpod.cli.view.pod_tree import Branch, is_settled
    from syncpod.messages.identity import pod_workflow_id

    ids = [pod_workflow_id(*each.key) for each in pods]
    plans = {key: told.answer for key, told in (await told_by_this_node(ids, "plan")).items()}
    steps = await _steps_of(client, [each.listed for each in pods if not is_settled(each.document)])
    return [
        Branch(each.listed, plans.get(key, {}).get("holds", ()), steps.get(each.key, ()))
        for key, each in zip(ids, pods, strict=True)
    ]


async def _steps_of(client: Client, pods: Sequence[ListedPod]) -> dict[tuple[str, str], tuple[PendingStep, ...]]:
    """Return the steps that the server is trying for these pods, by namespace and name; of so many pods at most."""
    import asyncio

    from syncpod.messages.identity import pod_workflow_id

    keys = [each.key for each in pods]
    asked = keys[:_ASKED_OF_STEPS]
    steps = await asyncio.gather(*(_steps(client, pod_workflow_id(*each)) for each in asked))
    if len(keys) > len(asked):
        remark(f"Note: of {len(keys) - len(asked)} pods that are not at rest, the steps under way are not shown")
    return dict(zip(asked, steps, strict=True))


async def _steps(client: Client, workflow_id: str) -> tuple[PendingStep, ...]:
    """Return the steps that the server is trying for a pod; none if it does not say."""
    from temporalio.service import RPCError

    from syncpod.cli.temporal.pod_reads import QUERY_DEADLINE
    from syncpod.temporal.pending_steps import pending_steps

    try:
        return await pending_steps(await client.get_workflow_handle(workflow_id).describe(rpc_timeout=QUERY_DEADLINE))
    except (RPCError, ValueError):  # gone meanwhile, or a server that is busy: the rest of the tree stands
        return ()
