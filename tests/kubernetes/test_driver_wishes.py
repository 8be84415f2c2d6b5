# ruff: noqa: ASYNC240 - a look at a directory is what these tests are about
"""Storage drivers that make a volume for one pod, request tokens, ask for republishing, and expand volumes.

Holds: A storage driver is given what its CSIDriver asks for, and a claim that has grown grows on the node too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import followed_claim
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.claim_growth import NOT_REQUIRED, Growth, due_growth, failed, finished
from syncpod.kubernetes.claimed_volume import claim_path, volume_path
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.csi import driver_path
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_volumes import make_volumes, pod_volumes
from syncpod.objects import ClaimNeed
from syncpod.pod import Pod
from syncpod.redaction import of_process
from syncpod.translation.mounts import container_mounts
from syncpod.translation.paths import csi_target, pod_directory
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, given, object_path, pod, served, write_kubeconfig
from tests.kubernetes.storage_driver import DRIVER, NEED, Node, StorageDriver, a_volume, cancelled, of_driver, serving
from tests.translation.translation import NODE

CLAIM = claim_path(NEED)
TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"


def a_claim(size: str = "1Gi", *, wants: str = "1Gi", **status: Any) -> dict[str, Any]:
    """The claim with this size in its status."""
    spec = {"volumeName": "pv-1", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": wants}}}
    told = {"phase": "Bound", "capacity": {"storage": size}, **status}
    return {"metadata": {"name": "disk", "uid": "claim-uid"}, "spec": spec, "status": told}


def a_sized_volume(size: str = "1Gi", **csi: Any) -> dict[str, Any]:
    """The volume, with its size."""
    volume = a_volume(**csi)
    return {**volume, "spec": {**volume["spec"], "capacity": {"storage": size}}}


def growing(state: str = "NodeResizePending", to: str = "2Gi", *, wants: str = "2Gi") -> dict[str, Any]:
    """The claim after its volume's controller has expanded the volume."""
    states: dict[str, Any] = {"allocatedResources": {"storage": to}, "allocatedResourceStatuses": {"storage": state}}
    conditions = [{"type": "FileSystemResizePending", "status": "True"}, {"type": "Other", "status": "True"}]
    return a_claim(wants=wants, conditions=conditions, **states)


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server with the volume and its claim, which the node reads often."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_claim, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(followed_claim, "UPKEEP_SECONDS", 0.02)
    async with served() as server:
        await server.put(CLAIM, a_claim())
        await server.put(volume_path("pv-1"), a_sized_volume())
        await server.put(driver_path(DRIVER), of_driver(attachRequired=False))
        yield server


@pytest_asyncio.fixture
async def node(api: ApiServer) -> AsyncIterator[Node]:
    """A node of that server, in a directory whose path leaves room for sockets' names."""
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        config = read_kubeconfig(write_kubeconfig(Path(directory, "config"), api))
        async with ApiClient(config, user_agent="test") as client:
            yield Node(client, Path(directory))


@pytest_asyncio.fixture
async def driver(node: Node) -> AsyncIterator[StorageDriver]:
    """A registered driver that stages and expands volumes."""
    served_by = node.context.state_dir / "driver"
    found = StorageDriver(DRIVER, served_by, ["STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME"])
    async with serving(found, node.registry):
        await node.drivers.round()
        yield found


@pytest.fixture(autouse=True)
def redactor() -> Iterator[None]:
    """Forget hidden values after the test."""
    before = of_process.known()
    yield
    of_process.forget(of_process.known() - before)


