"""Events of the node and its pods are sent to the API server in order, once, and at a limited rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.agent.kubernetes import event_writer
from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.agent.kubernetes.node_events import NodeEvents
from syncpod.agent.kubernetes.pod_events import PodEvents
from syncpod.journal.records import SERVER_REACHABLE, SERVER_UNREACHABLE
from syncpod.kubernetes import node_changes
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.event_correlation import BURST, KEPT, REFILL_SECONDS, SIMILAR_SECONDS, EventCorrelator, Recent
from syncpod.kubernetes.events import Event, Subject, event_document, node_subject
from syncpod.kubernetes.reflector import ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE, NodeCondition, NodeStatus
from syncpod.messages.steps import StepEvent
from syncpod.pod import ObjectMeta
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault

NOW = datetime(2026, 7, 1, tzinfo=UTC)
"""When each test began: `now` sets it."""
EVENTS = "/api/v1/namespaces/default/events/"


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set `NOW`. A run of all tests may take longer than events are kept, so the time of its import may be too old."""
    monkeypatch.setattr(f"{__name__}.NOW", datetime.now(UTC).replace(microsecond=0))


def happened(
    number: int = 0, *, reason: str = "Unhealthy", name: str = "web", text: str = "m", count: int = 1
) -> Event:
    at = NOW + timedelta(seconds=number)
    return Event(Subject("Pod", "default", name, f"uid-of-{name}"), "Warning", reason, text, NOW, at, count)


class State:
    """A state that a pod's workflow has published."""

    def __init__(
        self, name: str, events: Sequence[dict[str, Any]], source: str = KUBERNETES_SOURCE, *, uid: str = ""
    ) -> None:
        self._uid, self._events = uid or f"uid-of-{name}", list(events)
        annotations = {"kubernetes.io/config.source": source}
        if source == FILE_SOURCE:
            annotations["kubernetes.io/config.hash"] = self._uid
        self.metadata = ObjectMeta(name=name, namespace="default", uid=self._uid, annotations=annotations)

    def events(self) -> list[dict[str, Any]]:
        return self._events

    def pod(self) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "first"}]}}


def record(number: int, reason: str = "Started", *, container: str = "", count: int = 1, **more: Any) -> dict[str, Any]:
    at = (NOW + timedelta(microseconds=number)).isoformat()
    return {
        "type": "Normal",
        "reason": reason,
        "message": f"message {number}",
        "container": container,
        "count": count,
        "first": at,
        "last": at,
        **more,
    }


@asynccontextmanager
async def running(client: ApiClient, state_dir: Path) -> AsyncIterator[tuple[EventWriter, PodEvents]]:
    """Run the writer of events."""
    writer = EventWriter(client, "n1")
    pods = PodEvents(writer, state_dir)
    tasks = [asyncio.ensure_future(run()) for run in (writer.run, pods.run)]
    try:
        yield writer, pods
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def written(api: ApiServer) -> list[dict[str, Any]]:
    """The events on the server, in the order of their creation."""
    return [each for path, each in api.objects.items() if "/events/" in path]


