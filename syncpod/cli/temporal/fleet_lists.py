"""The rows of ``fleet get``: the nodes, workloads, pods and objects of a fleet, read from its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.input.kind_words import OBJECTS, WORKLOADS
from syncpod.cli.listing import Form, FoundObjects
from syncpod.cli.temporal import fleet, fleet_objects, fleet_pods, fleet_waiting_pods, fleet_workloads
from syncpod.cli.view import fleet_table
from syncpod.cli.view.data_objects import HEADERS
from syncpod.cli.view.rows import Row
from syncpod.fleet.workload_traits import KINDS
from syncpod.messages.fleet import FleetNodeView, PlacedPod
from syncpod.messages.workload import WorkloadSummary, WorkloadView

_WATCH_SECONDS: Final = 2.0
_MANY: Final = 50
"""The pause of a watch grows by _WATCH_SECONDS per this many lines, since each node and workload is queried."""


async def find(client: Client, kind: str, names: Sequence[str], form: Form) -> FoundObjects:
    """Return the named objects of a kind, or all that `form` chooses, with documents if `form` needs them.

    Raises Failure if nothing can be read.
    """
    if kind == "Node":
        found = await _nodes(client, names, form)
    elif kind in OBJECTS.values():
        found = await _objects(client, kind, names, form)
    elif kind in WORKLOADS.values():
        found = await _workloads(client, kind, names, form)
    else:
        found = await _pods(client, names, form)
    found.pause = _WATCH_SECONDS * (1 + len(found.rows) // _MANY)
    return found


async def _nodes(client: Client, names: Sequence[str], form: Form) -> FoundObjects:
    nothing = "No nodes found: `syncpod fleet invite NODE` lets one in"
    header = form.head(fleet_table.NODE_HEADER, fleet_table.NODE_WIDE)
    found, now = FoundObjects("node", header, is_namespaced=False, nothing=nothing), datetime.now(UTC)
    if form.of_documents or form.fields.fields or form.order is not None:
        views = [] if names else await fleet.views(client)
        for name in names:
            try:
                views.append(await fleet.view(client, name))
            except Failure as failure:
                found.missing.append(str(failure))
        found.rows = form.chosen(
            Row(fleet_table.node_row(each, now), fleet_table.node_document(each)) for each in views
        )
        return found
    nodes = [each for each in await fleet.summaries(client) if not names or each.name in names]
    rows = [Row(fleet_table.node_row(each, now), _metadata(each.name, labels=each.labels)) for each in nodes]
    found.rows = form.chosen(rows)
    chosen = {row.name for row in found.rows}
    found.missing = [f'nodes "{each}" not found in the fleet' for each in names if each not in chosen]
    unread = [each for each in nodes if isinstance(each, fleet.UnreadNode) and each.name in chosen]
    sentences = [f"node {one.name} is Unknown: its workflow's answer cannot be read: {one.why}" for one in unread]
    if names:
        found.missing += sentences
    else:
        found.notes = [f"Note: {each}" for each in sentences]
    stuck = [each for each in nodes if isinstance(each, fleet.StuckNode) and each.name in chosen]
    found.notes += [f"Note: node {one.name} is Unknown: its workflow cannot go on, since {one.why}" for one in stuck]
    return found


async def _pods(client: Client, names: Sequence[str], form: Form) -> FoundObjects:
    nodes = await fleet.views(client)
    everywhere = [(node.name, pod) for node in nodes for pod in node.placed]
    placed = [(node, pod) for node in nodes for pod in node.placed if _is_requested(pod, names, form)]
    wanted: Mapping[tuple[str, str, str], dict[str, Any]] = {}
    if form.needs_documents:
        wanted = await fleet_pods.wanted_pods(client, {node.name for node, _ in placed})
    waiting = await fleet_waiting_pods.waiting_pods(client, names, form.namespace, everywhere)
    now = datetime.now(UTC)
    rows = [_placed_row(node, pod, wanted, now) for node, pod in placed]
    for one in waiting:
        cells = fleet_table.pending_row(one.owner, one.pod, now)
        document = fleet_table.pending_document(one.namespace, one.labels, one.pod)
        rows.append(Row(cells, document, place=one.pod.node, status=cells[2]))
    # Both kinds are sorted together, so that a pod keeps its line when its node reports it.
    rows = sorted(form.chosen(rows), key=lambda row: (*row.key, row.place))
    found = FoundObjects("pod", form.head(fleet_table.POD_HEADER, fleet_table.POD_WIDE), rows)
    there = {row.name for row in rows}
    found.missing = [f'pods "{each}" not found in the fleet' for each in names if each not in there]
    if form.is_table:
        gone = {(pod.namespace, pod.name, node.name) for node, pod in placed if pod.is_orphan}
        found.notes = [
            f"the workload of pod {row.name} is gone: apply it, or `syncpod fleet delete pod {row.name}`"
            for row in rows
            if (*row.key, row.place) in gone
        ]
    return found


def _is_requested(pod: PlacedPod, names: Sequence[str], form: Form) -> bool:
    return form.namespace in (None, pod.namespace) and (not names or pod.name in names)


def _placed_row(
    node: FleetNodeView, pod: PlacedPod, wanted: Mapping[tuple[str, str, str], dict[str, Any]], now: datetime
) -> Row:
    cells = fleet_table.pod_row(node, pod, now)
    document = fleet_table.pod_document(node, pod, wanted.get((node.name, pod.namespace, pod.name)))
    return Row(cells, document, place=node.name, status=cells[2])


async def _workloads(client: Client, kind: str, names: Sequence[str], form: Form) -> FoundObjects:
    found = FoundObjects(KINDS[kind].resource, form.head(fleet_table.workload_header(kind), fleet_table.WORKLOAD_WIDE))
    listed: list[WorkloadSummary] = []
    for name in names:
        try:
            listed += await fleet_workloads.views(client, kind, form.namespace or "default", [name])
        except Failure as failure:
            found.missing.append(str(failure))
    if not names:
        listed = await fleet_workloads.summaries(client, kind, form.namespace)
        if form.needs_documents:
            listed = [await _whole(client, one) for one in listed]
    now = datetime.now(UTC)
    found.rows = form.chosen(
        Row(
            fleet_table.workload_row(one, now),
            fleet_table.workload_document(one) if isinstance(one, WorkloadView) else _metadata(one.name, one.namespace),
        )
        for one in listed
    )
    return found


async def _whole(client: Client, one: WorkloadSummary) -> WorkloadSummary:
    (whole,) = await fleet_workloads.views(client, one.kind, one.namespace, [one.name])
    return whole


async def _objects(client: Client, kind: str, names: Sequence[str], form: Form) -> FoundObjects:
    listed = await fleet_objects.views(client, kind, form.namespace)
    now = datetime.now(UTC)
    rows = form.chosen(
        Row(fleet_table.object_row(one, now), _metadata(one.name, one.namespace))
        for one in listed
        if not names or one.name in names
    )
    there = {row.name for row in rows}
    missing = [f'{kind.lower()}s "{each}" not found in the fleet' for each in names if each not in there]
    return FoundObjects(kind.lower(), HEADERS[kind], rows, missing)


def _metadata(name: str, namespace: str = "", labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the part of an object that a row needs."""
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}}
