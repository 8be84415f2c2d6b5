"""`fleet apply` compares manifests with what the fleet has, and waits until their pods are up, as on a node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.actions import fleet_apply, fleet_rollout
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_objects, fleet_pod_changes, fleet_pod_waits, fleet_workloads
from syncpod.fleet.workloads import admit_workload
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.messages.fleet import FleetNodeView, Intent, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadPod, WorkloadView
from syncpod.pod import ConfigMap, ObjectMeta
from syncpod.pod.wire import to_wire

SPEC = {"containers": [{"name": "main", "image": "busybox"}]}
PINNED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pinned"},
    "spec": {**SPEC, "nodeName": "n1"},
}
FREE: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "free"}, "spec": SPEC}
WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": SPEC},
    },
}
READY = PodReport(name="pinned", phase="Running", status="Running", ready=True)


def wire(document: dict[str, Any]) -> dict[str, Any]:
    return to_wire(admit_workload({**document, "metadata": {**document["metadata"], "namespace": "default"}})[0])


class AFleet:
    """A fleet whose node and workloads are as the test sets them; any change of it fails."""

    def __init__(self) -> None:
        self.placed: list[PlacedPod] = []
        self.intent: list[dict[str, Any]] = []
        self.workloads: dict[str, WorkloadView] = {}
        self.asked = 0
        self.then: Callable[[int], None] = lambda _: None
        """Called with the number of queries about the node so far, before each."""

    async def view(self, _client: Client, name: str) -> FleetNodeView:
        self.then(self.asked)
        self.asked += 1
        if name != "n1":
            raise fleet.NoNode(f'nodes "{name}" not found in the fleet')
        return FleetNodeView(name="n1", presence="Ready", placed=tuple(self.placed))

    async def views(self, client: Client, _names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [await self.view(client, "n1")]

    async def list_of(self, _client: Client, _name: str) -> Intent:
        return Intent(node="n1", pods=tuple(self.intent))

    async def workload(self, _client: Client, _kind: str, _namespace: str, name: str) -> WorkloadView | None:
        return self.workloads.get(name)


@pytest.fixture
def a_fleet(monkeypatch: pytest.MonkeyPatch) -> AFleet:
    found = AFleet()

    def connected(work: Callable[[Client], Coroutine[Any, Any, Any]], *, state_dir: str = "") -> Any:
        return asyncio.run(work(cast(Client, None)))

    async def none(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr(fleet, "run", connected)
    monkeypatch.setattr(fleet, "object_sealing", lambda _: None)
    monkeypatch.setattr(fleet, "view", found.view)
    monkeypatch.setattr(fleet, "views", found.views)
    monkeypatch.setattr(fleet, "intent", found.list_of)
    monkeypatch.setattr(fleet_workloads, "view", found.workload)
    monkeypatch.setattr(fleet_apply, "image_warnings", none)
    monkeypatch.setattr(fleet_pod_waits, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(fleet_rollout, "_LOOK_SECONDS", 0)
    return found


def written(directory: Path, *documents: dict[str, Any]) -> str:
    path = directory / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(path)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_dry_run_compares_manifests_with_what_the_fleet_has(
    a_fleet: AFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["fleet", "apply", "--dry-run=client", "-f", written(tmp_path, PINNED, FREE, WEB)]
    assert run(line) == 0
    words = ["pod/pinned created on node/n1", "pod/free created", "deployment.apps/web created"]
    assert lines(capsys) == [f"{each} (dry run)" for each in words]

    a_fleet.placed, a_fleet.intent = [PlacedPod(name="pinned", state="taken")], [wire(PINNED)]
    a_fleet.workloads = {
        each: WorkloadView(document=wire(document)) for each, document in (("free", FREE), ("web", WEB))
    }
    assert run(line) == 0
    assert lines(capsys) == [f"{each} (dry run)".replace("created", "unchanged") for each in words]

    changed = [{**each, "metadata": {**each["metadata"], "labels": {"a": "b"}}} for each in (PINNED, FREE, WEB)]
    assert run([*line[:-1], written(tmp_path, *changed)]) == 0
    assert lines(capsys) == [f"{each} (dry run)".replace("created", "configured") for each in words]


def test_a_dry_run_names_all_that_would_be_refused(
    a_fleet: AFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_fleet.workloads = {"web": WorkloadView(deleting=True)}
    elsewhere = {**PINNED, "spec": {**PINNED["spec"], "nodeName": "n9"}}
    assert run(["fleet", "apply", "--dry-run=client", "-f", written(tmp_path, elsewhere, FREE, WEB)]) == 1
    said = capsys.readouterr()
    assert said.out == "pod/free created (dry run)\n"
    assert said.err.splitlines() == [
        'syncpod: nodes "n9" not found in the fleet',
        "syncpod: deployment web: it is being deleted: apply it once it is gone",
    ]


async def test_an_object_is_compared_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sealing:
        def version(self, content: bytes) -> str:
            return f"{len(content)}"

        def keep(self, _key: str, content: bytes) -> tuple[dict[str, str], bytes]:
            return {}, content

    def config(value: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name="settings", namespace="default"), data={"a": value})

    kept: list[Any] = [None]

    async def query(*_: Any) -> Any:
        return kept[0]

    monkeypatch.setattr(fleet_objects, "_query", query)
    client, sealing = cast(Client, None), cast(ObjectSealing, Sealing())
    assert await fleet_objects.forecast(client, sealing, config("b")) == "created"
    kept[0] = fleet_objects._sealed(sealing, config("b")).model_dump()
    assert await fleet_objects.forecast(client, sealing, config("b")) == "unchanged"
    assert await fleet_objects.forecast(client, sealing, config("longer")) == "configured"


def test_directories_in_a_directory_are_read_with_recursive(
    a_fleet: AFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "below").mkdir()
    written(tmp_path, WEB)
    written(tmp_path / "below", FREE)
    assert run(["fleet", "apply", "--dry-run=client", "-f", str(tmp_path)]) == 0
    assert lines(capsys) == ["deployment.apps/web created (dry run)"]
    assert run(["fleet", "apply", "--dry-run=client", "-R", "-f", str(tmp_path)]) == 0
    assert lines(capsys) == ["pod/free created (dry run)", "deployment.apps/web created (dry run)"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["-k", "dir"], "-k: kustomizations are not built here: kubectl kustomize dir | syncpod fleet apply -f -"),
        ([], "name a manifest with -f FILE, a directory with -f DIR, or standard input with -f -"),
        (["-f", "-", "--dry-run=server"], "--dry-run=server: a fleet cannot say what it would refuse without doing it"),
        (["-f", "-", "--dry-run=client", "--wait"], "either --dry-run or --wait: a dry run does nothing to wait for"),
    ],
)
def test_flags_that_mean_nothing_for_a_fleet_are_refused(
    flags: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "apply", *flags]) == 2
    assert capsys.readouterr().err.startswith(f"syncpod: {why}")


@pytest.fixture
def applied(a_fleet: AFleet, monkeypatch: pytest.MonkeyPatch) -> AFleet:
    """The fleet, which takes all that is applied."""

    async def place(*_: Any) -> dict[str, int]:
        return {"generation": 1}

    async def apply(*_: Any) -> str:
        return "created"

    async def workload(_client: Client, kind: str, _namespace: str, name: str) -> WorkloadView | None:
        # The pod `pinned` has no workflow; the pod `free` is placed by its own.
        if kind == "Pod" and name == "free":
            return WorkloadView(kind=kind, name=name, observed=True, pods=(WorkloadPod(name=name, node="n1"),))
        return a_fleet.workloads.get(name) if kind != "Pod" else None

    monkeypatch.setattr(fleet, "update", place)
    monkeypatch.setattr(fleet_workloads, "apply", apply)
    monkeypatch.setattr(fleet_workloads, "view", workload)
    return a_fleet


def placed(name: str, **report: Any) -> PlacedPod:
    return PlacedPod(name=name, state="taken", report=PodReport(name=name, **report))


def test_wait_ends_once_pods_are_ready_or_have_finished_and_rollouts_have_ended(
    applied: AFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def go_on(asked: int) -> None:
        applied.placed = [PlacedPod(name="pinned"), PlacedPod(name="free")] if asked else []
        if asked > 3:
            applied.placed[0] = placed("pinned", phase="Running", status="Running", ready=asked > 5)
        if asked > 6:
            applied.placed[1] = placed("free", phase="Succeeded", status="Completed")

    applied.then = go_on
    applied.workloads = {
        "web": WorkloadView(
            kind="Deployment", name="web", observed=True, desired=1, replicas=1, updated=1, available=1, ready=1
        )
    }
    assert run(["fleet", "apply", "--wait", "-f", written(tmp_path, PINNED, FREE, WEB)]) == 0
    said = lines(capsys)
    assert said[:3] == ["pod/pinned created on node/n1", "pod/free created", "deployment.apps/web created"]
    assert sorted(said[3:]) == ['deployment "web" successfully rolled out', "pod/free succeeded", "pod/pinned ready"]
    assert said.index("pod/pinned ready") < said.index("pod/free succeeded")


def test_wait_names_each_pod_and_rollout_that_fails_or_takes_too_long(
    applied: AFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    applied.then = lambda _: setattr(
        applied,
        "placed",
        [
            placed("pinned", phase="Failed", status="Error"),
            placed("free", status="ErrImagePull", message="no such image"),
        ],
    )
    applied.workloads = {"web": WorkloadView(kind="Deployment", name="web", observed=True, desired=1)}
    line = ["fleet", "apply", "--wait", "--timeout=300ms", "-f", written(tmp_path, PINNED, FREE, WEB)]
    assert run(line) == 1
    assert capsys.readouterr().err.splitlines() == [
        "syncpod: timed out waiting for the rollout of deployment/web to end; the rollout continues",
        'syncpod: pod "pinned" has failed: it is Error on node n1',
        'syncpod: timed out waiting for pod "free" to be ready: it is ErrImagePull on node n1: no such image',
    ]


@pytest.mark.parametrize(
    ("there", "state", "why"),
    [
        ([], "gone", ""),
        ([PlacedPod(name="pinned", state="refused", why="no room")], "failed", "node n1 refuses it: no room"),
        ([PlacedPod(name="pinned", state="placed", report=READY)], "not yet", "node n1 has not taken it yet"),
        ([PlacedPod(name="pinned", state="ending", report=READY)], "not yet", "it is ending on node n1"),
    ],
)
async def test_a_report_from_before_the_change_does_not_count(
    a_fleet: AFleet, there: list[PlacedPod], state: str, why: str
) -> None:
    a_fleet.placed = there
    pod = admit_workload(PINNED)[0]
    change = fleet_pod_changes.PodChange(cast(Any, pod), "configured", "n1")
    assert await fleet_pod_waits._states(cast(Client, None), [change]) == [(state, why)]
