"""Pods that the agent ends or begins beside their lists: with any lists in flight, the node comes to its last lists.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from syncpod.messages.identity import PodRef
from syncpod.messages.node import (
    BEGUN_LIMIT,
    LIST_LIMIT,
    BegunPod,
    DeleteFromNode,
    NodeStepName,
    PodWorkflowResult,
    SyncPods,
    document_size,
)
from tests.workflows.test_node_decisions import NAMES, Node, document
from workflows.node import absorb
from workflows.node.decide import Action
from workflows.node.inbox import NodeInbox
from workflows.node.published import PublishedNode

BOOT = 7


def listed(name: str, image: int) -> dict[str, Any]:
    """A document with a UID of its own, which two lists may share."""
    pod = document(name, image)
    return {**pod, "metadata": {"name": name, "namespace": "default", "uid": f"{name}{image}"}}


class FollowedNode(Node):
    """A node and the agent that follows its manifests. The node's workflow may take several lists at once."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, int] = {}
        self.number = 0
        self.ended: set[str] = set()
        """UIDs of the pods that were ended early and have not been back."""
        self.early = 0
        self.begun: dict[str, BegunPod] = {}
        """The pods that were begun early and that no list has named, by UID."""
        self.flying: dict[str, str] = {}
        """The updates under way: the pod's UID by its key."""
        self.untaken = NodeInbox()
        self.task()

    def task(self) -> None:
        """Let the workflow take what has come in, decide, and publish its state."""
        for name, args in self.untaken.take():
            absorb.absorb(self.state, name, args, self.now)
        self.begin()
        self.published = PublishedNode(self.state.model_copy(deep=True), self.now)

    def list(self, source: str, pods: dict[str, int], **more: Any) -> None:
        documents = [listed(name, image) for name, image in pods.items()]
        self.untaken.put("sync_pods", ({"source": source, "pods": documents, **more},))

    def follow(self, files: dict[str, int], *, begins: str = "no", is_lost: bool = False) -> None:
        """Send the manifests as `ManifestSource` does. `begins` says how early starts end; the list may be lost."""
        back = [name for name, image in files.items() if f"{name}{image}" in self.ended]
        if files.items() <= self.files.items():
            for name in self.files.keys() - files.keys():
                self.end_early(name, f"{name}{self.files[name]}")
        if self.files.items() <= files.items() and begins != "no":
            self.begin_early(files, sorted(files.keys() - self.files.keys() - set(back)), begins)
        self.number += 1
        if is_lost:
            return
        begun = [each.model_dump(mode="json", by_alias=True) for each in self.begun.values()]
        gone = [{"name": name} for name in back]
        self.list("file", files, boot=BOOT, number=self.number, gone=gone, begun=begun)
        self.begun.clear()
        self.files = files
        self.ended -= {f"{name}{files[name]}" for name in back}

    def begin_early(self, files: dict[str, int], new: Sequence[str], how: str) -> None:
        """Start the workflows of new pods, unless they have one. If nobody answers, each may have been started or not.

        Nothing is begun while an update that ends a pod is under way.
        """
        pods = tuple(listed(name, image) for name, image in files.items())
        last = SyncPods(source="file", boot=BOOT, number=self.number, pods=pods)
        documents = [listed(name, files[name]) for name in new]
        given = sum(map(document_size, pods))
        for pod, document_ in self.published.answer("begins_with", last, given, documents, self.now):
            key = f"default/{pod.name}"
            self.land(key)
            is_free = key not in self.pods
            if is_free and how != "unknown":
                self.pods[key] = pod.uid, document_["spec"]["containers"][0]["image"]
            if how == "well" and not is_free:
                continue
            self.begun[pod.uid] = pod if how == "well" else pod.model_copy(update={"digest": ""})
            self.early += 1

    def end_early(self, name: str, uid: str) -> None:
        key = f"default/{name}"
        asked = ("file", BOOT, self.number, PodRef(name=name, uid=uid))
        if self.published.answer("ends_without", *asked) and key not in self.flying:
            self.flying[key] = uid
            self.ended.add(uid)
            self.early += 1

    def land(self, key: str) -> None:
        """Let the update to a pod's workflow arrive."""
        if (uid := self.flying.pop(key, "")) and self.pods.get(key, ("", ""))[0] == uid:
            del self.pods[key]

    @override
    def carry_out(self, action: Action) -> PodWorkflowResult:
        """Every step first waits for the update that is under way."""
        self.land(action.key)
        return super().carry_out(action)


