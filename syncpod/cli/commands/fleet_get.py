"""``syncpod fleet get``: the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncpod.api.views.text import columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.input.fleet_names import NODES, PODS, names_of_kinds
from syncpod.cli.input.options import AllNamespaces, Namespace, Selector, StateDir
from syncpod.cli.streams import interrupts
from syncpod.cli.view.changed_rows import ChangedRows
from syncpod.fleet import workload_traits

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.messages.fleet import FleetNodeView, PlacedPod
    from syncpod.messages.workload import WorkloadView

_KNOWN = "nodes, pods, deployments, daemonsets, configmaps, secrets or all"
_WATCH_SECONDS = 2.0
_MANY = 50
"""For so many more lines, the pause between two looks of a watch is longer by one: each node and workload is asked."""
_ALL: Final = tuple(workload_traits.KINDS)[::-1]
"""The kinds of `all`, as for kubectl: neither nodes nor objects."""


@dataclass(frozen=True)
class _Request:
    """The request, apart from kinds and names."""

    namespace: str | None
    """None = all."""
    output: str
    headers: bool
    with_kind: bool
    """Whether each name in a table has its kind, because there are several kinds."""
    conditions: Conditions
    """On labels."""

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
    """The found objects of one kind, and a message for each name that is missing."""

    kind: str
    """As in the name of a resource: ``pod``, ``deployment.apps``."""
    header: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    """The mark that distinguishes each row from others, if its name does not."""
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

    def keyed(self, request: _Request) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Return its rows, or its names as rows, by what tells them from others."""
        keys = self.keys or [row[: 1 + (self.header[0] == "NAMESPACE")] for row in self.rows]
        rows = [(f"{self.kind}/{name}",) for name in self.names] if request.output == "name" else self.rows
        return dict(zip(keys, rows, strict=True))


