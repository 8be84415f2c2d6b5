"""``syncpod fleet get``: the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.fleet_names import NODES, PODS, fleet_names
from syncpod.cli.input.options import AllNamespaces, Namespace, StateDir

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from temporalio.client import Client

    from syncpod.messages.fleet import FleetNodeView, PlacedPod
    from syncpod.messages.workload import PendingPod

_KNOWN = "nodes, pods, deployments, daemonsets, configmaps or secrets"


def get(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="wide|json|yaml|name|...", help="The output format, as of `get`.")
    ] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
    state_dir: StateDir = "",
) -> None:
    """List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.

    A node is `Unknown` when the fleet has not heard from it for its grace. Its pods may still be running.
    """
    from syncpod.cli.temporal import fleet, fleet_objects
    from syncpod.cli.temporal.fleet_workloads import KINDS
    from syncpod.cli.view.documents import known_output

    kinds = {**NODES, **PODS, **KINDS, **fleet_objects.KINDS}
    (kind, names), *others = fleet_names(what, kinds, _KNOWN).items()
    if others:
        raise BadInput(f"KIND: must be one kind, not both {kind} and {others[0][0]}")
    output = known_output(output, ("wide", "json", "yaml", "name"))

    async def work(client: Client) -> None:
        scope = None if all_namespaces else namespace
        if kind == "Node":
            await _nodes(client, names, output, headers=not no_headers)
        elif kind in fleet_objects.KINDS.values():
            await _objects(client, kind, names, scope, output, headers=not no_headers)
        elif kind in KINDS.values():
            await _workloads(client, kind, names, scope, output, headers=not no_headers)
        else:
            await _pods(client, names, scope, output, headers=not no_headers)

    fleet.run(work, state_dir=state_dir)


async def _nodes(client: Client, names: Sequence[str], output: str, *, headers: bool) -> None:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet
    from syncpod.cli.view import fleet_table
    from syncpod.cli.view.documents import is_of_documents, print_documents

    if is_of_documents(output):
        found = await fleet.views(client, names)
        print_documents([fleet_table.node_document(each) for each in found], output, single=len(names) == 1)
        return
    nodes = [each for each in await fleet.summaries(client) if not names or each.name in names]
    if output == "name":
        say("\n".join(f"node/{each.name}" for each in nodes))
    elif nodes:
        now, wide = datetime.now(UTC), output == "wide"
        header = fleet_table.NODE_HEADER + (fleet_table.NODE_WIDE if wide else ())
        rows = [fleet_table.node_row(each, now, wide=wide) for each in nodes]
        say("\n".join(columns([header, *rows] if headers else rows)))
    elif not names:
        remark("No nodes found: `syncpod fleet invite NODE` lets one in")
    if missing := [each for each in names if each not in {node.name for node in nodes}]:
        raise Failure("\n".join(f'nodes "{each}" not found in the fleet' for each in missing))


async def _pods(client: Client, names: Sequence[str], namespace: str | None, output: str, *, headers: bool) -> None:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet
    from syncpod.cli.view import fleet_table
    from syncpod.cli.view.documents import is_of_documents, print_documents

    def is_asked_for(pod: PlacedPod) -> bool:
        return (namespace is None or pod.namespace == namespace) and (not names or pod.name in names)

    found: list[tuple[FleetNodeView, PlacedPod]] = [
        (node, pod) for node in await fleet.views(client) for pod in node.placed if is_asked_for(pod)
    ]
    pending = await _pending_pods(client, names, namespace, {pod.name for _, pod in found})
    found.sort(key=lambda one: (one[1].namespace, one[1].name))
    known = {pod.name for _, pod in found} | {pod.name for _, pod in pending}
    if is_of_documents(output):
        documents = [fleet_table.pod_document(*each) for each in found]
        documents += [fleet_table.pending_document(*each) for each in pending]
        print_documents(documents, output, single=len(names) == 1)
    elif output == "name":
        say("\n".join(f"pod/{name}" for name in [*(pod.name for _, pod in found), *(pod.name for _, pod in pending)]))
    elif known:
        now, wide, spaced = datetime.now(UTC), output == "wide", namespace is None
        header = (
            *(("NAMESPACE",) if spaced else ()),
            *fleet_table.POD_HEADER,
            *(fleet_table.POD_WIDE if wide else ()),
        )
        rows = [fleet_table.pod_row(node, pod, now, wide=wide, namespaces=spaced) for node, pod in found]
        rows += [fleet_table.pending_row(*each, now, wide=wide, namespaces=spaced) for each in pending]
        say("\n".join(columns([header, *rows] if headers else rows)))
        for pod in [pod for _, pod in found if pod.is_orphan]:
            remark(f"the workload of pod {pod.name} is gone: apply it, or `syncpod fleet delete pod {pod.name}`")
    elif not names:
        remark("No resources found" + ("" if namespace is None else f" in {namespace} namespace."))
    if missing := [each for each in names if each not in known]:
        raise Failure("\n".join(f'pods "{each}" not found in the fleet' for each in missing))


async def _pending_pods(
    client: Client, names: Sequence[str], namespace: str | None, placed: Collection[str]
) -> list[tuple[str, PendingPod]]:
    """Return the pods that no node has yet, each with its namespace, sorted by both; no `names` = all of them."""
    from syncpod.cli.temporal import fleet_workloads

    listed = [
        (one.namespace, pod)
        for one in await fleet_workloads.all_summaries(client, namespace)
        for pod in one.pending
        if not names or pod.name in names
    ]
    where = namespace or "default"
    for name in set(names) - {pod.name for _, pod in listed} - set(placed):
        if (new := await fleet_workloads.just_applied(client, where, name)) is not None:
            listed.append((where, new))
    return sorted(listed, key=lambda one: (one[0], one[1].name))


async def _workloads(
    client: Client, kind: str, names: Sequence[str], namespace: str | None, output: str, *, headers: bool
) -> None:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet_workloads
    from syncpod.cli.view import fleet_table
    from syncpod.cli.view.documents import is_of_documents, print_documents
    from syncpod.messages.workload import WorkloadSummary

    found: Sequence[WorkloadSummary]
    if names:
        found = await fleet_workloads.views(client, kind, namespace or "default", names)
    else:
        found = await fleet_workloads.summaries(client, kind, namespace)
    if is_of_documents(output):
        whole = [each for one in found for each in await fleet_workloads.views(client, kind, one.namespace, [one.name])]
        print_documents([fleet_table.workload_document(each) for each in whole], output, single=len(names) == 1)
    elif output == "name":
        say("\n".join(f"{kind.lower()}.apps/{each.name}" for each in found))
    elif found:
        now, wide, spaced = datetime.now(UTC), output == "wide", namespace is None
        header = fleet_table.workload_header(kind, wide=wide, namespaces=spaced)
        rows = [fleet_table.workload_row(each, now, wide=wide, namespaces=spaced) for each in found]
        say("\n".join(columns([header, *rows] if headers else rows)))
    elif not names:
        remark("No resources found" + ("" if namespace is None else f" in {namespace} namespace."))


async def _objects(
    client: Client, kind: str, names: Sequence[str], namespace: str | None, output: str, *, headers: bool
) -> None:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet_objects
    from syncpod.cli.view import fleet_table

    if output in ("json", "yaml"):
        raise BadInput(
            f"--output: must be name or wide for a {kind}: its content is sealed, and only its nodes can read it"
        )
    found = [each for each in await fleet_objects.views(client, kind, namespace) if not names or each.name in names]
    if output == "name":
        say("\n".join(f"{kind.lower()}/{each.name}" for each in found))
    elif found:
        now, spaced = datetime.now(UTC), namespace is None
        rows = [fleet_table.object_row(each, now, namespaces=spaced) for each in found]
        header = fleet_table.object_header(kind, namespaces=spaced)
        say("\n".join(columns([header, *rows] if headers else rows)))
    elif not names:
        remark("No resources found" + ("" if namespace is None else f" in {namespace} namespace."))
    if missing := [each for each in names if each not in {one.name for one in found}]:
        raise Failure("\n".join(f'{kind.lower()}s "{each}" not found in the fleet' for each in missing))