files = st.dictionaries(st.sampled_from(NAMES[:2]), st.integers(0, 1), max_size=2)
moves = st.one_of(
    st.tuples(st.just("file"), files),
    st.tuples(st.just("file"), files),
    st.tuples(st.sampled_from(["begins well", "begins unheard", "begins unknown", "begins lost"]), files),
    st.tuples(st.sampled_from(["begins well", "begins unheard", "begins unknown", "begins lost"]), files),
    st.tuples(st.just("team"), files),
    st.tuples(st.just("delete"), st.sampled_from(NAMES[:2])),
    st.tuples(st.just("task"), st.none()),
    st.tuples(st.just("task"), st.none()),
    st.tuples(st.just("end"), st.sampled_from(["well", "well", "failed", "unheard"])),
    st.tuples(st.just("land"), st.sampled_from(NAMES[:2])),
)


@settings(max_examples=300)
@given(st.lists(moves, max_size=20))
@example([("file", {"b": 1}), ("task", None), ("file", {}), ("task", None), ("delete", "b"), ("file", {"b": 1})])
@example(
    [
        ("file", {}),
        ("task", None),
        ("end", "well"),
        ("end", "well"),
        ("task", None),
        ("delete", "b"),
        ("task", None),
        ("begins well", {"b": 0}),
    ]
)
@example([("file", {"b": 0}), ("file", {"a": 0, "b": 0}), ("task", None), ("end", "well"), ("task", None)])
def test_a_node_converges_to_its_lists_whenever_early_ends_and_lists_arrive(moves: list[tuple[str, Any]]) -> None:
    node, team = FollowedNode(), dict[str, int]()
    node.follow({"a": 0, "b": 0})
    node.task()
    node.settle()
    node.task()
    for move, given_ in moves:
        match move:
            case "file":
                node.follow(given_)
            case "begins well" | "begins unheard" | "begins unknown":
                node.follow(given_, begins=move.removeprefix("begins "))
            case "begins lost":
                node.follow(given_, begins="well", is_lost=True)
            case "team":
                team = given_
                node.list("team", team)
            case "delete":
                node.untaken.put("delete", ({"name": given_},))
            case "task":
                node.task()
            case "end":
                node.end(given_)
            case _:
                node.land(f"default/{given_}")
    node.follow(node.files)  # the agent sends a lost list again
    node.task()
    for key in list(node.flying):
        node.land(key)
    node.settle()
    assert set(node.pods) == {f"default/{name}" for name in {*node.files, *team}}


def test_a_pod_is_ended_early_only_if_its_end_is_certain() -> None:
    node = FollowedNode()
    node.follow({"a": 0, "b": 0})
    node.task()
    pod = PodRef(name="a", uid="a0")

    def ends(number: int = 1, boot: int = BOOT, pod: PodRef = pod, source: str = "file") -> bool:
        return bool(node.published.answer("ends_without", source, boot, number, pod))

    assert not ends()  # it is being applied
    node.settle()
    node.task()
    assert ends()
    assert not ends(number=2)  # another list is in flight, or was refused
    assert not ends(boot=8)
    assert not ends(source="team")
    assert not ends(pod=PodRef(name="a", uid="a1"))
    node.state.deletions["default/a"] = DeleteFromNode(name="a")
    node.task()
    assert not ends()
    node.state.deletions.clear()
    node.settle()
    node.list("team", {"a": 0})
    node.task()
    assert not ends()  # the other list has it too
    with pytest.raises(KeyError):
        node.published.answer("ends_with")