def get(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Keep watching: a terminal draws the table again, else each change is a line."
        ),
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="wide|json|yaml|name|...", help="The output format, as of `get`.")
    ] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
    state_dir: StateDir = "",
) -> None:
    """List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.

    Several kinds are `deployments,daemonsets`, or `deployment/web pod/web-1`; `all` stands for pods, daemonsets and
    deployments. A node is `Unknown` when the fleet has had no answer from it for its grace. Its pods may still be
    running.
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
    conditions = read_selector(selector)
    if conditions.requirements and any(named.values()):
        raise BadInput("name what to list, or choose it with --selector, not both")
    if sealed := [kind for kind in named if kind in fleet_objects.KINDS.values()] if conditions.requirements else []:
        raise BadInput(f"--selector: not for a {sealed[0]}: its labels are sealed, and only its nodes can read them")
    request = _Request(None if all_namespaces else namespace, output, not no_headers, len(named) > 1, conditions)
    if watch and request.of_documents:
        raise BadInput(f"--watch prints tables and names, not {output.partition('=')[0]}")
    if watch and len(named) > 1:
        raise BadInput("--watch works with one kind at a time")

    async def work(client: Client) -> list[_Found]:
        found = [await _find(client, kind, names, request) for kind, names in named.items()]
        if not watch or found[0].missing:
            return found
        ((kind, names),) = named.items()
        return await _watch(found[0], lambda: _find(client, kind, names, request), request)

    if watch:
        interrupts.enable()
    single = [len(names) for names in named.values()] == [1]
    _show(fleet.run(work, state_dir=state_dir), request, single=single, named=any(named.values()))


async def _watch(found: _Found, find: Callable[[], Awaitable[_Found]], request: _Request) -> list[_Found]:
    """Print a table, and then its changes, until Ctrl-C; on a terminal draw it again and again."""
    import asyncio

    from syncpod.cli.view.live_table import LiveLines, can_redraw

    async def again() -> _Found:
        await asyncio.sleep(_WATCH_SECONDS * (1 + len(found.rows) // _MANY))
        return await find()

    if not found.rows:
        remark(_nothing([found], request))
    if can_redraw() and request.output != "name":
        with LiveLines() as live:
            while True:
                live.draw(found.lines(request))
                found = await again()
    is_table = request.output != "name"
    table = ChangedRows(headers=request.headers and is_table)
    while True:
        if changed := table.lines(found.header if is_table else ("NAME",), found.keyed(request)):
            say("\n".join(changed))
        found = await again()


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
    from syncpod.cli.temporal import fleet
    from syncpod.cli.view import fleet_table

    found = _Found("node")
    if request.of_documents:
        if not names:
            views = [each for each in await fleet.views(client) if request.conditions.matches(each.labels)]
            found.documents = [fleet_table.node_document(each) for each in views]
        for name in names:
            try:
                found.documents.append(fleet_table.node_document(await fleet.view(client, name)))
            except Failure as failure:
                found.missing.append(str(failure))
        return found
    matches = request.conditions.matches
    nodes = [each for each in await fleet.summaries(client) if (each.name in names if names else matches(each.labels))]
    found.names = [each.name for each in nodes]
    found.missing = [f'nodes "{each}" not found in the fleet' for each in names if each not in found.names]
    unread = [(each.name, each.why) for each in nodes if isinstance(each, fleet.UnreadNode)]
    sentences = [f"node {name} is Unknown: what its workflow says of it cannot be read: {why}" for name, why in unread]
    if names:
        found.missing += sentences
    else:
        found.notes = [f"Note: {each}" for each in sentences]
    stuck = [(each.name, each.why) for each in nodes if isinstance(each, fleet.StuckNode)]
    found.notes += [f"Note: node {name} is Unknown: its workflow cannot go on, since {why}" for name, why in stuck]
    now, wide = datetime.now(UTC), request.output == "wide"
    found.header = fleet_table.NODE_HEADER + (fleet_table.NODE_WIDE if wide else ())
    found.rows = [fleet_table.node_row(each, now, wide=wide) for each in nodes]
    return found


async def _pods(client: Client, names: Sequence[str], request: _Request) -> _Found:
    from syncpod.cli.temporal import fleet, fleet_pods, fleet_waiting_pods
    from syncpod.cli.view import fleet_table

    matches, selected = request.conditions.matches, None
    if request.conditions.requirements:
        chosen = await fleet_pods.selected_pods(client, matches, request.namespace)
        selected = {(one.node.name, one.placed.namespace, one.name) for one in chosen if one.placed is not None}

    def is_asked_for(node: FleetNodeView, pod: PlacedPod) -> bool:
        if selected is not None and (node.name, pod.namespace, pod.name) not in selected:
            return False
        return request.namespace in (None, pod.namespace) and (not names or pod.name in names)

    all_placed: list[tuple[FleetNodeView, PlacedPod]] = [
        (node, pod) for node in await fleet.views(client) for pod in node.placed
    ]
    placed = [(node, pod) for node, pod in all_placed if is_asked_for(node, pod)]
    listed = [(node.name, pod) for node, pod in all_placed]
    waiting = await fleet_waiting_pods.waiting_pods(client, names, request.namespace, listed)
    waiting = [one for one in waiting if matches(one.labels)]
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
    found.keys = [key for key, _ in rows]
    found.missing = [f'pods "{each}" not found in the fleet' for each in names if each not in found.names]
    if request.of_documents:
        placed.sort(key=lambda one: (one[1].namespace, one[1].name))
        wanted = await fleet_pods.wanted_pods(client, {node.name for node, _ in placed})
        found.documents = [
            fleet_table.pod_document(node, pod, wanted.get((node.name, pod.namespace, pod.name)))
            for node, pod in placed
        ]
        found.documents += [fleet_table.pending_document(one.namespace, one.labels, one.pod) for one in waiting]
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
    if request.conditions.requirements:
        wholes = [(await fleet_workloads.views(client, kind, one.namespace, [one.name]))[0] for one in listed]
        listed = [one for one in wholes if request.conditions.matches(_labels_of(one))]
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


def _labels_of(workload: WorkloadView) -> dict[str, str]:
    labels: dict[str, str] = (workload.document or {}).get("metadata", {}).get("labels") or {}
    return labels


async def _objects(client: Client, kind: str, names: Sequence[str], request: _Request) -> _Found:
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