async def test_an_event_that_is_told_when_it_happens_is_told_once(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    pulling = StepEvent(reason="Pulling", message='Pulling image "busybox:1"', container="app")
    ref = PodRef(name="web", uid="uid-of-web")
    async with running(client, tmp_path) as (_, pods):
        pods.happens(ref, pulling)
        await asyncio.sleep(0.1)
        assert not written(api), "nothing is known of the pod yet"
        pods.published(State("web", []))
        for times in (1, 2):
            pods.happens(ref, pulling)
            await until(lambda: [each["count"] for each in written(api)] == [times])  # noqa: B023
        [told] = written(api)
        assert told["involvedObject"]["fieldPath"] == "spec.containers{app}"
        of_step = record(2, "Pulling", container="app", message=pulling.message)
        pods.published(State("web", [of_step, record(3, "Pulled", container="app")]))
        await until(lambda: [each["reason"] for each in written(api)] == ["Pulling", "Pulled"])
        assert [each["count"] for each in written(api)] == [2, 1]
        pods.published(State("own", [], "apply"))
        pods.happens(PodRef(name="own", uid="uid-of-own"), pulling)
        await asyncio.sleep(0.1)
        assert len(written(api)) == 2, "a pod of the node alone is no cluster's matter"


@pytest.mark.parametrize("step_first", [True, False])
async def test_a_kill_is_told_once_however_late_its_step_begins(
    api: ApiServer, client: ApiClient, tmp_path: Path, step_first: bool
) -> None:
    killing = StepEvent(reason="Killing", message="Stopping container app", container="app")
    ref = PodRef(name="web", uid="uid-of-web")
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", []))
        for times in (1, 2):
            decided = record(times, "Killing", container="app", message=killing.message, count=times)
            if step_first:
                pods.happens(ref, killing)
            pods.published(State("web", [decided]))
            await until(lambda: [each["count"] for each in written(api)] == [times])  # noqa: B023
            if not step_first:
                pods.happens(ref, killing)
        pods.published(State("web", [record(9, "Started")]))
        await until(lambda: "Started" in {each["reason"] for each in written(api)})
    assert [(each["reason"], each["count"]) for each in written(api)] == [("Killing", 2), ("Started", 1)]


# --- which are written ------------------------------------------------------------------------------------------------


def test_the_same_event_is_one_with_its_count() -> None:
    correlator = EventCorrelator()
    first = correlator.correlate(happened(), 0.0, NOW)
    again = correlator.correlate(happened(5, count=2), 5.0, NOW)
    assert first is not None and again is not None
    assert first.name == again.name
    assert (again.count, again.last - again.first) == (2, timedelta(seconds=5))


def test_ten_similar_events_become_one_until_there_were_none_for_ten_minutes() -> None:
    correlator = EventCorrelator()
    texts = [correlator.correlate(happened(text=f"m{number}"), float(number), NOW) for number in range(12)]
    assert [each.message for each in texts if each] == [
        *(f"m{number}" for number in range(9)),
        *(f"(combined from similar events): m{number}" for number in (9, 10, 11)),
    ]
    combined = [each for each in texts[9:] if each]
    assert [each.count for each in combined] == [1, 2, 3]
    assert len({each.name for each in combined}) == 1
    other = correlator.correlate(happened(text="m12", reason="Other"), 13.0, NOW)
    assert other is not None and other.message == "m12"
    later = correlator.correlate(happened(text="m13"), 12.0 + SIMILAR_SECONDS, NOW)
    assert later is not None and later.message == "m13"


def test_an_object_writes_25_events_at_once_and_then_one_each_five_minutes() -> None:
    correlator = EventCorrelator()
    found = [correlator.correlate(happened(count=number), 0.0, NOW) for number in range(1, BURST + 3)]
    assert [each is not None for each in found] == [True] * BURST + [False, False]
    assert correlator.correlate(happened(name="other"), 0.0, NOW) is not None
    assert correlator.correlate(happened(), REFILL_SECONDS - 1, NOW) is None
    again = correlator.correlate(happened(count=29), REFILL_SECONDS, NOW)
    assert again is not None and again.count == 29  # those that were not written are counted


def test_what_is_remembered_of_events_is_bounded() -> None:
    kept: Recent[int, list[int]] = Recent(KEPT, list)
    for number in range(KEPT + 10):
        kept.of(number).append(number)
        kept.of(0)
    assert len(kept) == KEPT
    assert kept.of(0) == [0]


def test_an_event_names_the_kubelet_of_the_node_and_its_object() -> None:
    about = Subject("Pod", "ns", "w" * 253, "u", "spec.containers{app}")
    document = event_document(Event(about, "Normal", "Started", "x" * 2000, NOW, NOW), "n1")
    assert document["source"] == {"component": "kubelet", "host": "n1"}
    assert (document["reportingComponent"], document["reportingInstance"]) == ("kubelet", "n1")
    assert document["involvedObject"]["fieldPath"] == "spec.containers{app}"
    assert len(document["metadata"]["name"]) == 253
    assert len(document["message"]) == 1024
    node = event_document(Event(node_subject("n1"), "Normal", "Starting", "", NOW, NOW), "n1")
    assert node["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert node["metadata"]["namespace"] == "default"


def test_a_node_tells_its_changes_as_the_kubelet() -> None:
    calm = {"Ready": "False", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    told = [each.reason for each in node_changes.pressures("n1", {}, calm)]
    assert told == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    assert node_changes.pressures("n1", calm, calm) == []
    (change,) = node_changes.pressures("n1", calm, {**calm, "MemoryPressure": "True"})
    assert change == ("Normal", "NodeHasInsufficientMemory", "Node n1 status is now: NodeHasInsufficientMemory")


def test_a_node_tells_what_becomes_of_its_node() -> None:
    def node(ready: str, boot: str = "b1", **spec: Any) -> dict[str, Any]:
        return {
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"bootID": boot}},
        }

    def reasons(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        return [each.reason for each in node_changes.written("n1", before, after)]

    assert reasons(node("Unknown"), node("True")) == ["NodeReady"]
    assert reasons(node("True"), node("False", "b2")) == ["NodeNotReady", "Rebooted"]
    assert reasons(node("True"), node("True")) == reasons({}, node("False")) == []
    assert reasons({}, node("True")) == ["NodeReady"], "a kubelet registers before it is ready"
    both = node_changes.starting(has_cgroup_v1=True, limits_pods=True)
    assert [(each.type, each.reason) for each in both] == [
        ("Normal", "Starting"),
        ("Warning", "CgroupV1"),
        ("Normal", "NodeAllocatableEnforced"),
    ]
    assert [each.reason for each in node_changes.starting(has_cgroup_v1=False, limits_pods=False)] == ["Starting"]
    cordoned = node("True", unschedulable=True)
    assert [each.reason for each in node_changes.scheduling("n1", node("True"), cordoned)] == ["NodeNotSchedulable"]
    assert [each.reason for each in node_changes.scheduling("n1", cordoned, node("True"))] == ["NodeSchedulable"]
    assert node_changes.scheduling("n1", {}, cordoned) == []


# --- how they are written ---------------------------------------------------------------------------------------------


async def test_a_pods_events_are_written_once_and_repeats_are_counted(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    first = [record(1, "Scheduled"), record(2, container="app"), record(3, "Pulled", container="first")]
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", first))
        pods.published(State("plain", first, "api"))  # it was applied on the node, and is nothing of the cluster's
        await until(lambda: len(written(api)) == 3)
        assert [each["reason"] for each in written(api)] == ["Scheduled", "Started", "Pulled"]
        assert [each["involvedObject"].get("fieldPath") for each in written(api)] == [
            None,
            "spec.containers{app}",
            "spec.initContainers{first}",
        ]
        again = {**first[1], "count": 4, "last": record(9)["last"]}
        pods.published(State("web", [first[0], first[2], record(8, "Exited"), again]))
        await until(lambda: [each["count"] for each in written(api)] == [1, 4, 1])
    assert api.calls["POST events"] == 3


async def test_what_a_task_decides_again_at_its_next_try_is_the_same_event(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    """A workflow task that runs out of its time has published its state, and all that it decided gets another time."""
    before, lost = record(1, "Scheduled"), record(2, container="app", message="started")
    later = {**lost, **dict.fromkeys(("first", "last"), record(8_000_000)["first"])}
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [before, lost]))
        await until(lambda: len(written(api)) == 2)
        pods.published(State("web", [before, later]))
        await until(lambda: any(call.startswith("PATCH") for call in api.calls) or len(written(api)) > 2)
        assert [(each["reason"], each["count"]) for each in written(api)] == [("Scheduled", 1), ("Started", 1)]
        after = {**later, "count": 2, "last": record(9_000_000)["last"]}
        pods.published(State("web", [before, after]))
        await until(lambda: [each["count"] for each in written(api)] in ([1, 2], [1, 1, 2]))
    assert api.calls["POST events"] == 2


async def test_a_pod_that_the_node_cannot_run_has_an_event_too(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    async with running(client, tmp_path) as (_, pods):
        pods.refused(ObjectKey("default", "web"), "u1", "UnsupportedByNode", "spec.volumes[0].nfs: not supported yet")
        await until(lambda: len(written(api)) == 1)
    assert (written(api)[0]["type"], written(api)[0]["reason"]) == ("Warning", "UnsupportedByNode")


async def test_events_that_cannot_be_written_wait_and_come_in_order(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    api.faults.extend(Fault("POST", "/events", what) for what in ("500", "429", "cut", "html", "503"))
    async with running(client, tmp_path) as (writer, pods):
        pods.published(State("web", [record(1), record(4)]))
        await until(lambda: bool(writer.trouble))
        pods.published(State("other", [record(2), record(3)]))
        await until(lambda: len(written(api)) == 4 and not writer.trouble)
    assert [each["message"] for each in written(api)] == ["message 1", "message 4", "message 2", "message 3"]


async def test_an_event_that_the_server_refuses_holds_up_no_other(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    api.faults.extend(Fault("POST", "/events", what) for what in ("403", "404", "422"))
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [record(number) for number in range(1, 6)]))
        await until(lambda: [each["message"] for each in written(api)] == ["message 4", "message 5"])


async def test_an_event_that_has_expired_is_made_again(api: ApiServer, client: ApiClient, tmp_path: Path) -> None:
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [record(1)]))
        await until(lambda: len(written(api)) == 1)
        path = next(each for each in api.objects if each.startswith(EVENTS))
        await api.remove(path)
        pods.published(State("web", [{**record(1), "count": 2, "last": record(5)["last"]}]))
        await until(lambda: path in api.objects)
        assert api.objects[path]["count"] == 2


async def test_a_new_worker_writes_what_the_one_before_it_could_not_and_nothing_twice(
    api: ApiServer, client: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [record(1), record(2)]))
        await until(lambda: len(written(api)) == 2 and (tmp_path / "kubernetes-events.json").exists())
    assert (tmp_path / "kubernetes-events.json").stat().st_mode & 0o777 == 0o600
    api.faults.extend(Fault("POST", "/events", "503") for _ in range(1000))
    async with running(client, tmp_path) as (writer, pods):
        pods.published(State("web", [record(1), record(2), record(3)]))
        await until(lambda: bool(writer.trouble))
    api.faults.clear()
    api.calls.clear()
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [record(1), record(2), record(3)]))
        await until(lambda: len(written(api)) == 3)
    assert api.calls == {"POST events": 1}
    (tmp_path / "kubernetes-events.json").write_text("{")  # and what is damaged costs a write, and no second event
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web", [record(1), record(2), record(3), record(4)]))
        await until(lambda: len(written(api)) == 4)


