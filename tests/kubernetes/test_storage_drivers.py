# ruff: noqa: ASYNC240 - a look at a directory is what these tests are about
"""Storage drivers register, and their volumes are published for pods and unpublished after them.

Holds: What a storage driver was asked to do for a pod is undone after the pod, also by the next worker.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import csi_drivers, followed_claim
from syncpod.agent.kubernetes.csi_volumes import volumes_in_use
from syncpod.kernel.mounting import bind, may_mount, unmount
from syncpod.kernel.tree_removal import StillMounted
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.claimed_volume import NotUsable, claim_path, volume_path
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.csi import (
    GROUP,
    attachment_path,
    csi_volume,
    driver_path,
    driver_traits,
    is_given_to_group,
    node_patch,
    node_path,
    publish_attributes,
)
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.directories import remove_pod_files
from syncpod.objects import ClaimNeed
from syncpod.redaction import of_process
from syncpod.translation.paths import csi_target, pod_directory
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, given, object_path, served, write_kubeconfig
from tests.kubernetes.storage_driver import (
    A_NODE,
    DRIVER,
    NEED,
    OTHER,
    Node,
    StorageDriver,
    a_volume,
    cancelled,
    of_driver,
    serving,
)
from tests.translation.translation import NODE


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server with the volume and its claim; the node's waits after failures are short."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_claim, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(csi_drivers, "RETRY_SECONDS", 0.0)
    async with served() as server:
        claim = {"metadata": {"name": "disk", "uid": "claim-uid"}, "spec": {"volumeName": "pv-1"}}
        await server.put(claim_path(NEED), {**claim, "status": {"phase": "Bound"}})
        await server.put(volume_path("pv-1"), a_volume())
        await server.put(driver_path(DRIVER), of_driver(attachRequired=False))
        await server.put(f"/api/v1/nodes/{NODE.name}", dict(A_NODE))
        yield server


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory for sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        yield Path(directory)


@pytest_asyncio.fixture
async def node(api: ApiServer, short: Path) -> AsyncIterator[Node]:
    """A node of that server."""
    async with ApiClient(read_kubeconfig(write_kubeconfig(short / "config", api)), user_agent="test") as client:
        yield Node(client, short)


Serve = Callable[..., AbstractAsyncContextManager[Path]]


@pytest.fixture
def driver(short: Path) -> StorageDriver:
    """A driver that stages."""
    return StorageDriver(DRIVER, short / "driver", ["STAGE_UNSTAGE_VOLUME"])


class TestARegistration:
    """A socket in the node's directory."""

    async def test_the_cluster_is_told_of_a_driver_and_of_its_end(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        async with serving(driver, node.registry):
            await node.drivers.round()
            assert driver.statuses == [(True, "")]
            assert node.drivers.get(DRIVER) is not None
            told = api.objects[node_path(NODE.name)]
            assert told["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
            assert told["spec"]["drivers"] == [
                {
                    "name": DRIVER,
                    "nodeID": "machine-1",
                    "topologyKeys": ["topology.disk.example/node"],
                    "allocatable": {"count": 7},
                }
            ]
            metadata = api.objects[f"/api/v1/nodes/{NODE.name}"]["metadata"]
            assert metadata["annotations"] == {"csi.volume.kubernetes.io/nodeid": '{"disk.example": "machine-1"}'}
            assert metadata["labels"]["topology.disk.example/node"] == "machine-1"
            await node.drivers.round()
            assert len(driver.statuses) == 1
        await node.drivers.round()
        assert node.drivers.get(DRIVER) is None
        assert api.objects[node_path(NODE.name)]["spec"]["drivers"] == []

    async def test_a_plugin_of_another_kind_is_refused_by_name(self, node: Node, driver: StorageDriver) -> None:
        driver.kind, driver.versions = "DevicePlugin", ["v1beta1"]
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.drivers.round()
        ((taken, why),) = driver.statuses
        assert not taken
        assert "not DevicePlugin with v1beta1" in why

    async def test_a_driver_that_does_not_answer_yet_is_asked_again(self, node: Node, driver: StorageDriver) -> None:
        driver.refusals["info"] = (grpc.StatusCode.UNAVAILABLE, "starting")
        async with serving(driver, node.registry):
            await node.drivers.round()
            assert node.drivers.get(DRIVER) is None
            driver.refusals.clear()
            await node.drivers.round()
            assert node.drivers.get(DRIVER) is not None

    async def test_a_driver_that_hangs_holds_up_no_other(
        self, node: Node, driver: StorageDriver, short: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(csi_drivers, "PATIENCE_SECONDS", 0.2)
        monkeypatch.setattr(csi_drivers, "LOOK_SECONDS", 0.01)
        hangs = StorageDriver("a.example", short / "a", [])
        hangs.hangs.add("info")
        async with serving(hangs, node.registry), serving(driver, node.registry):
            running = asyncio.ensure_future(node.drivers.run())
            await until(lambda: bool(hangs.asked("info")) and node.drivers.get(DRIVER) is not None)
            assert node.drivers.get("a.example") is None
            await cancelled(running)
        assert len(hangs.asked("info")) == 1

    @pytest.mark.parametrize("endpoint", ["csi.sock", "/a\0b"])
    async def test_an_endpoint_that_is_no_path_is_an_error_of_that_plugin(
        self, node: Node, driver: StorageDriver, endpoint: str
    ) -> None:
        driver.endpoint = endpoint
        async with serving(driver, node.registry):
            await node.drivers.round()
        assert node.drivers.get(DRIVER) is None

    async def test_a_file_that_is_no_socket_is_left_alone(self, node: Node) -> None:
        node.registry.mkdir()
        (node.registry / "notes").write_text("x")
        await node.drivers.round()
        assert (node.registry / "notes").read_text() == "x"


class TestAVolume:
    """From its staging to its end."""

    async def test_it_is_staged_and_published_for_the_pod(self, node: Node, driver: StorageDriver) -> None:
        async with serving(driver, node.registry):
            await node.drivers.round()
            place = await node.brought()
        target = csi_target(node.context, "u1", "pv-1")
        assert place.path == str(target)
        assert target.is_dir()
        (staged,), (published,) = driver.asked("stage"), driver.asked("publish")
        assert staged.volume_id == published.volume_id == "vol-1"
        assert staged.staging_target_path == published.staging_target_path
        assert staged.staging_target_path.startswith(f"{node.context.state_dir}/plugins/kubernetes.io/csi/{DRIVER}/")
        assert published.target_path == str(target)
        assert list(published.volume_capability.mount.mount_flags) == ["noatime"]
        assert published.volume_capability.access_mode.mode == 1
        assert dict(published.volume_context) == {"pool": "fast"}
        assert not published.readonly

    async def test_a_driver_that_does_not_stage_is_not_asked_to(self, node: Node, driver: StorageDriver) -> None:
        driver.capabilities = []
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.brought()
            await node.claims.forget(NEED.ref)
        assert [call for call, _ in driver.calls if call in ("stage", "unstage")] == []
        assert driver.asked("publish")[0].staging_target_path == ""

    async def test_it_is_let_go_of_after_its_last_pod(self, node: Node, driver: StorageDriver) -> None:
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.brought()
            await node.brought(OTHER)
            await node.claims.forget(NEED.ref)
            assert len(driver.asked("unpublish")) == 1
            assert not driver.asked("unstage")
            staging = Path(driver.asked("stage")[0].staging_target_path)
            assert staging.is_dir()
            await node.claims.forget(OTHER.ref)
            assert len(driver.asked("unstage")) == 1
        assert not staging.parent.exists()
        assert node.store.versions() == {}
        assert not csi_target(node.context, "u1", "pv-1").parent.exists()

    async def test_a_refusal_is_the_reason_that_the_pod_waits_and_is_undone_too(
        self, node: Node, driver: StorageDriver
    ) -> None:
        driver.refusals["publish"] = (grpc.StatusCode.INTERNAL, "no such\ndisk")
        async with serving(driver, node.registry):
            await node.drivers.round()
            follower, running = node.follow()
            await until(lambda: follower.trouble == "NodePublishVolume: INTERNAL: no such disk")
            await cancelled(running)
            assert not follower.is_known
            node.begin()  # the worker died meanwhile
            await node.drivers.round()
            await node.claims.forget(NEED.ref)
            assert driver.asked("unpublish")
            assert driver.asked("unstage")

    async def test_what_cannot_be_undone_yet_is_undone_later(self, node: Node, driver: StorageDriver) -> None:
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.brought()
        await node.drivers.round()
        await node.claims.forget(NEED.ref)
        assert NEED.ref in node.store.versions()
        async with serving(driver, node.registry):
            await node.drivers.round()
            driver.refusals["unpublish"] = (grpc.StatusCode.INTERNAL, "busy")
            await node.claims.forget(NEED.ref)
            assert NEED.ref in node.store.versions()
            driver.refusals["unpublish"] = (grpc.StatusCode.NOT_FOUND, "gone")
            await node.claims.forget(NEED.ref)
            assert NEED.ref not in node.store.versions()

    async def test_the_next_worker_asks_for_nothing_and_the_next_boot_for_all(
        self, node: Node, driver: StorageDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.brought()
            node.begin()
            await node.drivers.round()
            await node.brought()
            assert len(driver.asked("publish")) == 1
            monkeypatch.setattr("syncpod.agent.kubernetes.csi_volumes.boot_id", lambda: "another")
            await node.brought()
            assert len(driver.asked("publish")) == 2
            assert len(driver.asked("stage")) == 2

    @pytest.mark.skipif(not may_mount(), reason="mounting needs CAP_SYS_ADMIN")
    async def test_a_pods_directory_is_left_whole_until_the_driver_has_unmounted(
        self, node: Node, driver: StorageDriver, tmp_path: Path
    ) -> None:
        disk, target = tmp_path / "disk", csi_target(node.context, "u1", "pv-1")
        disk.mkdir()
        (disk / "file").touch()
        async with serving(driver, node.registry):
            await node.drivers.round()
            await node.brought()
            bind(disk, target)
            try:
                with pytest.raises(StillMounted, match="a storage driver has not unmounted"):
                    remove_pod_files(node.context, namespace="default", name="web", uid="u1")
                assert (target / "file").exists()
            finally:
                unmount(target)
            await node.claims.forget(NEED.ref)
        remove_pod_files(node.context, namespace="default", name="web", uid="u1")
        assert not pod_directory(node.context, "u1").exists()
        assert (disk / "file").exists()

    async def test_a_driver_that_has_not_registered_is_waited_for(self, node: Node, driver: StorageDriver) -> None:
        follower, running = node.follow()
        await until(lambda: "not found in the list of registered CSI drivers" in follower.trouble)
        async with serving(driver, node.registry):
            await node.drivers.round()
            await until(lambda: follower.is_known)
        await cancelled(running)

    async def test_a_volume_is_staged_once_the_cluster_has_attached_it(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        await api.put(driver_path(DRIVER), of_driver())
        path = attachment_path(csi_volume(a_volume()), NODE.name)
        async with serving(driver, node.registry):
            await node.drivers.round()
            told: list[str] = []
            follower = node.claims.follow(NEED, lambda: told.append(follower.trouble))
            running = asyncio.ensure_future(follower.run())
            await until(lambda: follower.trouble == "volume pv-1 is not attached to this node yet")
            assert told == [follower.trouble]  # a pod that waits may begin, and show the reason
            await api.put(path, {"metadata": {"name": "a"}, "status": {"attachError": {"message": "no quota"}}})
            await until(lambda: follower.trouble.endswith("yet: no quota"))
            assert volumes_in_use(node.store) == []
            attached = {"attached": True, "attachmentMetadata": {"device": "/dev/sdx"}}
            await api.put(path, {"metadata": {"name": "a"}, "status": attached})
            await until(lambda: follower.is_known)
            await cancelled(running)
        assert dict(driver.asked("stage")[0].publish_context) == {"device": "/dev/sdx"}
        assert volumes_in_use(node.store) == [f"kubernetes.io/csi/{DRIVER}^vol-1"]

    async def test_a_drivers_secrets_are_kept_nowhere_and_hidden_in_its_answers(
        self, api: ApiServer, node: Node, driver: StorageDriver
    ) -> None:
        await api.put(object_path("Secret", "keys"), given("Secret", "keys", password="swordfish-4711"))
        await api.put(volume_path("pv-1"), a_volume(nodeStageSecretRef={"name": "keys", "namespace": "default"}))
        driver.refusals["stage"] = (grpc.StatusCode.UNAUTHENTICATED, "bad password swordfish-4711")
        async with serving(driver, node.registry):
            await node.drivers.round()
            follower, running = node.follow()
            await until(lambda: follower.trouble == "NodeStageVolume: UNAUTHENTICATED: bad password ***")
            await cancelled(running)
        of_process.forget(["swordfish-4711"])
        assert dict(driver.asked("stage")[0].secrets) == {"password": "swordfish-4711"}
        files = [path for path in node.context.state_dir.rglob("*") if path.is_file()]
        assert not any(b"swordfish" in path.read_bytes() for path in files)

    @pytest.mark.parametrize("by_root", [False, True])
    async def test_it_is_given_to_the_pods_group_by_the_drivers_policy_and_the_pods(
        self, api: ApiServer, node: Node, driver: StorageDriver, *, by_root: bool
    ) -> None:
        await api.put(driver_path(DRIVER), of_driver(attachRequired=False, fsGroupPolicy="File"))
        need = ClaimNeed(
            NEED.ref,
            "web",
            "u1",
            "disk",
            is_pods_own=False,
            group=os.getgid(),
            only_if_root_differs=by_root,
        )
        async with serving(driver, node.registry):
            await node.drivers.round()
            place = await node.brought(need)
            assert Path(place.path).stat().st_mode & 0o2060 == 0o2060
            (Path(place.path) / "file").touch(mode=0o600)
            await node.volumes.bring(csi_volume(a_volume()), need)
        is_given = (Path(place.path) / "file").stat().st_mode & 0o060 == 0o060
        assert is_given is not by_root
        assert driver.asked("publish")[0].volume_capability.mount.volume_mount_group == ""


def test_a_driver_that_asks_is_told_of_the_pod() -> None:
    volume = csi_volume(a_volume())
    told = publish_attributes(volume, driver_traits(of_driver(podInfoOnMount=True)), NEED)
    assert told == {
        "pool": "fast",
        "csi.storage.k8s.io/pod.name": "web",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "u1",
        "csi.storage.k8s.io/serviceAccount.name": "default",
        "csi.storage.k8s.io/ephemeral": "false",
    }
    assert publish_attributes(volume, driver_traits(None), NEED) == {"pool": "fast"}


@pytest.mark.parametrize(
    ("policy", "csi", "is_given"),
    [
        (None, {"fsType": "ext4"}, True),
        (None, {}, False),
        ("File", {}, True),
        ("None", {"fsType": "ext4"}, False),
    ],
)
def test_the_policy_says_whether_a_volume_is_given_to_the_group(
    policy: str | None, csi: dict[str, Any], *, is_given: bool
) -> None:
    traits = driver_traits(of_driver(**({} if policy is None else {"fsGroupPolicy": policy})))
    assert is_given_to_group(csi_volume(a_volume(**csi)), traits) is is_given


@pytest.mark.parametrize("csi", [{"driver": ""}, {"volumeHandle": ""}, {"driver": "../x"}, {"driver": ".."}])
def test_a_volume_without_a_driver_or_a_handle_says_so(csi: dict[str, Any]) -> None:
    with pytest.raises(NotUsable, match="names no driver or no volumeHandle"):
        csi_volume(a_volume(**csi))


def test_a_node_without_drivers_is_left_as_it_is() -> None:
    assert node_patch(A_NODE, {}) is None
    assert GROUP.endswith("storage.k8s.io/v1")
