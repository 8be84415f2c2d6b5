"""What a node tells a new workflow of its own: pods of lists that it cannot know of, whose own workflows are open.

Holds: No pod of a list outlives its entry.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.node_workflow.recalled_pods import Life, RecalledPods, life_since
from syncpod.lifecycle.orphans import Standing
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import DesiredPod, NodeView, RecallPods, SourceView
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import Pod
from syncpod.pod.meta import ObjectMeta
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

MADE = datetime(2026, 11, 1, tzinfo=UTC)
BEFORE, AFTER = MADE - timedelta(hours=1), MADE + timedelta(hours=1)
LIFE = Life(AFTER, AFTER + timedelta(hours=1))


class Server:
    """What the server knows of the pods' workflows, and what the node's workflow receives."""

    def __init__(self) -> None:
        self.listed: dict[str, str] = {}
        self.standings: dict[str, Standing] = {}
        self.heard: list[tuple[str, ...]] = []
        self.away = False

    async def open(self) -> dict[str, str]:
        return self.listed

    async def standing(self, ref: PodRef) -> Standing:
        return self.standings.get(ref.uid, "unknown")

    async def tell(self, pods: RecallPods) -> None:
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.heard.append(tuple(f"{each.source}/{each.name}/{each.uid}" for each in pods.pods))


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")


def record(node: NodeContext, uid: str, source: str, **annotations: str) -> None:
    """Write the record of a pod that `source` made."""
    more = {"kubernetes.io/config.source": source} if source else {}
    meta = ObjectMeta(
        name=f"p-{uid}", namespace="default", uid=uid, annotations={**more, **annotations}, creation_timestamp=MADE
    )
    pod_directory(node, uid).mkdir(parents=True)
    write_pod_record(node, PodRecord(pod=Pod(metadata=meta), incarnation="1"))


async def test_a_new_node_workflow_is_told_of_list_pods_with_open_workflows(
    node: NodeContext,
) -> None:
    server = Server()
    recalled = RecalledPods(node, server, server.tell, boot=7, life=lambda: LIFE)
    assert await recalled.round(None) == 0
    record(node, "listed", "team")
    record(node, "lagging", "file", **{"kubernetes.io/config.hash": "lagging"})
    record(node, "ended", "team")
    record(node, "copied", "file", **{"kubernetes.io/config.hash": "lagging"})
    record(node, "copied-too", "team", **{"kubernetes.io/config.hash": "ended"})
    record(node, "single", "")
    record(node, "another", "team")
    server.listed = {pod_workflow_id("default", "p-listed"): "listed", pod_workflow_id("default", "p-another"): "else"}
    server.standings = {"lagging": "open", "ended": "closed", "another": "another", "copied": "open", "single": "open"}
    server.standings["copied-too"] = "open"
    server.away = True
    with pytest.raises(RPCError):
        await recalled.round(None)
    server.away = False
    assert await recalled.round(None) == 2
    assert server.heard == [("file/p-lagging/lagging", "team/p-listed/listed")]
    view = NodeView(since=AFTER, desired=(DesiredPod(uid="listed"), DesiredPod(uid="lagging")))
    assert await recalled.round(view) == 0
    server.standings["ended"] = "open"  # it has been adopted
    assert await recalled.round(view) == 1
    assert server.heard[1:] == [("team/p-ended/ended",)]
    assert await recalled.round(view) == 0
    # Another workflow, begun by somebody else's signal before it was seen that this one had been ended.
    assert await recalled.round(NodeView(since=AFTER + timedelta(hours=1))) == 3


async def test_pods_that_an_earlier_life_began_and_told_nobody_of_are_sent_once_the_present_list_is_known(
    node: NodeContext,
) -> None:
    """The list may have them, and then they must not end. Pods of this life are told of by the list itself."""
    server = Server()
    recalled = RecalledPods(node, server, server.tell, boot=7, life=lambda: LIFE)

    def static(uid: str, seen: str) -> None:
        record(node, uid, "file", **{"kubernetes.io/config.hash": uid, "kubernetes.io/config.seen": seen})

    static("begun", BEFORE.isoformat())
    static("told", BEFORE.isoformat())
    static("newer", (AFTER + timedelta(seconds=1)).isoformat())
    static("future", (LIFE.now + timedelta(seconds=1)).isoformat())  # the clock was set back since
    static("unclear", "yesterday")
    record(node, "others", "team")
    server.standings = dict.fromkeys(("begun", "told", "others", "newer", "future", "unclear"), "open")
    old, new = {"file": SourceView(boot=6)}, {"file": SourceView(boot=7)}
    desired = (DesiredPod(uid="told"),)
    assert await recalled.round(NodeView(since=BEFORE, sources=old, desired=desired)) == 0
    assert await recalled.round(NodeView(since=BEFORE, sources=new, desired=desired)) == 2
    assert server.heard == [("file/p-begun/begun", "file/p-future/future")]
    assert await recalled.round(NodeView(since=BEFORE, sources=new, desired=desired)) == 0


def test_a_life_is_as_old_as_the_monotonic_clock_says_whatever_the_other_clock_said_when_it_began() -> None:
    life = life_since(time.monotonic() - 3600)
    assert life.now - life.began >= timedelta(hours=1)


async def test_pods_known_to_the_node_workflow_are_not_sent_again(node: NodeContext) -> None:
    server = Server()
    recalled = RecalledPods(node, server, server.tell, boot=7, life=lambda: LIFE)
    record(node, "a", "team")
    server.standings["a"] = "open"
    assert await recalled.round(NodeView(since=BEFORE)) == 0
    assert await recalled.round(NodeView(since=AFTER, desired=(DesiredPod(uid="a"),))) == 0
    assert await recalled.round(NodeView(since=AFTER)) == 0  # it is being ended
    assert await recalled.round(NodeView(since=AFTER + timedelta(hours=1))) == 1
