"""The node's pure decisions: with any input in any order, the lists' state is reached, with each step once.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
Holds: No pod of a list outlives its entry.
"""

from __future__ import annotations

import json as jsons
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncpod.messages.node import (
    KNOWN_LIMIT,
    LIST_LIMIT,
    LISTED_LIMIT,
    MADE_LIMIT,
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeletePodWorkflows,
    NodeCondition,
    NodeStepName,
    PodWorkflowResult,
    document_size,
)
from syncpod.pod import admit_pod
from workflows.event_log import TEXT_LIMIT
from workflows.node import absorb, decide, report
from workflows.node.decide import Action
from workflows.node.state import Governed, NodeState, Source, Wanted, rank

START = datetime(2026, 11, 1, tzinfo=UTC)
SOURCES = ("crew", "team", "zone")
NAMES = ("a", "b", "c")

lists = st.tuples(
    st.sampled_from(SOURCES),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=3),
)
"""A source's list: by name, which of three pods of that name."""
outcomes = st.sampled_from(["well", "well", "refused", "failed", "unheard", "late"])


def document(name: str, image: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": f"i:{image}"}]}}


class Node:
    """A node's state, its running steps, and the messages to the pods' workflows."""

    def __init__(self) -> None:
        self.state = NodeState(name="n", since=START)
        self.now = START
        self.busy: dict[str, Action] = {}
        self.pods: dict[str, tuple[str, str]] = {}
        """By key, the UID and the image of the pod in its workflow."""

    def say(self, source: str, pods: dict[str, int]) -> None:
        payload = {"source": source, "pods": [document(name, image) for name, image in pods.items()]}
        absorb.absorb(self.state, "sync_pods", (payload,), self.now)

    def recall_into(self, there: dict[str, tuple[str, str]]) -> None:
        """Tell a workflow that was begun anew about the pods that existed because of `file`."""
        pods = [{"name": key.partition("/")[2], "uid": uid, "source": "crew"} for key, (uid, _) in there.items()]
        absorb.absorb(self.state, "recall_pods", ({"pods": pods},), self.now)

    def begin(self) -> None:
        """Begin all steps that may run now; assert that no pod has two at a time."""
        plan = decide.plan(self.state, self.now, self.busy, room=decide.AT_ONCE - len(self.busy))
        for action in plan.actions:
            assert action.key not in self.busy
            decide.record_step(self.state, action)
            self.busy[action.key] = action

    def end(self, outcome: str) -> None:
        """End the step that began first. It takes effect even if its answer is lost."""
        if not self.busy or outcome == "late":
            return
        action = self.busy.pop(next(iter(self.busy)))
        if outcome == "refused" and action.name == NodeStepName.APPLY_POD:
            decide.finished(self.state, action, PodWorkflowResult(refused="no"), self.now)
            return
        result = PodWorkflowResult()
        if outcome != "unheard":
            result = self.carry_out(action)
        if outcome in ("failed", "unheard"):
            decide.failed(self.state, action, "Timeout", "no answer", self.now)
        else:
            decide.finished(self.state, action, result, self.now)

    def carry_out(self, action: Action) -> PodWorkflowResult:
        """Apply the step's effect as the pods' workflows do; a pod with another UID is not touched."""
        there, _ = self.pods.get(action.key, ("", ""))
        request = action.input
        if isinstance(request, ApplyPodWorkflow):
            uid = request.pod["metadata"]["uid"]
            if there not in ("", uid, *request.replaces):
                return PodWorkflowResult(refused="metadata.uid: is another pod's")
            self.pods[action.key] = uid, request.pod["spec"]["containers"][0]["image"]
        elif there in request.uids or (there and not request.uids):
            del self.pods[action.key]
        elif there:
            return PodWorkflowResult(refused="uid: is another")
        return PodWorkflowResult(absent=not there)

    def settle(self) -> None:
        """Let time pass and every step succeed until there is nothing left to do."""
        for _ in range(100):
            self.now += timedelta(seconds=301)
            decide.tidy(self.state, self.now)
            self.begin()
            if not self.busy:
                return
            while self.busy:
                self.end("well")
        raise AssertionError("it does not settle")

    def reload(self) -> None:
        """Continue as new, without running steps."""
        if not self.busy:
            snapshot = self.state.model_dump(mode="json", exclude_defaults=True)
            self.state = NodeState.model_validate_json(NodeState.model_validate(snapshot).model_dump_json())


@settings(max_examples=150)
@given(st.lists(st.tuples(lists, outcomes, st.booleans()), max_size=12))
def test_a_node_converges_to_its_lists_under_any_sequence_of_events(
    steps: list[tuple[tuple[str, dict[str, int]], str, bool]],
) -> None:
    node, said = Node(), dict[str, dict[str, int]]()
    for (source, pods), outcome, again in steps:
        node.say(source, pods)
        said[source] = pods
        node.begin()
        node.end(outcome)
        if again:
            node.reload()
    node.settle()
    wanted = {f"default/{name}" for pods in said.values() for name in pods}
    assert set(node.pods) == wanted
    for key, (_, image) in node.pods.items():
        name = key.removeprefix("default/")
        assert image in {f"i:{pods[name]}" for pods in said.values() if name in pods}
        winner = node.state.winner(key)
        assert image == f"i:{said[winner][name]}"
    assert all(each.state == "applied" for each in report.desired(node.state, node.now))
    assert decide.plan(node.state, node.now, ()).actions == ()
    # Documents that the pods' workflows have are not kept a second time.
    kept = [each for source in node.state.sources.values() for each in source.pods.values() if each.document]
    assert len(kept) == sum(len(node.state.candidates(key)) - 1 for key in wanted)


@given(st.lists(st.sampled_from([*SOURCES, "api"]), min_size=1, unique=True))
def test_the_manifest_directory_has_precedence_and_single_pods_come_last(sources: list[str]) -> None:
    ordered = sorted(sources, key=rank)
    assert "crew" not in ordered or ordered[0] == "crew"
    assert "api" not in ordered or ordered[-1] == "api"


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["source", "pods", "pod", "metadata", "name", "namespace", "uid", "boot", "state", "gone", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_a_signal_that_does_not_exist_is_rejected_and_not_taken_for_another() -> None:
    state = NodeState(name="n", since=START)
    absorb.absorb(state, "pause_node", ({"boot": 7},), START)
    (event,) = state.events
    assert (event.reason, state.status.boot) == ("Rejected", 0)
    assert "pause_node: no such signal or update" in event.message


@settings(max_examples=200)
@given(
    st.sampled_from(["sync_pods", "static_pods", "recall_pods", "apply", "delete", "node_status", "cordon"]),
    st.lists(json, max_size=2).map(tuple),
)
def test_no_input_raises_and_invalid_input_changes_nothing(name: str, args: tuple[Any, ...]) -> None:
    state = NodeState(name="n", since=START)
    absorb.absorb(state, name, args, START)
    if any(each.reason == "Rejected" for each in state.events) and name not in ("sync_pods", "static_pods"):
        assert (state.sources, state.deletions, state.unschedulable) == ({}, {}, False)
    decide.plan(state, START, ())
    report.view(state, START)
    report.details(state, START)


def test_a_pods_back_off_doubles_and_is_dropped_with_the_pod() -> None:
    node = Node()
    node.say("crew", {"a": 1})
    waits = []
    for _ in range(7):
        node.begin()
        node.end("refused")
        plan = decide.plan(node.state, node.now, ())
        assert plan.retry_at is not None
        waits.append(int((plan.retry_at - node.now).total_seconds()))
        node.now = plan.retry_at
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    node.begin()
    (action,) = node.busy.values()
    decide.failed(node.state, action, "Refused", "no " * 10_000, node.now)
    assert len(report.desired(node.state, node.now)[0].message) == TEXT_LIMIT
    node.say("crew", {})
    decide.tidy(node.state, node.now)
    assert not node.state.backoff.entries


names_and_images = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=3)


@settings(max_examples=60)
@given(names_and_images, names_and_images, st.booleans(), st.booleans())
def test_a_restarted_node_workflow_reconciles_recalled_pods_with_its_list(
    before: dict[str, int], after: dict[str, int], told_first: bool, answered: bool
) -> None:
    node = Node()
    node.say("crew", before)
    node.settle()
    there = dict(node.pods)
    node.state, node.busy = NodeState(name="n", since=node.now), {}
    if told_first:
        node.say("crew", after)
        if answered:  # a changed pod is refused while the previous pod has its name
            node.begin()
            while node.busy:
                node.end("well")
    node.recall_into(there)
    node.reload()
    if not told_first:
        # Until its source has reported, none of its pods end, and they are shown as the source's.
        assert decide.plan(node.state, node.now, ()).actions == ()
        assert {(each.source, each.state) for each in report.desired(node.state, node.now)} <= {("crew", "applied")}
        node.say("team", {})
        assert decide.plan(node.state, node.now, ()).actions == ()
        node.say("crew", after)
    node.settle()
    assert {key: image for key, (_, image) in node.pods.items()} == {
        f"default/{name}": f"i:{image}" for name, image in after.items()
    }
    assert set(node.state.governed) == set(node.pods)


def test_recalled_pods_are_limited_in_number_and_do_not_override_known_ones() -> None:
    node = Node()
    node.say("crew", {"a": 1})
    node.settle()
    before = node.state.model_copy(deep=True)
    for pods in (
        [{"name": "a", "uid": "stale", "source": "crew"}],
        [{"name": "x", "uid": "u", "source": "api"}, {"name": "x/y", "uid": "u", "source": "crew"}, {"name": "z"}],
        [{"name": f"p{number}", "uid": "u", "source": "crew"} for number in range(MADE_LIMIT + 1)],
    ):
        absorb.absorb(node.state, "recall_pods", ({"pods": pods},), node.now)
    assert node.state.governed == before.governed
    assert [each.reason for each in node.state.events if each not in before.events] == ["Rejected"]


def test_a_list_with_too_many_pods_is_refused() -> None:
    pods = [document(f"p{number}", 1) for number in range(LISTED_LIMIT + 1)]
    assert not absorb.too_many("sync_pods", ({"pods": pods[1:]},))
    assert "must be no more than 4000, there are 4001" in absorb.too_many("sync_pods", ({"pods": pods},))
    nonsense: tuple[tuple[Any, ...], ...] = ((), (7,), ({"pods": 3},), ({}, {}))
    for args in nonsense:
        assert not absorb.too_many("sync_pods", args)


def test_a_repeated_list_restores_its_pods_without_undoing_a_newer_list() -> None:
    node = Node()
    node.say("team", {"a": 1, "b": 1})
    node.say("crew", {"c": 1})
    node.settle()
    del node.pods["default/a"]  # by another client
    node.say("team", {"a": 1, "b": 1})
    waiting = {each.name: each.state for each in report.desired(node.state, node.now)}
    assert waiting == {"a": "pending", "b": "pending", "c": "applied"}
    actions = decide.plan(node.state, node.now, ()).actions
    assert [(each.key, each.input.unless_there) for each in actions if isinstance(each.input, ApplyPodWorkflow)] == [
        ("default/a", True),
        ("default/b", True),
    ]
    node.begin()
    node.say("team", {"a": 1, "b": 1})
    node.end("failed")
    node.end("well")
    assert {each.key for each in decide.plan(node.state, node.now, ()).actions} == {"default/b"}
    node.reload()
    node.say("team", {"b": 2})
    node.settle()
    assert {key: image for key, (_, image) in node.pods.items()} == {"default/b": "i:2", "default/c": "i:1"}
    assert all(each.document is None for source in node.state.sources.values() for each in source.pods.values())


def test_waiting_pods_are_not_measured_again_for_each_new_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    node, written, dumps = Node(), [0], jsons.dumps

    def counted(*args: Any, **more: Any) -> str:
        written[0] += 1
        return dumps(*args, **more)

    monkeypatch.setattr(jsons, "dumps", counted)
    for number in range(200):
        absorb.absorb(node.state, "apply", ({"pod": document(f"p{number}", 1)},), node.now)
    assert len(node.state.sources["api"].pods) == 200
    assert written[0] < 3 * 200
    wanted = node.state.sources["api"].pods["default/p7"]
    assert wanted.size == document_size(document("p7", 1))
    assert Wanted.model_validate(wanted.model_dump(mode="json")) == wanted


def test_a_pod_back_on_its_list_does_not_wait_for_its_cancelled_deletion() -> None:
    node = Node()
    node.say("team", {"a": 1})
    node.settle()
    node.say("team", {})
    node.begin()
    node.end("failed")
    assert decide.plan(node.state, node.now, ()).retry_at is not None
    node.say("team", {"a": 1})
    (action,) = decide.plan(node.state, node.now, ()).actions
    assert action.name == NodeStepName.APPLY_POD


def test_pods_that_end_at_the_same_time_are_told_by_one_step_and_all_others_alone() -> None:
    node = Node()
    node.say("crew", {"a": 1, "b": 1})
    node.say("team", {"c": 1})
    node.settle()
    node.say("crew", {})
    node.say("zone", {"d": 1})
    absorb.absorb(node.state, "delete", ({"name": "c"},), node.now)
    actions = decide.plan(node.state, node.now, ()).actions
    single, together = decide.steps(actions)
    assert (single.name, [each.key for each in single.actions]) == (NodeStepName.APPLY_POD, ["default/d"])
    assert together.name == NodeStepName.DELETE_PODS
    assert together.input == DeletePodWorkflows(pods=tuple(each.input for each in together.actions))
    assert together.summary.startswith("delete 2 pods: no longer in crew: default/a, default/b")
    alone = decide.steps(actions, {"default/b"})
    assert [each.name for each in alone] == [NodeStepName.DELETE_POD, NodeStepName.DELETE_POD, NodeStepName.APPLY_POD]


def test_pods_that_start_at_the_same_time_are_told_by_one_step_and_those_that_replace_one_alone() -> None:
    node = Node()
    node.say("team", {"a": 1, "e": 1})
    node.settle()
    node.say("team", {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1})
    actions = decide.plan(node.state, node.now, ()).actions
    *single, together = decide.steps(actions, {"default/d"})
    assert [(step.name, [each.key for each in step.actions]) for step in single] == [
        (NodeStepName.APPLY_POD, ["default/a"]),
        (NodeStepName.APPLY_POD, ["default/d"]),
        (NodeStepName.APPLY_POD, ["default/e"]),  # asked whether it is still there, as its list came again
    ]
    assert together.name == NodeStepName.APPLY_PODS
    assert together.input == ApplyPodWorkflows(pods=tuple(each.input for each in together.actions))
    assert together.summary == "apply 2 pods: of team: new: default/b, default/c"


def test_no_step_for_several_pods_has_more_than_its_share_of_bytes() -> None:
    """Each payload limit is a multiple of that share; a larger pod gets a step of its own."""
    node = Node()
    sizes = {"a": 90_000, "b": 90_000, "c": 90_000, "d": 300_000}
    pods = [{"metadata": {"name": name, "labels": {"long": "x" * size}}} for name, size in sizes.items()]
    absorb.absorb(node.state, "sync_pods", ({"source": "crew", "pods": pods},), node.now)
    steps = decide.steps(decide.plan(node.state, node.now, ()).actions)
    assert sorted([each.key for each in step.actions] for step in steps) == [
        ["default/a", "default/b"],
        ["default/c"],
        ["default/d"],
    ]


def test_a_refused_single_pod_is_retried_only_if_refused_for_a_cordon() -> None:
    node = Node()
    absorb.absorb(node.state, "apply", ({"pod": document("a", 1)},), node.now)
    (action,) = decide.plan(node.state, node.now, ()).actions
    cordoned = PodWorkflowResult(refused="no new pod", cordoned=True)
    decide.finished(node.state, action, cordoned, node.now)
    assert decide.plan(node.state, node.now, ()).retry_at is not None
    absorb.absorb(node.state, "apply", ({"pod": document("a", 2)},), node.now)
    decide.finished(node.state, action, PodWorkflowResult(refused="spec: cannot change"), node.now)
    (action,) = decide.plan(node.state, node.now, ()).actions  # that belonged to the previous pod
    decide.finished(node.state, action, PodWorkflowResult(refused="spec: cannot change"), node.now)
    assert decide.plan(node.state, node.now, ()) == decide.Plan((), None)
    assert report.desired(node.state, node.now) == []
    assert node.state.events[-1].message == "pod default/a is not applied: spec: cannot change"


def test_the_state_of_all_lists_fits_into_a_payload() -> None:
    node = Node()

    def say(source: str, count: int, more: str = "") -> bool:
        pods = [{"metadata": {"name": f"{source}-{number}", "note": more}} for number in range(count)]
        absorb.absorb(node.state, "sync_pods", ({"source": source, "pods": pods},), node.now)
        known = node.state.sources.get(source, Source()).pods
        for key, wanted in known.items():
            node.state.governed[key] = Governed(uids=(wanted.uid,), source=source, digest=wanted.digest)
        return len(known) == count

    assert say("team", LISTED_LIMIT)
    node.say("team", {"a": 1})
    assert say("team", LISTED_LIMIT), "it makes room for itself"
    node.state.forget_documents()
    assert not say("zone", LISTED_LIMIT)
    assert say("zone", 1500)
    node.state.forget_documents()
    assert not say("crew", 1, "x" * 300_000)
    assert say("crew", 1, "x" * 200_000)
    snapshot = node.state.model_dump(mode="json", exclude_defaults=True)
    assert len(jsons.dumps(snapshot)) < KNOWN_LIMIT
    node.say("team", {})
    assert say("crew", 1, "x" * 300_000)


def test_the_list_size_limit_covers_documents_and_per_pod_state() -> None:
    node = Node()

    def say(count: int, length: int) -> bool:
        pods = [{"metadata": {"name": f"p{number}", "note": "x" * length}} for number in range(count)]
        absorb.absorb(node.state, "sync_pods", ({"source": "team", "pods": pods},), node.now)
        return len(node.state.sources.get("team", Source()).pods) == count

    assert say(2300, 360)
    assert say(1, LIST_LIMIT - 100)
    assert not say(2, LIST_LIMIT // 2)
    assert not say(3000, 360)


def test_an_empty_list_frees_its_room_once_its_pods_have_ended() -> None:
    node = Node()
    for number in range(absorb.SOURCES_LIMIT):
        node.say(f"s{number}", {f"p{number}": 1})
    node.settle()
    node.say("one more", {"x": 1})
    assert "one more" not in node.state.sources
    node.say("s3", {})
    node.say("one more", {"x": 1})
    assert "one more" not in node.state.sources  # its pod is not ended yet
    node.settle()
    node.say("one more", {"x": 1})
    node.settle()
    assert len(node.state.sources) == absorb.SOURCES_LIMIT
    assert "s3" not in node.state.sources
    assert "default/x" in node.pods


def test_a_pod_made_by_a_list_records_its_uid_so_that_a_copy_is_not_mistaken_for_it() -> None:
    node = Node()
    node.say("team", {"a": 0})
    (action,) = decide.plan(node.state, START, ()).actions
    assert isinstance(action.input, ApplyPodWorkflow)
    meta = action.input.pod["metadata"]
    assert meta["uid"]
    assert meta["annotations"]["kubernetes.io/config.source"] == "team"
    assert meta["annotations"].get("kubernetes.io/config.hash") == meta["uid"]


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"metadata": {"creationTimestamp": None, "managedFields": []}, "status": {}},
        {"metadata": {"creationTimestamp": "2026-11-01T00:00:00Z"}},
        {"metadata": {"resourceVersion": "7"}},
        {"metadata": {"managedFields": [{"manager": "kubectl"}]}},
        {"status": {"phase": "Running"}},
    ],
)
def test_a_pod_made_by_a_list_records_no_foreign_uid(marks: dict[str, Any]) -> None:
    """A UID is dropped, as in the output of `kubectl get -o json`; another node's hash does not count on this one."""
    node = Node()
    meta = {"name": "a", "uid": "of-the-list", "annotations": {"kubernetes.io/config.hash": "of-another-node"}}
    pod = {**document("a", 0), **marks, "metadata": {**meta, **marks.get("metadata", {})}}
    absorb.absorb(node.state, "sync_pods", ({"source": "team", "pods": [pod]},), node.now)
    (action,) = decide.plan(node.state, START, ()).actions
    assert isinstance(action.input, ApplyPodWorkflow)
    taken = admit_pod({"apiVersion": "v1", "kind": "Pod", **action.input.pod}).metadata
    assert taken.annotations.get("kubernetes.io/config.hash", "") == taken.uid


