"""Pods that an API server binds to the node are run, reported, ended and removed, despite failures.

Holds: Before the first whole list of a Kubernetes cluster, none of its pods ends.
Holds: A pod of a Kubernetes cluster is removed there only once nothing of it runs here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes import bound_pods
from syncpod.agent.kubernetes import registration as registrations
from syncpod.agent.kubernetes.bound_pods import BoundPods
from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.given_objects import GivenObjects
from syncpod.agent.kubernetes.mirror_pods import MirrorPods
from syncpod.agent.kubernetes.node_labels import ClusterLabels
from syncpod.agent.kubernetes.readiness_gates import ReadinessGates
from syncpod.agent.kubernetes.registration import Registration
from syncpod.agent.kubernetes.runtime_classes import RuntimeClasses
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.sources.desired_pods import DesiredPods
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.node import Machine
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.lifecycle.orphans import Standing
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import (
    KUBERNETES_SOURCE,
    ApplyPodWorkflow,
    DeletePodWorkflow,
    NodeCondition,
    NodeStatus,
    PodWorkflowResult,
)
from syncpod.messages.signals import SetCondition
from syncpod.node.labels import is_asked_for
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import ObjectMeta, Pod
from tests.agent.node_endpoint import node_of
from tests.agent.published import Known
from tests.agent.waiting import until
from tests.kubernetes.api_server import (
    ApiServer,
    Fault,
    given,
    object_path,
    pod,
    pod_path,
)
from tests.kubernetes.storage_driver import claims


class State:
    """A state that a pod's workflow has published."""

    replacing = ()

    def __init__(self, uid: str, phase: str, conditions: tuple[dict[str, Any], ...] = ()) -> None:
        self.uid, self._phase, self._others = uid, phase, conditions

    def pod(self) -> dict[str, Any]:
        """The pod with its status."""
        ready = {"type": "Ready", "status": "True"}
        container = {
            "name": "c",
            "state": {"running" if self._phase == "Running" else "terminated": {"startedAt": "t"}},
        }
        status = {"phase": self._phase, "conditions": [*self._others, ready], "observedGeneration": 1}
        return {"status": {**status, "containerStatuses": [container]}}


