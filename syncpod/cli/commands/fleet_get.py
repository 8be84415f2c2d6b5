"""``syncpod fleet get``: the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.console import columns, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.fleet_names import NODES, PODS, names_of_kinds
from syncpod.cli.input.options import AllNamespaces, Namespace, StateDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.messages.fleet import FleetNodeView, PlacedPod

_KNOWN = "nodes, pods, deployments, daemonsets, configmaps, secrets or all"
_ALL = ("Pod", "DaemonSet", "Deployment")
"""What `all` is, as for kubectl: neither nodes nor objects."""


@dataclass(frozen=True)
class _Request:
    """What was asked for, apart from kinds and names."""

    namespace: str | None
    """None = all."""
    output: str
    headers: bool
    with_kind: bool
    """Whether each name in a table has its kind, because there are several kinds."""

    @property
    def spaced(self) -> bool:
        """Whether each line begins with the namespace."""
        return self.namespace is None

    @property
    def of_documents(self) -> bool:
        """Whether whole objects are asked for, and not tables or names."""
        from syncpod.cli.view.documents import is_of_documents

        return is_of_documents(self.output)


@dataclass
class _Found:
    """What there is of one kind, as it was asked for, and a message for each name that is missing."""

    kind: str
    """As in the name of a resource: ``pod``, ``deployment.apps``."""
    header: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def lines(self, request: _Request) -> list[str]:
        """Return the lines of its table, or its names."""
        if request.output == "name":
            return [f"{self.kind}/{name}" for name in self.names]
        rows = self.rows
        if request.with_kind:
            at = 1 if request.spaced and self.header[0] == "NAMESPACE" else 0
            rows = [(*row[:at], f"{self.kind}/{row[at]}", *row[at + 1 :]) for row in rows]
        return columns([self.header, *rows] if request.headers else rows) if rows else []


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

    Several kinds are `deployments,daemonsets`, or `deployment/web pod/web-1`; `all` stands for pods, daemonsets and
    deployments. A node is `Unknown` when the fleet has not heard from it for its grace. Its pods may still be running.
    """
    from syncpod.cli.temporal import fleet, fleet_objects
    from syncpod.cli.temporal.fleet_workloads import KINDS
    from syncpod.cli.view.documents import known_output

    kinds = {**NODES, **PODS, **KINDS, **fleet_objects.KINDS}
    named = names_of_kinds(what, kinds, _KNOWN, _ALL)
    output = known_output(output, ("wide", "json", "yaml", "name"))
    for kind in named:
        if kind in fleet_objects.KINDS.values() and output in ("json", "yaml"):
            raise BadInput(
                f"--output: must be name or wide for a {kind}: its content is sealed, and only its nodes can read it"
            )
    request = _Request(None if all_namespaces else namespace, output, not no_headers, len(named) > 1)

    async def work(client: Client) -> list[_Found]:
        return [await _find(client, kind, names, request) for kind, names in named.items()]

    single = [len(names) for names in named.values()] == [1]
    _show(fleet.run(work, state_dir=state_dir), request, single=single, named=any(named.values()))


async def _find(client: Client, kind: str, names: Sequence[str], request: _Request) -> _Found:
    from syncpod.cli.temporal import fleet_objects
    from syncpod.cli.temporal.fleet_workloads import KINDS

    if kind == "Node":
        return await _nodes(client, names, request)
    if kind in fleet_objects.KINDS.values():
        return await _objects(client, kind, names, request)
    if kind in KINDS.values():
        return await _workloads(client, kind, names, request)
    return await _pods(client, names, request)


def _show(found: Sequence[_Found], request: _Request, *, single: bool, named: bool) -> None:
    """Print what was found of each kind, with an empty line between tables. Raises Failure for what is missing."""
    from syncpod.cli.view.documents import print_documents

    if request.of_documents:
        documents = [document for each in found for document in each.documents]
        print_documents(documents, request.output, single=single, headers=request.headers)
    else:
        tables = ["\n".join(lines) for each in found if (lines := each.lines(request))]
        if tables:
            say(("\n" if request.output == "name" else "\n\n").join(tables))
        elif not named:
            remark(_nothing(found, request))
        for note in (note for each in found for note in each.notes):
            remark(note)
    if missing := [sentence for each in found for sentence in each.missing]:
        raise Failure("\n".join(missing))


def _nothing(found: Sequence[_Found], request: _Request) -> str:
    if [each.kind for each in found] == ["node"]:
        return "No nodes found: `syncpod fleet invite NODE` lets one in"
    return "No resources found" + ("" if request.namespace is None else f" in {request.namespace} namespace.")


