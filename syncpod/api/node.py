"""Handlers for the node itself: the Node, the steps under way, its journal and its report."""

from __future__ import annotations

from syncpod.api.lists import rendered_alone, whole
from syncpod.api.messages import Answer, Request
from syncpod.api.source import PodSource
from syncpod.api.statuses import not_found
from syncpod.api.views.node_columns import document

_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}


async def get_node(source: PodSource, asked: Request, name: str) -> Answer:
    """Answer with a Node."""
    node = await source.node_named(name, at_once=asked.at_once)
    if node is None:
        raise not_found("nodes", name)
    return Answer(rendered_alone(lambda: document(node)))


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