async def test_too_many_events_that_wait_are_given_up_the_oldest_first(
    api: ApiServer, client: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_writer, "MOST_WAITING", 5)
    async with running(client, tmp_path) as (writer, pods):
        for number in range(8):
            pods.published(State(f"web{number}", [record(number + 1)]))
        await until(lambda: len(written(api)) == 5 and not writer.waiting)
        assert writer.given_up == 3
    assert [each["message"] for each in written(api)] == [f"message {number}" for number in range(4, 9)]


async def test_old_events_are_not_written_and_those_of_static_pods_are(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    old = (NOW - timedelta(hours=2)).isoformat()
    async with running(client, tmp_path) as (_, pods):
        pods.published(State("web-n1", [record(1, last=old), record(2)], FILE_SOURCE), is_gone=True)
        await until(lambda: len(written(api)) == 1)
    assert written(api)[0]["message"] == "message 2"


async def test_a_node_tells_that_it_starts_and_what_changes(api: ApiServer, client: ApiClient, tmp_path: Path) -> None:
    async def own_status() -> NodeStatus:
        names = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "True"}
        conditions = tuple(NodeCondition(type=name, status=status, reason="r") for name, status in names.items())
        return NodeStatus(conditions=conditions, addresses=())

    async with running(client, tmp_path) as (writer, _):
        node = NodeEvents(writer, "n1", own_status)
        node.starting(has_cgroup_v1=False, limits_pods=True)
        await node.status()
        await node.status()
        unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        node.written(unknown, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        node.shutdown(True)
        node.shutdown(False)
        node.server(False)
        node.server(True)
        await until(lambda: len(written(api)) == 10)
    assert [(each["reason"], each["message"]) for each in written(api)] == [
        ("Starting", "Starting kubelet."),
        ("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
        ("NodeHasSufficientMemory", "Node n1 status is now: NodeHasSufficientMemory"),
        ("NodeHasNoDiskPressure", "Node n1 status is now: NodeHasNoDiskPressure"),
        ("NodeHasInsufficientPID", "Node n1 status is now: NodeHasInsufficientPID"),
        ("NodeReady", "Node n1 status is now: NodeReady"),
        ("NodeShutdown", "Shutdown manager detected shutdown event"),
        ("NodeShutdown", "Shutdown manager detected shutdown cancellation"),
        SERVER_UNREACHABLE[1:],
        SERVER_REACHABLE[1:],
    ]