async def _nodes(client: Client, names: Sequence[str], request: _Request) -> _Found:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet
    from syncpod.cli.view import fleet_table

    found = _Found("node")
    if request.of_documents:
        if not names:
            found.documents = [fleet_table.node_document(each) for each in await fleet.views(client)]
        for name in names:
            try:
                found.documents.append(fleet_table.node_document(await fleet.view(client, name)))
            except Failure as failure:
                found.missing.append(str(failure))
        return found
    nodes = [each for each in await fleet.summaries(client) if not names or each.name in names]
    found.names = [each.name for each in nodes]
    found.missing = [f'nodes "{each}" not found in the fleet' for each in names if each not in found.names]
    unread = [(each.name, each.why) for each in nodes if isinstance(each, fleet.UnreadNode)]
    sentences = [f"node {name} is Unknown: what its workflow says of it cannot be read: {why}" for name, why in unread]
    if names:
        found.missing += sentences
    else:
        found.notes = [f"Note: {each}" for each in sentences]
    now, wide = datetime.now(UTC), request.output == "wide"
    found.header = fleet_table.NODE_HEADER + (fleet_table.NODE_WIDE if wide else ())
    found.rows = [fleet_table.node_row(each, now, wide=wide) for each in nodes]
    return found


async def _pods(client: Client, names: Sequence[str], request: _Request) -> _Found:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet, fleet_waiting_pods
    from syncpod.cli.view import fleet_table

    def is_asked_for(pod: PlacedPod) -> bool:
        return request.namespace in (None, pod.namespace) and (not names or pod.name in names)

    all_placed: list[tuple[FleetNodeView, PlacedPod]] = [
        (node, pod) for node in await fleet.views(client) for pod in node.placed
    ]
    placed = [(node, pod) for node, pod in all_placed if is_asked_for(pod)]
    listed = [(node.name, pod) for node, pod in all_placed]
    waiting = await fleet_waiting_pods.waiting_pods(client, names, request.namespace, listed)
    now, wide, spaced = datetime.now(UTC), request.output == "wide", request.spaced
    # Each with the place in the table: a pod keeps it when its node reports it.
    rows = [
        ((pod.namespace, pod.name, node.name), fleet_table.pod_row(node, pod, now, wide=wide, namespaces=spaced))
        for node, pod in placed
    ]
    rows += [
        (
            (one.namespace, one.pod.name, one.pod.node),
            fleet_table.pending_row(one.namespace, one.owner, one.pod, now, wide=wide, namespaces=spaced),
        )
        for one in waiting
    ]
    rows.sort()
    found = _Found("pod", rows=[row for _, row in rows], names=[name for (_, name, _), _ in rows])
    found.missing = [f'pods "{each}" not found in the fleet' for each in names if each not in found.names]
    if request.of_documents:
        placed.sort(key=lambda one: (one[1].namespace, one[1].name))
        found.documents = [fleet_table.pod_document(*each) for each in placed]
        found.documents += [fleet_table.pending_document(one.namespace, one.pod) for one in waiting]
        return found
    found.header = (("NAMESPACE",) if spaced else ()) + fleet_table.POD_HEADER + (fleet_table.POD_WIDE if wide else ())
    if request.output != "name":
        found.notes = [
            f"the workload of pod {pod.name} is gone: apply it, or `syncpod fleet delete pod {pod.name}`"
            for _, pod in sorted(placed, key=lambda one: (one[1].namespace, one[1].name))
            if pod.is_orphan
        ]
    return found


async def _workloads(client: Client, kind: str, names: Sequence[str], request: _Request) -> _Found:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet_workloads
    from syncpod.cli.view import fleet_table
    from syncpod.messages.workload import WorkloadSummary

    found = _Found(f"{kind.lower()}.apps")
    listed: list[WorkloadSummary] = []
    for name in names:
        try:
            listed += await fleet_workloads.views(client, kind, request.namespace or "default", [name])
        except Failure as failure:
            found.missing.append(str(failure))
    if not names:
        listed = await fleet_workloads.summaries(client, kind, request.namespace)
    found.names = [each.name for each in listed]
    if request.of_documents:
        for one in listed:
            (whole,) = await fleet_workloads.views(client, kind, one.namespace, [one.name])
            found.documents.append(fleet_table.workload_document(whole))
        return found
    now, wide, spaced = datetime.now(UTC), request.output == "wide", request.spaced
    found.header = fleet_table.workload_header(kind, wide=wide, namespaces=spaced)
    found.rows = [fleet_table.workload_row(each, now, wide=wide, namespaces=spaced) for each in listed]
    return found


async def _objects(client: Client, kind: str, names: Sequence[str], request: _Request) -> _Found:
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet_objects
    from syncpod.cli.view import fleet_table

    found, spaced = _Found(kind.lower()), request.spaced
    listed = await fleet_objects.views(client, kind, request.namespace)
    listed = [each for each in listed if not names or each.name in names]
    found.names = [each.name for each in listed]
    found.missing = [f'{kind.lower()}s "{each}" not found in the fleet' for each in names if each not in found.names]
    found.header = fleet_table.object_header(kind, namespaces=spaced)
    found.rows = [fleet_table.object_row(each, datetime.now(UTC), namespaces=spaced) for each in listed]
    return found