class Node:
    """A node whose pods' workflows start and end at once, except for held ones."""

    def __init__(self, client: ApiClient, state: Path) -> None:
        self.told: list[str] = []
        self.there: dict[str, str] = {}
        self.held: set[str] = set()
        """Pods that do not end during the test."""
        self.known: list[ObjectMeta] = []
        self.failures: list[Exception] = []
        self.end_takes = 0.0
        """Seconds until an order to end reaches its pod's workflow."""
        self.unlisted: list[RPCError] = []
        """Errors with which lists of open workflows fail."""
        self.listed = 0
        self.reflector = Reflector(
            client, "/api/v1/pods", "Pod", params={"fieldSelector": "spec.nodeName=n1"}, chance=lambda: 0.0
        )
        self.desired = DesiredPods(
            "n1", KUBERNETES_SOURCE, self, self, lambda: [Known(each) for each in self.known], self._nothing
        )
        self.refusals: list[tuple[str, str]] = []
        self.statuses = StatusWriter(
            client,
            lambda: self.reflector.objects,
            lambda key, uid, reason, why: self.refusals.append((uid, reason)),
            self.reflector.lists,
        )
        self.deletions = Deletions(client, self, self._nothing, self.standing, self.statuses)
        self.mirrors = MirrorPods(client, "n1", lambda: "uid-of-n1", self.standing)
        store, news = ObjectStore(state, state / "memory"), self.reflector.news
        self.objects = GivenObjects(client, store, self._uses, news.set, claims(client, store))
        self.context = node_of(state)
        self.classes = RuntimeClasses(client, self.reflector.news.set)
        self.states: dict[str, State] = {}
        self.conditions: dict[str, dict[str, Any]] = {}
        """The conditions that others have set on the pods' workflows, by type."""
        self.gates = ReadinessGates(
            lambda: self.reflector.objects, lambda _, name: self.states.get(name), self.set_condition
        )
        self.pods = BoundPods(
            self.reflector,
            self.desired,
            self.deletions,
            self.statuses,
            self.mirrors,
            self.objects,
            self.classes,
            self.gates,
            ClusterLabels(client, self.context, lambda: None),
        )
        self.running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Follow the server."""
        runs: tuple[Callable[[], Awaitable[None]], ...]
        runs = (
            self.reflector.run,
            self.pods.run,
            self.statuses.run,
            self.mirrors.run,
            self.objects.run,
            self.gates.run,
            self.classes.run,
        )
        self.running = [asyncio.ensure_future(run()) for run in runs]

    async def stop(self) -> None:
        """Stop, as an ending worker does."""
        await cancel_all(self.running)

    # --- the workflows ------------------------------------------------------------------------------------------------

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        metadata = request.pod["metadata"]
        assert metadata["annotations"]["kubernetes.io/config.source"] == KUBERNETES_SOURCE
        self.told.append(f"apply {metadata['name']}/{metadata['uid']}")
        self.there[metadata["name"]] = metadata["uid"]
        self.publish(metadata["name"], "Running")
        return PodWorkflowResult(uid=metadata["uid"])

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        await asyncio.sleep(self.end_takes)
        if self.failures:
            raise self.failures.pop()
        self.told.append(f"end {request.name}/{','.join(request.uids)} {request.grace_period_seconds}")
        if self.there.get(request.name) not in request.uids:
            return PodWorkflowResult(absent=True)
        if request.name not in self.held:
            self.finish(request.name)
        return PodWorkflowResult(uid=request.uids[0])

    def finish(self, name: str) -> None:
        """Let a pod be finished, so that none of its containers runs."""
        uid = self.there.pop(name)
        self.statuses.gone(ObjectKey("default", name), State(uid, "Succeeded"))
        self.desired.gone(Known(_meta(name, uid)))
        self.deletions.gone(uid)

    def publish(self, name: str, phase: str) -> None:
        """Let a pod's workflow publish its state."""
        uid = self.there[name]
        self.desired.published(Known(_meta(name, uid)))
        state = State(uid, phase, tuple(self.conditions.values()))
        self.statuses.published(ObjectKey("default", name), state)
        self.states[name] = state
        self.gates.changed(ObjectKey("default", name))

    async def set_condition(self, ref: PodRef, condition: SetCondition) -> bool:
        if self.failures:
            raise self.failures.pop()
        self.told.append(
            f"condition {ref.name}/{ref.uid} {condition.type}={condition.status} {condition.reason}".strip()
        )
        self.conditions[condition.type] = condition.model_dump()
        self.publish(ref.name, "Running")
        return True

    async def open(self) -> dict[str, str]:
        self.listed += 1
        if self.unlisted:
            raise self.unlisted.pop()
        return {pod_workflow_id("default", name): uid for name, uid in self.there.items()}

    async def standing(self, ref: PodRef) -> Standing:
        return "open" if self.there.get(ref.name) == ref.uid else "closed"

    async def _uses(self) -> tuple[ObjectRef, ...]:
        return ()

    async def _nothing(self) -> None:
        """Require nothing."""


def _meta(name: str, uid: str) -> ObjectMeta:
    annotations = {"kubernetes.io/config.source": KUBERNETES_SOURCE}
    return ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations)


@pytest_asyncio.fixture
async def node(client: ApiClient, tmp_path: Path) -> AsyncIterator[Node]:
    """A node that follows the server once it is started."""
    made = Node(client, tmp_path)
    yield made
    await made.stop()


def status(api: ApiServer, name: str) -> dict[str, Any]:
    """The status of a pod on the server."""
    found: dict[str, Any] = api.objects[pod_path(name)].get("status", {})
    return found