def test_the_page_of_a_node_names_its_pods_and_says_why_it_is_not_ready() -> None:
    down = NodeCondition(type="Ready", status="False", reason="KubeletNotReady", message="the runtime | is down")
    fine = NodeCondition(type="MemoryPressure", status="False", reason="KubeletHasSufficientMemory", message="enough")
    state = NodeState(name="n", since=START)
    state.status = state.status.model_copy(update={"conditions": (down, fine)})
    state.sources = {"crew": Source(pods={f"default/p{number}": Wanted() for number in range(12)})}
    page = report.details(state, START)
    assert "- Ready: False (KubeletNotReady): the runtime | is down\n" in page
    assert "- MemoryPressure: False (KubeletHasSufficientMemory)\n" in page
    assert "- source crew: 12 pods: default/p0, default/p1," in page and "default/p9, …" in page


def test_each_start_of_the_nodes_worker_is_told_in_plain_words() -> None:
    state = NodeState(name="n")
    for boot in (1795646478, 1795646479):
        absorb.absorb(state, "node_status", ({"boot": boot},), START)
    (told,) = [event for event in state.events if event.reason == "Starting"]
    assert (told.message, told.count) == ("the worker of node n has started", 2)


def test_the_same_document_is_another_pod_on_another_node_and_the_same_one_on_the_same() -> None:
    """A fleet may move a pod; its remains on the old node must not be mistaken for the new pod."""
    uids = []
    for name in ("n", "n", "m"):
        node = Node()
        node.state.name = name
        node.say("fleet", {"web": 1})
        uids.append(node.state.sources["fleet"].pods["default/web"].uid)
    assert uids[0] == uids[1] != uids[2]