def test_a_pod_is_begun_early_only_if_its_beginning_is_certain() -> None:
    node = FollowedNode()
    node.follow({"a": 0})
    node.task()

    def begins(*names: str, number: int = 1, boot: int = BOOT, more: str = "") -> list[str]:
        documents = [{**listed(name, 0), "status": {"message": more}} for name in names]
        last = SyncPods(source="file", boot=boot, number=number, pods=(listed("a", 0), *documents))
        given = sum(map(document_size, last.pods))
        return [pod.name for pod, _ in node.published.answer("begins_with", last, given, documents, node.now)]

    assert begins("b") == ["b"]
    assert begins("b", "c") == ["b", "c"]
    assert begins("b", number=2) == []  # another list is in flight, or was refused
    assert begins("b", boot=8) == []
    assert begins("b", more="x" * LIST_LIMIT) == []  # the list will be refused
    assert begins("b", more="é" * (LIST_LIMIT // 6)) == []  # so it will be: the node counts each of these as six bytes
    assert begins("a", "b") == []
    node.list("team", {"b": 0})
    node.task()
    assert begins("b") == []  # another list has it
    node.list("team", {})
    node.task()
    assert begins("b") == []  # it is ending


def test_no_step_is_left_for_a_pod_that_has_begun_and_one_for_each_that_may_have() -> None:
    node = FollowedNode()
    node.follow({"a": 0})
    node.task()
    node.settle()
    node.task()
    node.follow({"a": 0, "b": 0}, begins="well")
    node.task()
    assert (node.busy, node.early) == ({}, 1)
    assert [each.message for each in node.state.events][-1] == "pod default/b (uid b0) of file"
    assert node.published.answer("ends_without", "file", BOOT, 2, PodRef(name="b", uid="b0"))
    node.follow({"a": 0, "b": 0, "c": 0}, begins="unheard")
    node.task()
    assert [action.key for action in node.busy.values()] == ["default/c"]


def test_a_pod_that_began_while_a_step_ended_another_one_of_its_name_ends_too() -> None:
    """The node learns of it by the list; the step's result says nothing of it."""
    node = FollowedNode()
    node.list("team", {"a": 0})
    node.task()
    node.settle()
    node.list("team", {})
    node.task()
    (action,) = node.busy.values()
    assert action.name == NodeStepName.DELETE_POD
    node.list("file", {"a": 1}, boot=BOOT, number=1, begun=[{"name": "a", "uid": "a1", "digest": "d"}])
    node.list("file", {}, boot=BOOT, number=2)
    node.task()
    node.end("well")
    node.pods["default/a"] = "a1", "i:1"
    node.settle()
    assert node.pods == {}


def test_a_pod_that_began_for_a_list_without_room_is_what_the_list_before_says() -> None:
    """The other lists may have grown since the agent began it. Unknown to the node, it would run for ever."""
    node = FollowedNode()
    node.list("file", {"a": 0}, boot=BOOT, number=1)
    node.task()
    node.settle()
    large = {**listed("b", 0), "status": {"message": "x" * LIST_LIMIT}}
    begun = [{"name": "b", "uid": "b0", "digest": "d"}]
    node.pods["default/b"] = "b0", "i:0"
    node.untaken.put("sync_pods", ({"source": "file", "boot": BOOT, "number": 2, "pods": [large], "begun": begun},))
    node.task()
    node.settle()
    assert node.pods.keys() == {"default/a"}


@pytest.mark.parametrize("wrong", [{"name": "a"}, {"name": "", "uid": "u"}, {"name": "a/b", "uid": "u"}])
def test_a_list_with_nonsense_for_pods_that_have_begun_changes_nothing(wrong: dict[str, Any]) -> None:
    node = FollowedNode()
    for begun in ([wrong], [{"name": f"p{number}", "uid": "u"} for number in range(BEGUN_LIMIT + 1)]):
        node.list("team", {"c": 0}, begun=begun)
        node.task()
    assert not node.state.governed
    assert not node.state.sources
    assert [each.message.partition(": ")[2][:6] for each in node.state.events] == ["begun[", "begun:"]