async def test_a_pod_is_begun_and_its_status_written_once(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    assert status(api, "web")["observedGeneration"] == 1
    # Echoes of our own writes and foreign changes that do not concern the node give no order.
    for number in range(100):
        known = api.objects[pod_path("web")]
        await api.put(pod_path("web"), {**known, "metadata": {**known["metadata"], "finalizers": [f"f{number}"]}})
    await until(lambda: node.reflector.objects[ObjectKey("default", "web")]["metadata"].get("finalizers") == ["f99"])
    assert node.told == ["apply web/uid-of-web"]
    assert api.calls["PATCH status"] <= 3


async def test_the_labels_that_the_cluster_gives_the_node_are_known_before_a_pod_begins_that_asks_for_them(
    api: ApiServer, node: Node
) -> None:
    labels = {"disk": "ssd"}
    await api.put(
        "/api/v1/nodes/n1", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}
    )
    asking = Pod.model_validate({"spec": {"nodeSelector": labels}})
    assert not is_asked_for(asking, node.context)
    await api.put(pod_path("plain"), pod("plain"))
    node.start()
    await until(lambda: status(api, "plain").get("phase") == "Running")
    assert node.context.labels_of_cluster == {}
    api.faults.append(Fault("GET", "/nodes/n1", "500"))
    await api.put(pod_path("unlucky"), pod("unlucky", spec={"nodeSelector": labels}))
    await until(lambda: status(api, "unlucky").get("phase") == "Running")
    assert not is_asked_for(asking, node.context)
    await api.put(pod_path("asking"), pod("asking", spec={"nodeSelector": labels}))
    await until(lambda: status(api, "asking").get("phase") == "Running")
    assert is_asked_for(asking, node.context)


async def test_before_the_first_whole_list_no_pod_ends(api: ApiServer, node: Node) -> None:
    node.there["old"] = "u"
    node.known.append(_meta("old", "u"))
    api.faults.extend([Fault("GET", "/pods", "cut"), Fault("GET", "/pods", "500"), Fault("GET", "/pods", "html")])
    node.start()
    await until(lambda: api.calls["GET pods"] == 3)
    assert not node.told
    await until(lambda: node.told == ["end old/u None"])


