# ruff: noqa: ASYNC240 - a look at a directory is what these tests are about
"""Local block volumes and those of storage drivers, which containers get as devices."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import followed_claim
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.claimed_volume import claim_path, volume_path
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.csi import driver_path
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_volumes import MountFailure, make_volumes, pod_volumes
from syncpod.objects import ClaimNeed
from syncpod.pod import Pod
from syncpod.translation.mounts import container_devices, container_mounts
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, pod, served, write_kubeconfig
from tests.kubernetes.storage_driver import DRIVER, NEED, Node, StorageDriver, a_volume, cancelled, of_driver, serving


def a_pod(*, is_mounted: bool = False, **claim: Any) -> BoundPod:
    """A pod with a claim that a container gets as a device."""
    uses = {"volumeMounts": [{"name": "raw", "mountPath": "/raw"}]}
    if not is_mounted:
        uses = {"volumeDevices": [{"name": "raw", "devicePath": "/dev/raw"}]}
    volume = {"name": "raw", "persistentVolumeClaim": {"claimName": "disk", **claim}}
    found = bound_pod(pod("web", spec={"containers": [{"name": "c", "image": "i", **uses}], "volumes": [volume]}))
    assert found is not None and found.document is not None, found
    return found


def need_of(found: BoundPod) -> ClaimNeed:
    """The pod's need of volumes."""
    [need] = [each for each in found.needs if isinstance(each, ClaimNeed)]
    return need


@pytest.fixture
def device(tmp_path: Path) -> str:
    """A block device without a driver, since only its type matters."""
    path = tmp_path / "device"
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(240, 7))
    except PermissionError:
        pytest.skip("making a device needs CAP_MKNOD")
    return str(path)


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server with the claim and its driver."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_claim, "RETRY_SECONDS", 0.02)
    async with served() as server:
        claim = {"metadata": {"name": "disk", "uid": "claim-uid"}, "spec": {"volumeName": "pv-1"}}
        await server.put(claim_path(NEED), {**claim, "status": {"phase": "Bound"}})
        await server.put(driver_path(DRIVER), of_driver(attachRequired=False, fsGroupPolicy="File", tokenRequests=[{}]))
        yield server


@pytest_asyncio.fixture
async def node(api: ApiServer) -> AsyncIterator[Node]:
    """A node of that server."""
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        config = read_kubeconfig(write_kubeconfig(Path(directory, "config"), api))
        async with ApiClient(config, user_agent="test") as client:
            yield Node(client, Path(directory))


def volume_of(source: dict[str, Any], mode: str = "Block") -> dict[str, Any]:
    """The volume with a source."""
    made = a_volume()
    spec = {name: each for name, each in made["spec"].items() if name != "csi"}
    return {**made, "spec": {**spec, **source, "volumeMode": mode}}


def made(node: Node, found: BoundPod) -> Pod:
    """Make the pod's volumes."""
    ours = Pod.model_validate(found.document)
    make_directories(own_directories(found.uid, node.context))
    make_volumes(pod_directory(node.context, found.uid), pod_volumes(ours, node.context), node.store)
    return ours


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_container_gets_a_local_block_volume_as_a_device(
    api: ApiServer, node: Node, device: str, *, read_only: bool
) -> None:
    await api.put(volume_path("pv-1"), volume_of({"local": {"path": device}}))
    found = a_pod(readOnly=read_only)
    await node.brought(need_of(found))
    ours = made(node, found)
    [given] = container_devices(ours, ours.spec.containers[0], node.context, "c")
    assert Path(given.host_path).resolve() == Path(device)
    assert (given.container_path, given.permissions) == ("/dev/raw", "r" if read_only else "mrw")
    assert not [each for each in container_mounts(ours, ours.spec.containers[0], node.context, (), "c")]


async def test_what_is_no_device_is_given_to_nobody(api: ApiServer, node: Node, tmp_path: Path) -> None:
    await api.put(volume_path("pv-1"), volume_of({"local": {"path": str(tmp_path)}}))
    found = a_pod()
    await node.brought(need_of(found))
    with pytest.raises(MountFailure, match="of a block volume must be a block device"):
        made(node, found)


@pytest.mark.parametrize(
    ("source", "mode", "is_mounted", "why"),
    [
        ({"local": {"path": "/d"}}, "Block", True, "volume raw has volumeMode Block, but is specified in volumeMounts"),
        (
            *({"local": {"path": "/d"}}, "Filesystem", False),
            "volume raw has volumeMode Filesystem, but is specified in volumeDevices",
        ),
        (
            *({"hostPath": {"path": "/d"}}, "Block", False),
            "PV pv-1 has the volumeMode Block, which a hostPath volume cannot have",
        ),
    ],
)
async def test_a_volume_is_used_as_what_it_is(
    api: ApiServer, node: Node, source: dict[str, Any], mode: str, why: str, *, is_mounted: bool
) -> None:
    await api.put(volume_path("pv-1"), volume_of(source, mode))
    follower, running = node.follow(need_of(a_pod(is_mounted=is_mounted)))
    await until(lambda: follower.trouble == why)
    await cancelled(running)


async def test_a_driver_shows_a_block_volume_where_the_kubelet_wants_it_and_it_is_let_go_of(
    api: ApiServer, node: Node
) -> None:
    source = a_volume(fsType="ext4")["spec"]["csi"]
    await api.put(volume_path("pv-1"), volume_of({"csi": source}))
    driver = StorageDriver(DRIVER, node.context.state_dir / "driver", ["STAGE_UNSTAGE_VOLUME"])
    need = need_of(a_pod())
    devices = node.context.state_dir / "plugins/kubernetes.io/csi/volumeDevices"
    async with serving(driver, node.registry):
        await node.drivers.round()
        place = await node.brought(need)
        [staged], [published] = driver.asked("stage"), driver.asked("publish")
        assert staged.staging_target_path == published.staging_target_path == str(devices / "staging/pv-1")
        assert published.target_path == place.path == str(devices / "publish/pv-1" / need.uid)
        for asked in (staged, published):
            assert asked.volume_capability.WhichOneof("access_type") == "block"
        assert list(published.volume_context) == ["pool"], "no tokens, as by a kubelet"
        await node.claims.forget(need.ref)
        assert driver.asked("unpublish")[0].target_path == place.path
        assert driver.asked("unstage")[0].staging_target_path == staged.staging_target_path
    assert [path for path in devices.rglob("*") if path.name == "pv-1"] == []
    assert node.store.versions() == {}
