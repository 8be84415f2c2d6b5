"""Handlers for nodes: Nodes, and of the node itself the steps under way, its journal and its report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from syncpod.api.descriptions import node_description
from syncpod.api.lists import rendered, rendered_alone, whole
from syncpod.api.messages import Answer, Request, warning_headers
from syncpod.api.source import PodSource
from syncpod.api.views.node_columns import HEADER, WIDE, document, row
from syncpod.api.views.tables import partial_metadata, table_head

if TYPE_CHECKING:
    from syncpod.api.listed import ListedPod
    from syncpod.api.listed_node import ListedNode

_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}


async def list_nodes(source: PodSource, asked: Request) -> Answer:
    """Answer with a NodeList or a Table, with a warning for each node whose workflow has ended."""
    nodes, ended = await source.nodes()
    headers = warning_headers(ended)
    if asked.wants_table:
        return _table(asked, nodes, headers)
    head = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": ""}}
    return Answer(rendered(head, "items", nodes, lambda one: [document(one)]), headers=headers)


async def get_node(source: PodSource, asked: Request, name: str) -> Answer:
    """Answer with a Node, or a Table of one row."""
    node = await source.node_named(name, at_once=asked.at_once)
    if asked.wants_table:
        return _table(asked, [node], {})
    return Answer(rendered_alone(lambda: document(node)))


async def list_descriptions(source: PodSource, asked: Request) -> Answer:
    """Answer with the NodeDescriptions of all nodes, and the same warnings as for a NodeList."""
    nodes, ended = await source.nodes()
    pods = await _pods_on(source, [one.name for one in nodes])
    head = {"kind": "NodeDescriptionList", "apiVersion": "syncpod.dev/v1", "metadata": {}}

    def described(node: ListedNode) -> Mapping[str, Any]:
        return node_description(node, [pod for pod in pods if pod.document["spec"].get("nodeName") == node.name])

    return Answer(rendered(head, "items", nodes, lambda one: [described(one)]), headers=warning_headers(ended))


async def get_description(source: PodSource, asked: Request, name: str) -> Answer:
    """Answer with a node's NodeDescription."""
    node = await source.node_named(name, at_once=False)
    pods = await _pods_on(source, [name])
    return Answer(rendered_alone(lambda: node_description(node, pods)))


async def _pods_on(source: PodSource, nodes: Sequence[str]) -> Sequence[ListedPod]:
    """Return the pods on these nodes, in order of namespace and name. Raises CannotSay."""
    found = await source.open_pods(None, (), nodes=nodes, recorded=True) if nodes else ()
    return await asyncio.to_thread(lambda: [one.listed for one in sorted(found, key=lambda one: one.key)])


def _table(asked: Request, nodes: Sequence[ListedNode], headers: Mapping[str, str]) -> Answer:
    now, is_whole = datetime.now(UTC), asked.one("includeObject") == "Object"

    def row_of(node: ListedNode) -> dict[str, Any]:
        whole = document(node)
        return {"cells": list(row(node, now)), "object": whole if is_whole else partial_metadata(whole)}

    return Answer(rendered(table_head(HEADER, WIDE), "rows", nodes, lambda one: [row_of(one)]), headers=headers)


async def steps(source: PodSource, asked: Request) -> Answer:
    """Answer with the progress of the steps that are under way, one object for each."""
    items = list(source.steps_under_way())
    return Answer(whole({"kind": "StepList", "apiVersion": "syncpod.dev/v1", "metadata": {}, "items": items}))


async def settle_journal(source: PodSource, asked: Request) -> Answer:
    """Bring the node's journal up to date. Answers once that is done, or with the reason why it cannot be written."""
    why = await source.settle_journal()
    return Answer(whole({**_DONE, "status": "Failure", "message": why} if why else _DONE))


async def refresh_report(source: PodSource, asked: Request) -> Answer:
    """Search for orphans now, and write the node's report. Answers once that is done."""
    await source.refresh_report()
    return Answer(whole(_DONE))