async def test_a_deletion_ends_the_pod_and_then_removes_it(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.held.add("web")
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    await api.delete_pod("web", 30)
    await until(lambda: "end web/uid-of-web 30" in node.told)
    await api.delete_pod("web", 1)  # a second deletion shortens it
    await until(lambda: "end web/uid-of-web 1" in node.told)
    assert pod_path("web") in api.objects
    node.finish("web")
    await until(lambda: pod_path("web") not in api.objects)
    assert api.calls["DELETE web"] == 1
    assert [each for each in node.told if each.startswith("apply")] == ["apply web/uid-of-web"]


async def test_deletions_that_were_missed_are_obeyed_before_anything_new_begins(api: ApiServer, node: Node) -> None:
    for name in ("new", "old"):
        await api.put(pod_path(name), pod(name))
    await api.delete_pod("old", 30)
    node.there["old"] = "uid-of-old"
    node.held.add("old")
    node.end_takes = 0.2
    node.start()
    await until(lambda: len(node.told) == 2)
    assert node.told == ["end old/uid-of-old 30", "apply new/uid-of-new"]


async def test_a_deletion_whose_steps_fail_is_carried_through(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    node.failures.append(ApplicationError("it has not answered"))
    api.faults.extend([Fault("PATCH", "web", "500"), Fault("DELETE", "web", "500"), Fault("DELETE", "web", "429")])
    await api.delete_pod("web", 0)
    await until(lambda: pod_path("web") not in api.objects)


async def test_a_pod_that_was_deleted_before_it_began_is_only_removed(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    await api.delete_pod("web", 30)
    node.start()
    await until(lambda: pod_path("web") not in api.objects)
    assert node.told == ["end web/uid-of-web 30"]


async def test_a_forced_deletion_ends_what_is_left_and_another_uid_is_another_pod(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: "web" in node.there)
    await api.remove(pod_path("web"))
    await until(lambda: "end web/uid-of-web None" in node.told)
    await api.put(pod_path("web"), pod("web", "u2"))
    await until(lambda: node.there.get("web") == "u2")
    await until(lambda: status(api, "web").get("phase") == "Running")


@pytest.mark.parametrize("successor", [False, True])
async def test_nothing_is_kept_of_a_pod_that_the_server_forgot_before_its_end(
    api: ApiServer, node: Node, *, successor: bool
) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.held.add("web")
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    await api.remove(pod_path("web"))
    await until(lambda: "end web/uid-of-web None" in node.told)
    node.publish("web", "Running")
    if successor:
        await api.put(pod_path("web"), pod("web", "u2"))
        await until(lambda: len(node.reflector.objects) == 1)
    node.statuses.gone(ObjectKey("default", "web"), State("uid-of-web", "Succeeded"))
    await until(lambda: not node.statuses._due)
    assert "uid-of-web" not in node.statuses._published
    if not successor:
        await until(lambda: not any(map(len, _kept(node.statuses))))


def _kept(statuses: StatusWriter) -> list[Any]:
    """Everything that a writer keeps for each pod."""
    return [value for value in vars(statuses).values() if isinstance(value, dict)]


async def test_a_pod_that_has_ended_is_not_begun_again(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("done"), pod("done", status={"phase": "Succeeded"}))
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: "web" in node.there)
    assert node.told == ["apply web/uid-of-web"]


async def test_a_pod_that_the_node_cannot_take_fails_with_the_field(api: ApiServer, node: Node) -> None:
    volumes = [{"name": "v", "nfs": {"server": "s", "path": "/"}}]
    await api.put(pod_path("web"), pod("web", spec={"volumes": volumes}))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Failed")
    assert status(api, "web")["reason"] == "UnsupportedByNode"
    assert "spec.volumes[0].nfs" in status(api, "web")["message"]
    await until(lambda: node.refusals == [("uid-of-web", "UnsupportedByNode")])
    assert not node.told


async def test_a_refusal_is_told_though_temporal_does_not_answer_at_first(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_pods, "_RETRY_SECONDS", 0.01)
    volumes = [{"name": "v", "nfs": {"server": "s", "path": "/"}}]
    await api.put(pod_path("bad"), pod("bad", spec={"volumes": volumes}))
    await api.put(pod_path("web"), pod("web"))
    node.unlisted.append(RPCError("away", RPCStatusCode.UNAVAILABLE, b""))
    node.start()
    await until(lambda: status(api, "bad").get("phase") == "Failed" and status(api, "web").get("phase") == "Running")


async def test_a_pod_begins_once_what_it_refers_to_is_known(api: ApiServer, node: Node) -> None:
    keys = ObjectRef("Secret", "default", "keys", origin="cluster")
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    api.faults.extend([Fault("GET", "secrets", "403")] * 3)
    await api.put(pod_path("web"), pod("web", spec={"imagePullSecrets": [{"name": "keys"}]}))
    known = []
    apply = node.apply

    async def applied(request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        known.append(node.objects._store.version(keys))
        return await apply(request, require=require)

    node.apply = applied  # type: ignore[method-assign]
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    assert len(known) == 1 and known[0] is not None


async def test_a_pod_of_a_class_begins_with_its_handler_once_the_class_is_there(api: ApiServer, node: Node) -> None:
    handlers: dict[str, Any] = {}
    apply = node.apply

    async def applied(request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        handlers[request.pod["metadata"]["name"]] = request.pod["spec"].get("runtimeClassName")
        return await apply(request, require=require)

    node.apply = applied  # type: ignore[method-assign]
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    assert api.calls["GET runtimeclasses"] == 0
    await api.put(pod_path("safe"), pod("safe", spec={"runtimeClassName": "sandboxed"}))
    await until(lambda: bool(node.classes._missing))
    assert "safe" not in node.there
    path = "/apis/node.k8s.io/v1/runtimeclasses/sandboxed"
    await api.put(path, {"kind": "RuntimeClass", "metadata": {"name": "sandboxed"}, "handler": "runsc"})
    await until(lambda: status(api, "safe").get("phase") == "Running")
    assert handlers == {"web": None, "safe": "runsc"}
    await api.remove(path)
    await api.put(pod_path("safe"), {**api.objects[pod_path("safe")], "x": 1})
    await until(lambda: not node.classes._reflector.objects)
    assert [each for each in node.told if "safe" in each] == ["apply safe/uid-of-safe"]


async def test_many_pods_that_have_ended_cost_no_question_each(api: ApiServer, node: Node) -> None:
    for number in range(20):
        await api.put(pod_path(f"done{number}"), pod(f"done{number}", status={"phase": "Succeeded"}))
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    assert node.listed <= 3  # and once more when it is known what web refers to


async def test_a_pod_whose_workflow_was_ended_begins_again_though_the_cluster_is_never_quiet(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_pods, "FIND_ENDED_SECONDS", 0.2)
    for name in ("web", "busy"):
        await api.put(pod_path(name), pod(name))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running" == status(api, "busy").get("phase"))
    del node.there["web"]  # its workflow was terminated, which publishes nothing

    async def change() -> None:
        for number in range(1_000):
            known = api.objects[pod_path("busy")]
            labels = {"number": str(number)}
            await api.put(pod_path("busy"), {**known, "metadata": {**known["metadata"], "labels": labels}})
            await asyncio.sleep(0.02)

    changing = asyncio.create_task(change())
    try:
        await until(lambda: node.there.get("web") == "uid-of-web", patience=15)
    finally:
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)


async def test_a_pod_whose_status_is_forbidden_holds_up_no_other(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (1_000.0, 1_000.0))
    await api.put(pod_path("bad"), pod("bad"))
    api.faults.extend(Fault("PATCH", "bad", "403") for _ in range(50))
    node.start()
    await until(lambda: bool(node.statuses.trouble))
    await api.put(pod_path("good"), pod("good"))
    await until(lambda: status(api, "good").get("phase") == "Running", patience=15)


async def test_a_write_that_hangs_holds_up_no_other(api: ApiServer, node: Node) -> None:
    for name in ("slow", "good"):
        await api.put(pod_path(name), pod(name))
    node.start()
    await until(lambda: all(status(api, name).get("phase") == "Running" for name in ("slow", "good")))
    calls = api.calls["PATCH status"]
    api.faults.extend(Fault("PATCH", "slow", "hang") for _ in range(9))
    node.publish("slow", "Unknown")
    await until(lambda: api.calls["PATCH status"] > calls)
    node.publish("good", "Succeeded")
    await until(lambda: status(api, "good").get("phase") == "Succeeded")
    assert node.statuses.trouble == ""  # the other one is not given up yet


async def test_a_condition_that_somebody_writes_meanwhile_survives(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    gate = {"type": "example.com/gate", "status": "True"}
    known = api.objects[pod_path("web")]
    api.skipped.add("web")  # the node does not see it, so its next write meets a conflict
    await api.put(pod_path("web"), {**known, "status": {**known["status"], "conditions": [gate]}})
    node.publish("web", "Failed")
    await until(lambda: status(api, "web").get("phase") == "Failed")
    assert [each["type"] for each in status(api, "web")["conditions"]] == ["example.com/gate", "Ready"]


@pytest.mark.parametrize("seen", [True, False])
async def test_an_end_that_somebody_else_writes_of_a_pod_that_runs_is_put_right(
    api: ApiServer, node: Node, seen: bool
) -> None:
    """Also where the node's next write is how it learns of that. An end that the node has written stays."""
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    known = api.objects[pod_path("web")]
    if not seen:
        api.skipped.add("web")
    await api.put(pod_path("web"), {**known, "status": {**known["status"], "phase": "Failed"}})
    if not seen:
        node.conditions["news"] = {"type": "ContainersReady", "status": "True"}
        node.publish("web", "Running")
    await until(lambda: status(api, "web").get("phase") == "Running")
    node.publish("web", "Succeeded")
    await until(lambda: status(api, "web").get("phase") == "Succeeded")
    writes = api.calls["PATCH status"]
    node.publish("web", "Running")  # an older state, which a new worker may have read from its disk
    await until(lambda: api.calls["PATCH status"] > writes)
    assert status(api, "web")["phase"] == "Succeeded"


async def test_statuses_that_cannot_be_written_wait_and_the_newest_is_written(api: ApiServer, node: Node) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    api.faults.extend(Fault("PATCH", "web", "500") for _ in range(3))
    node.publish("web", "Unknown")
    await until(lambda: bool(node.statuses.trouble))
    node.publish("web", "Succeeded")
    await until(lambda: status(api, "web").get("phase") == "Succeeded" and not node.statuses.trouble)


async def test_a_database_that_was_restored_from_a_backup_has_its_statuses_written_again(
    api: ApiServer, node: Node
) -> None:
    await api.put(pod_path("web"), pod("web"))
    backup = api.backup()
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running")
    for number in range(20):
        await api.put(pod_path("other"), pod("other", metadata={"labels": {"turn": str(number)}}))
    api.restore(backup)
    await until(lambda: status(api, "web").get("phase") == "Running")
    assert node.told.count("apply web/uid-of-web") == 1


async def test_a_status_that_the_server_never_takes_holds_up_no_other(api: ApiServer, node: Node) -> None:
    for name in ("bad", "good"):
        await api.put(pod_path(name), pod(name))
    api.faults.append(Fault("PATCH", "bad", "422"))
    node.start()
    await until(lambda: status(api, "good").get("phase") == "Running")
    assert status(api, "bad")["phase"] in ("Pending", "Running")


async def test_a_field_that_the_server_does_not_know_is_not_written_again_and_again(api: ApiServer, node: Node) -> None:
    api.drops.add("observedGeneration")
    for name in ("web", "other"):
        await api.put(pod_path(name), pod(name))
    node.start()
    await until(lambda: status(api, "web").get("phase") == "Running" == status(api, "other").get("phase"))
    for _ in range(20):  # each is a reason to look again
        node.publish("web", "Running")
        await node.statuses.write(ObjectKey("default", "web"))
    assert api.calls["PATCH status"] <= 4
    # A foreign change of the status is still corrected.
    known = api.objects[pod_path("web")]
    await api.put(pod_path("web"), {**known, "status": {"phase": "Pending"}})
    await until(lambda: status(api, "web").get("phase") == "Running")


async def test_a_new_worker_goes_on_with_a_deletion(
    api: ApiServer, client: ApiClient, node: Node, tmp_path: Path
) -> None:
    await api.put(pod_path("web"), pod("web"))
    node.held.add("web")
    node.start()
    await until(lambda: "web" in node.there)
    await api.delete_pod("web", 30)
    await until(lambda: "end web/uid-of-web 30" in node.told)
    await node.stop()
    following = Node(client, tmp_path)
    following.there = {"web": "uid-of-web"}
    following.start()
    try:
        await until(lambda: pod_path("web") not in api.objects)
    finally:
        await following.stop()
    assert following.told == ["end web/uid-of-web 30"]


async def test_a_node_registers_renews_its_lease_and_comes_back_only_with_a_new_worker_when_it_is_deleted(
    api: ApiServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(registrations, "RENEW_SECONDS", 0.01)
    ready = [True]

    async def own_status() -> NodeStatus:
        return NodeStatus(
            conditions=(NodeCondition(type="Ready", status="True" if ready[0] else "False", reason="r"),),
            addresses=(),
        )

    seen: list[bool] = []

    class Events:
        def seen(self, node: Mapping[str, Any]) -> None:
            seen.append(bool(node.get("spec", {}).get("unschedulable")))

        def written(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
            """Do nothing: this test does not check reports."""

    async def runtime() -> Mapping[str, Any]:
        return {"images": [{"names": ["busybox:1"], "sizeBytes": 7}], "declaredFeatures": ["A"]}

    registration = Registration(client, "n1", own_status, Machine(), runtime=runtime, events=Events())
    api.drops.add("declaredFeatures")  # an older server does not know them, and is not queried again and again
    api.faults.append(Fault("POST", "nodes", "500"))
    running = [
        asyncio.ensure_future(run()) for run in (registration.run, registration.follow, registration.renew_lease)
    ]
    node, lease = "/api/v1/nodes/n1", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
    try:
        await until(lambda: lease in api.objects and api.calls["PUT n1"] > 3)
        assert api.objects[lease]["metadata"]["ownerReferences"][0]["uid"] == "uid-of-n1"
        ready[0] = False
        await until(lambda: api.objects[node]["status"]["conditions"][0]["status"] == "False")
        writes = api.calls["PATCH status"]
        renewals = api.calls["PUT n1"]
        await until(lambda: api.calls["PUT n1"] > renewals + 10)
        assert api.calls["PATCH status"] == writes  # a status that is the same is not written
        # A controller's stale status is corrected, though nothing has changed here.
        known = api.objects[node]
        unknown = [{**known["status"]["conditions"][0], "status": "Unknown"}]
        await api.put(
            node, {**known, "spec": {"unschedulable": True}, "status": {**known["status"], "conditions": unknown}}
        )
        await until(lambda: api.objects[node]["status"]["conditions"][0]["status"] == "False" and seen[-1])
        assert api.objects[node]["status"]["images"][0]["sizeBytes"] == 7
        # One that was deleted comes back with the next worker, and not before: nor does its lease.
        await api.remove(node)
        await api.remove(lease)
        asked = api.calls["GET n1"]
        await until(lambda: api.calls["GET n1"] > asked + 10)
        assert not {node, lease} & api.objects.keys()
        ready[0] = True
        await Registration(client, "n1", own_status, Machine(), runtime=runtime).register()
        await until(lambda: node in api.objects and lease in api.objects)
        # A database that was restored from a backup has an older Node, with a lower version.
        await until(lambda: api.watches > 0 and api.objects[node]["status"]["conditions"][0]["status"] == "True")
        writes = 0
        while writes != (writes := api.calls["PATCH status"]):
            renewals = api.calls["PUT n1"]
            await until(lambda renewals=renewals: api.calls["PUT n1"] > renewals + 10)  # type: ignore[misc]
        known = api.objects[node]
        old = {**known, "metadata": {**known["metadata"], "resourceVersion": "2"}}
        old["status"] = {**known["status"], "conditions": unknown}
        api.restore(({**api.objects, node: old}, 2))
        await until(lambda: api.objects[node]["status"]["conditions"][0]["status"] == "True")
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_condition_that_a_gate_names_reaches_the_pod_once_whatever_fails(api: ApiServer, node: Node) -> None:
    node.start()
    gate = {"readinessGates": [{"conditionType": "example.com/lb"}]}
    await api.put(pod_path("web"), pod("web", spec=gate))
    await until(lambda: "apply web/uid-of-web" in node.told)
    node.failures.append(RPCError("away", RPCStatusCode.UNAVAILABLE, b""))
    told = "condition web/uid-of-web example.com/lb=True Registered"
    lb = {"type": "example.com/lb", "status": "True", "reason": "Registered"}
    await api.put(pod_path("web"), pod("web", spec=gate, status={"phase": "Running", "conditions": [lb]}))
    await until(lambda: told in node.told)
    # It is also set on the node by another client; the cluster's value counts.
    node.conditions["example.com/lb"] = {"type": "example.com/lb", "status": "False"}
    node.publish("web", "Running")
    await until(lambda: node.told.count(told) == 2)
    other = {"type": "example.com/other", "status": "True"}
    await api.put(pod_path("web"), pod("web", spec=gate, status={"phase": "Running", "conditions": [lb, other]}))
    await api.put(pod_path("web"), pod("web", spec=gate, status={"phase": "Running", "conditions": [other]}))
    gone = "condition web/uid-of-web example.com/lb=Unknown"
    await until(lambda: gone in node.told)
    assert [each for each in node.told if each.startswith("condition")] == [told, told, gone]


def noted_waits(tried: StatusWriter | MirrorPods, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Record the waits after each pod's failures; the first waits are a few milliseconds."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.001, 30.0))
    waits: dict[str, list[float]] = defaultdict(list)
    look_again = tried._look_again

    def noted(key: ObjectKey, seconds: float) -> None:
        waits[key.name].append(seconds)
        look_again(key, seconds)

    monkeypatch.setattr(tried, "_look_again", noted)
    return waits


async def test_a_pod_whose_status_fails_often_does_not_lengthen_anothers_first_wait(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One back-off served all pods, so the first failure of a pod waited as long as the eighth of another."""
    waits = noted_waits(node.statuses, monkeypatch)
    api.faults.extend([Fault("PATCH", "pods/often/status", "500")] * 8)
    await api.put(pod_path("often"), pod("often"))
    node.start()
    await until(lambda: status(api, "often").get("phase") == "Running")
    api.faults.append(Fault("PATCH", "pods/once/status", "500"))
    await api.put(pod_path("once"), pod("once"))
    await until(lambda: status(api, "once").get("phase") == "Running")
    assert waits["often"][7] >= 0.128 > 0.002 >= waits["once"][0]