def inline(**csi: Any) -> BoundPod:
    """A pod with a volume that the driver makes for it."""
    container = {"name": "c", "image": "busybox:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"name": "data", "csi": {"driver": DRIVER, "volumeAttributes": {"pool": "fast"}, **csi}}
    spec = {"containers": [container], "volumes": [volume], "serviceAccountName": "shop"}
    found = bound_pod(pod("web", spec=spec))
    assert found is not None and found.document is not None
    return found


def need_of(found: BoundPod) -> ClaimNeed:
    """The pod's need of a driver's volumes."""
    [need] = [each for each in found.needs if isinstance(each, ClaimNeed)]
    return need


class TestAVolumeForOnePod:
    """`csi` in a pod."""

    async def test_it_is_published_as_the_kubelet_does_and_given_to_the_container(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        modes = {"volumeLifecycleModes": ["Persistent", "Ephemeral"], "podInfoOnMount": True}
        await api.put(driver_path(DRIVER), of_driver(**modes))
        await api.put(object_path("Secret", "keys"), given("Secret", "keys", user="swordfish-4711"))
        found = inline(fsType="ext4", readOnly=True, nodePublishSecretRef={"name": "keys"})
        place = await node.brought(need := need_of(found))
        assert not driver.asked("stage")
        [asked] = driver.asked("publish")
        digest = hashlib.sha256(f"{found.uid}data".encode()).hexdigest()  # the kubelet's makeVolumeHandle
        assert asked.volume_id == f"csi-{digest}"
        assert asked.target_path == place.path == str(csi_target(node.context, found.uid, "data"))
        assert asked.staging_target_path == ""
        assert asked.readonly
        assert dict(asked.secrets) == {"user": "swordfish-4711"}
        assert asked.volume_capability.mount.fs_type == "ext4"
        assert asked.volume_capability.access_mode.mode == 1
        assert dict(asked.volume_context) == {
            "pool": "fast",
            "csi.storage.k8s.io/pod.name": "web",
            "csi.storage.k8s.io/pod.namespace": "default",
            "csi.storage.k8s.io/pod.uid": found.uid,
            "csi.storage.k8s.io/serviceAccount.name": "shop",
            "csi.storage.k8s.io/ephemeral": "true",
        }
        ours = Pod.model_validate(found.document)
        make_directories(own_directories(found.uid, node.context))
        make_volumes(pod_directory(node.context, found.uid), pod_volumes(ours, node.context), node.store)
        [mount, *_] = container_mounts(ours, ours.spec.containers[0], node.context, (), "c")
        assert Path(mount.host_path).readlink() == Path(place.path)
        assert mount.readonly
        await node.claims.forget(need.ref)
        assert driver.asked("unpublish")[0].volume_id == asked.volume_id
        assert node.store.versions() == {}

    @pytest.mark.parametrize(
        ("spec", "why"),
        [
            (None, "no CSIDriver object"),
            ({"volumeLifecycleModes": ["Persistent"]}, 'only supports ["Persistent"]'),
        ],
    )
    async def test_a_driver_that_has_no_such_volumes_is_not_asked(
        self, api: ApiServer, node: Node, driver: StorageDriver, spec: dict[str, Any] | None, why: str
    ) -> None:
        await (api.remove(driver_path(DRIVER)) if spec is None else api.put(driver_path(DRIVER), of_driver(**spec)))
        follower, running = node.follow(need_of(inline()))
        said = f'volume mode "Ephemeral" not supported by driver {DRIVER} ({why})'
        await until(lambda: follower.trouble == said)
        await cancelled(running)
        assert not driver.asked("publish")


class TestTokens:
    """`tokenRequests`."""

    @pytest.mark.parametrize("in_secrets", [False, True])
    async def test_a_driver_is_given_tokens_for_the_pod(
        self, api: ApiServer, node: Node, driver: StorageDriver, *, in_secrets: bool
    ) -> None:
        wanted = [{"audience": "vault", "expirationSeconds": 4000}, {"audience": ""}]
        spec = {"tokenRequests": wanted, "serviceAccountTokenInSecrets": in_secrets}
        await api.put(driver_path(DRIVER), of_driver(attachRequired=False, **spec))
        await node.brought(replace(NEED, service_account="shop"))
        [asked] = driver.asked("publish")
        told = json.loads((asked.secrets if in_secrets else asked.volume_context)[TOKENS])
        assert TOKENS not in (asked.volume_context if in_secrets else asked.secrets)
        assert [(audience, each["token"]) for audience, each in told.items()] == [
            ("", "token-2-of-shop"),
            ("vault", "token-1-of-shop"),
        ]
        datetime.fromisoformat(told["vault"]["expirationTimestamp"])
        first, second = api.token_requests
        assert (first["audiences"], first["expirationSeconds"]) == (["vault"], 4000)
        assert second["audiences"] == [] and "expirationSeconds" not in second
        assert first["boundObjectRef"] == {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}
        assert of_process.redact("token-1-of-shop") == "***"
        files = [path for path in node.context.state_dir.rglob("*") if path.is_file()]
        assert not any(b"token-1-of-shop" in path.read_bytes() for path in files)
        await node.claims.forget(NEED.ref)
        assert of_process.redact("token-1-of-shop") == "token-1-of-shop"

    async def test_a_token_that_is_refused_is_the_reason_that_the_pod_waits(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        await api.put(driver_path(DRIVER), of_driver(attachRequired=False, tokenRequests=[{"audience": "vault"}]))
        api.faults.append(Fault("POST", "token", "403"))
        follower, running = node.follow()
        await until(lambda: "failed to ask the API server about PV pv-1" in follower.trouble)
        assert not driver.asked("publish")
        await until(lambda: follower.is_known)
        await cancelled(running)


class TestAskedAgain:
    """`requiresRepublish`."""

    async def test_a_driver_that_wants_it_is_asked_again_and_a_failure_leaves_the_volume(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        spec = {"requiresRepublish": True, "tokenRequests": [{"audience": "vault", "expirationSeconds": 3600}]}
        await api.put(driver_path(DRIVER), of_driver(attachRequired=False, **spec))
        follower, running = node.follow()
        await until(lambda: len(driver.asked("publish")) >= 3)
        assert len(driver.asked("stage")) == 1
        first, second, *_ = driver.asked("publish")
        assert first == second
        assert len(api.token_requests) == 1, "it is good for longer"
        driver.refusals["publish"] = (grpc.StatusCode.INTERNAL, "no such lease")
        await until(lambda: any(each.reason == "FailedMount" for each in node.events))
        [told, *_] = node.events
        assert told.message == 'MountVolume.SetUp failed for volume "pv-1" : NodePublishVolume: INTERNAL: no such lease'
        assert (told.subject.kind, told.subject.name, told.type) == ("Pod", "web", "Warning")
        assert follower.is_known and not follower.trouble
        assert not driver.asked("unpublish")
        await cancelled(running)

    async def test_a_driver_that_does_not_want_it_is_asked_once(self, node: Node, driver: StorageDriver) -> None:
        _, running = node.follow()
        await until(lambda: bool(driver.asked("publish")))
        await asyncio.sleep(0.2)
        assert len(driver.asked("publish")) == 1
        await cancelled(running)

    async def test_what_cannot_be_looked_at_leaves_the_volume(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        follower, running = node.follow()
        await until(lambda: follower.is_known)
        await api.remove(CLAIM)
        await asyncio.sleep(0.2)
        assert follower.is_known and not follower.trouble
        assert not node.events
        await cancelled(running)


class TestGrowing:
    """A claim whose volume has grown."""

    async def test_it_grows_on_the_node_while_the_pod_uses_it(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        await api.put(object_path("Secret", "keys"), given("Secret", "keys", user="swordfish-4711"))
        secret = {"nodeExpandSecretRef": {"name": "keys", "namespace": "default"}}
        follower, running = node.follow()
        await until(lambda: follower.is_known)
        assert not driver.asked("grow")
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi", fsType="ext4", **secret))
        await api.put(CLAIM, growing())
        await until(lambda: api.objects[CLAIM]["status"]["capacity"]["storage"] == "2Gi" and len(node.events) == 2)
        await cancelled(running)
        [asked] = driver.asked("grow")
        [staged], [published] = driver.asked("stage"), driver.asked("publish")
        assert asked.volume_id == "vol-1"
        assert asked.volume_path == published.target_path
        assert asked.staging_target_path == staged.staging_target_path
        assert asked.capacity_range.required_bytes == 2 * 1024**3
        assert asked.volume_capability.mount.fs_type == "ext4"
        assert list(asked.volume_capability.mount.mount_flags) == ["noatime"]
        assert dict(asked.secrets) == {"user": "swordfish-4711"}
        status = api.objects[CLAIM]["status"]
        assert "allocatedResourceStatuses" not in status
        assert [each["type"] for each in status["conditions"]] == ["Other"]
        message = f'MountVolume.NodeExpandVolume succeeded for volume "pv-1" {NODE.name}'
        assert [(each.subject.kind, each.reason, each.message) for each in node.events] == [
            ("Pod", "FileSystemResizeSuccessful", message),
            ("PersistentVolumeClaim", "FileSystemResizeSuccessful", message),
        ]
        assert node.events[1].subject.uid == "claim-uid"

    async def test_its_pod_begins_once_it_has_grown(self, api: ApiServer, node: Node, driver: StorageDriver) -> None:
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi"))
        await api.put(CLAIM, growing())
        driver.refusals["grow"] = (grpc.StatusCode.UNAVAILABLE, "busy")
        follower, running = node.follow()
        await until(lambda: follower.trouble == "NodeExpandVolume: UNAVAILABLE: busy")
        assert not follower.is_known
        assert api.objects[CLAIM]["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizeInProgress"}
        driver.refusals.clear()
        await until(lambda: follower.is_known)
        await cancelled(running)

    @pytest.mark.parametrize(
        ("status", "wants", "state"),
        [
            (grpc.StatusCode.OUT_OF_RANGE, "2Gi", "NodeResizeInfeasible"),
            (grpc.StatusCode.INTERNAL, "2Gi", "NodeResizeInProgress"),
            (grpc.StatusCode.INTERNAL, "3Gi", "NodeResizeInfeasible"),
        ],
    )
    async def test_the_claim_says_why_a_driver_does_not_grow_it(
        self, api: ApiServer, node: Node, driver: StorageDriver, status: grpc.StatusCode, wants: str, state: str
    ) -> None:
        driver.refusals["grow"] = (status, "no room")
        follower, running = node.follow()
        await until(lambda: follower.is_known)
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi"))
        await api.put(CLAIM, growing(wants=wants))
        await until(lambda: _state(api) == state and bool(_errors(api)) and bool(node.events))
        await cancelled(running)
        [error] = _errors(api)
        assert error["message"] == f"failed to expand pvc with NodeExpandVolume: {status.name}: no room"
        [told, *_] = node.events
        assert told.reason == "VolumeResizeFailed"
        assert told.message.startswith('NodeExpandVolume.NodeExpandVolume failed for volume "pv-1" : ')
        assert follower.is_known and not follower.trouble

    async def test_a_driver_that_grows_no_volume_in_use_is_not_asked_again(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        driver.refusals["grow"] = (grpc.StatusCode.FAILED_PRECONDITION, "in use")
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi"))
        await api.put(CLAIM, growing())
        follower, running = node.follow()
        await until(lambda: follower.is_known)
        await asyncio.sleep(0.2)
        await cancelled(running)
        assert len(driver.asked("grow")) == 1

    async def test_a_pod_that_only_reads_is_told_that_it_does_not_grow(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi"))
        await api.put(CLAIM, growing())
        follower, running = node.follow(replace(NEED, is_read_only=True))
        await until(lambda: follower.is_known and len(node.events) == 2)
        await cancelled(running)
        assert not driver.asked("grow")
        said = 'MountVolume.NodeExpandVolume failed for volume "pv-1" requested read-only file system'
        assert [(each.reason, each.message) for each in node.events] == [("FileSystemResizeFailed", said)] * 2

    async def test_a_driver_with_nothing_to_do_on_the_node_is_not_asked(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        driver.capabilities = []
        node.begin()
        await node.drivers.round()
        await api.put(volume_path("pv-1"), a_sized_volume("2Gi"))
        follower, running = node.follow()
        await until(lambda: follower.is_known)
        await cancelled(running)
        assert not driver.asked("grow")


def _state(api: ApiServer) -> str:
    return str(api.objects[CLAIM]["status"].get("allocatedResourceStatuses", {}).get("storage"))


def _errors(api: ApiServer) -> list[dict[str, Any]]:
    return [each for each in api.objects[CLAIM]["status"].get("conditions", ()) if each["type"] == "NodeResizeError"]


@pytest.mark.parametrize(
    ("claim", "volume", "step"),
    [
        (a_claim(), "1Gi", None),
        (a_claim(), "2Gi", Growth("grow", "2Gi")),
        (a_claim("2Gi"), "2Gi", Growth("grow", "2Gi", is_in_claim=True)),
        (a_claim("2Gi", allocatedResources={"storage": "2Gi"}), "2Gi", Growth("done", "2Gi")),
        (a_claim(allocatedResources={"storage": "2Gi"}), "2Gi", Growth("wait", "2Gi")),
        (growing(), "2Gi", Growth("grow", "2Gi", has_states=True)),
        (growing("NodeResizeInProgress"), "2Gi", Growth("grow", "2Gi", has_states=True)),
        (growing("ControllerResizeInProgress"), "2Gi", Growth("wait", "2Gi")),
        (growing("NodeResizeInfeasible"), "2Gi", Growth("wait", "2Gi")),
        (growing(wants="3Gi"), "2Gi", Growth("grow", "2Gi", has_states=True, is_too_late=True)),
    ],
)
def test_a_node_grows_what_the_controller_leaves_to_it(claim: dict[str, Any], volume: str, step: Growth | None) -> None:
    found = due_growth(claim, a_sized_volume(volume), 1024**3, has_failed=step is not None and step.is_too_late)
    assert found == step


@pytest.mark.parametrize(("annotations", "step"), [({}, "grow"), ({NOT_REQUIRED: "true"}, "done")])
def test_a_volume_of_several_nodes_grows_on_each(annotations: dict[str, str], step: str) -> None:
    claim = a_claim("2Gi", allocatedResources={"storage": "2Gi"})
    claim["spec"]["accessModes"] = ["ReadWriteMany"]
    claim["metadata"]["annotations"] = annotations
    found = due_growth(claim, a_sized_volume("2Gi"), 1024**3, has_failed=False)
    assert found is not None
    assert (found.step, found.is_in_claim) == (step, step == "grow")


def test_a_claims_other_states_stay() -> None:
    claim = growing()
    claim["status"]["allocatedResourceStatuses"]["other"] = "x"
    patch = finished(claim, "2Gi")["status"]
    assert patch["allocatedResourceStatuses"] == {"storage": None}
    assert patch["capacity"] == {"storage": "2Gi"}
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    [*_, error] = failed(claim, "no room", at, is_infeasible=False)["status"]["conditions"]
    assert error["lastTransitionTime"] == "2026-01-02T03:04:05Z"
