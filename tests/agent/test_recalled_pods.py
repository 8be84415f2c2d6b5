"""A node tells its new workflow about pods of lists that are missing in its history and have open workflows.

Holds: No pod of a list outlives its entry.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.node_workflow.recalled_pods import RecalledPods
from syncpod.messages.node import DesiredPod, NodeView, RecallPods
from syncpod.pod import ObjectMeta

MADE = datetime(2026, 11, 1, tzinfo=UTC)
BEFORE, AFTER = MADE - timedelta(hours=1), MADE + timedelta(hours=1)


class Told:
    """The published states of pods' workflows, and the signals that the node's workflow receives."""

    def __init__(self) -> None:
        self.pods: list[ObjectMeta] = []
        self.heard: list[tuple[str, ...]] = []
        self.away = False

    def publish(self, uid: str, source: str, **annotations: str) -> None:
        more = {"kubernetes.io/config.source": source} if source else {}
        self.pods.append(
            ObjectMeta(
                name=f"p-{uid}",
                namespace="default",
                uid=uid,
                annotations={**more, **annotations},
                creation_timestamp=MADE,
            )
        )

    async def tell(self, pods: RecallPods) -> None:
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.heard.append(tuple(f"{each.source}/{each.name}/{each.uid}" for each in pods.pods))


async def test_a_new_node_workflow_is_told_of_the_pods_that_lists_have_made() -> None:
    told = Told()
    recalled = RecalledPods(lambda: told.pods, told.tell)
    assert await recalled.round(None) == 0
    told.publish("listed", "team")
    told.publish("static", "file", **{"kubernetes.io/config.hash": "static"})
    told.publish("copied", "team", **{"kubernetes.io/config.hash": "listed"})
    told.publish("single", "")
    told.away = True
    with pytest.raises(RPCError):
        await recalled.round(None)
    told.away = False
    assert await recalled.round(None) == 1
    assert told.heard == [("team/p-listed/listed",)]
    view = NodeView(since=AFTER, desired=(DesiredPod(uid="listed"),))
    assert await recalled.round(view) == 0
    told.publish("adopted", "zone")
    assert await recalled.round(view) == 1
    assert told.heard[1:] == [("zone/p-adopted/adopted",)]
    assert await recalled.round(view) == 0
    # Another workflow, started by a stranger's signal before the end of this one was noticed.
    assert await recalled.round(NodeView(since=AFTER + timedelta(hours=1))) == 2


async def test_pods_made_after_the_nodes_workflow_began_are_in_its_history_and_not_sent() -> None:
    told = Told()
    told.publish("listed", "team")
    assert await RecalledPods(lambda: told.pods, told.tell).round(NodeView(since=BEFORE)) == 0
