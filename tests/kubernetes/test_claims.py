"""A pod's claims: each path is requested once, kept on the node, and given to containers by a symlink.

Holds: A claim that is bound gives its pod the volume's own place, and while it is not, the pod waits with the reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import followed_claim
from syncpod.agent.kubernetes.followed_claim import FollowedClaim
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.claimed_volume import NotUsable, bound_volume, claim_path, place_of, volume_path
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_volumes import MountFailure, make_volumes, pod_volumes
from syncpod.objects import ClaimedPlace, ClaimNeed, ObjectStore, ObjectUnknown, kept_place, references
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.mounts import container_mounts
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, pod, served, write_kubeconfig
from tests.kubernetes.storage_driver import claims
from tests.translation.translation import NODE

LABELS = {"kubernetes.io/hostname": "n1"}
HERE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
        ]
    }
}


def a_pod(volume: dict[str, Any], **spec: Any) -> BoundPod:
    """A pod of the cluster with one volume, mounted at /data."""
    container = {"name": "c", "image": "busybox:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    given = pod("web", spec={"containers": [container], "volumes": [{"name": "data", **volume}], **spec})
    found = bound_pod(given)
    assert found is not None
    return found


def of_claim(name: str = "disk", **more: Any) -> BoundPod:
    """A pod of the cluster with a claim."""
    return a_pod({"persistentVolumeClaim": {"claimName": name}}, **more)


def the_need(found: BoundPod) -> ClaimNeed:
    """Its claim."""
    (need,) = (each for each in found.needs if isinstance(each, ClaimNeed))
    return need


def a_claim(volume: str = "pv-1", *, phase: str = "Bound", **metadata: Any) -> dict[str, Any]:
    """A claim, as an API server stores it."""
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": "disk", "namespace": "default", "uid": "claim-uid", **metadata},
        "spec": {"volumeName": volume},
        "status": {"phase": phase},
    }


def a_volume(source: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A volume that is bound to that claim."""
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": "pv-1"},
        "spec": {"claimRef": {"uid": "claim-uid"}, "capacity": {"storage": "1Gi"}, **source, **spec},
    }


class TestWhatAClaimGives:
    """The claim and the volume, as values."""

    def test_a_local_volume_is_its_path_on_this_node(self) -> None:
        volume = a_volume({"local": {"path": "/mnt/disk"}}, nodeAffinity=HERE)
        assert place_of(a_claim(), volume, "n1", LABELS, the_need(of_claim())) == ClaimedPlace(
            "pv-1", "local", "/mnt/disk"
        )

    def test_a_host_path_volume_has_its_type(self) -> None:
        volume = a_volume({"hostPath": {"path": "/data", "type": "DirectoryOrCreate"}})
        found = place_of(a_claim(), volume, "n1", {}, the_need(of_claim()))
        assert found == ClaimedPlace("pv-1", "hostPath", "/data", "DirectoryOrCreate")

    @pytest.mark.parametrize(
        ("volume", "why"),
        [
            (a_volume({"local": {"path": "/mnt"}}, nodeAffinity=HERE), "storage node affinity check failed"),
            (a_volume({"local": {"path": "/mnt"}}, claimRef={"uid": "another"}), "claimRef has another UID"),
            (
                a_volume({"local": {"path": "/mnt"}}, volumeMode="Block"),
                "volumeMode Block, but is specified in volumeMounts",
            ),
            (a_volume({"local": {"path": "/mnt/../etc"}}), "no absolute path"),
            (a_volume({"local": {"path": "mnt"}}), "no absolute path"),
            (a_volume({"nfs": {"server": "s", "path": "/"}}), "of the kind nfs"),
        ],
    )
    def test_any_other_volume_says_why_it_cannot_be_used(self, volume: dict[str, Any], why: str) -> None:
        with pytest.raises(NotUsable, match=why):
            place_of(a_claim(), volume, "n2", {"kubernetes.io/hostname": "n2"}, the_need(of_claim()))

    @pytest.mark.parametrize(
        ("claim", "why"),
        [
            (a_claim(phase="Pending"), "PVC is not bound"),
            (a_claim(""), "PVC is not bound"),
            (a_claim(deletionTimestamp="2026-01-01T00:00:00Z"), "PVC is being deleted"),
            ({}, "PVC is not bound"),
        ],
    )
    def test_a_claim_that_is_not_bound_says_so(self, claim: dict[str, Any], why: str) -> None:
        with pytest.raises(NotUsable, match=why):
            bound_volume(claim, the_need(of_claim()))

    def test_a_claim_that_is_made_with_the_pod_belongs_to_that_pod(self) -> None:
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        need = the_need(a_pod({"ephemeral": {"volumeClaimTemplate": {"spec": asked}}}))
        assert need.claim == "web-data"
        with pytest.raises(NotUsable, match="PVC default/web-data was not created for pod web"):
            bound_volume(a_claim(), need)
        owner = {"kind": "Pod", "name": "web", "uid": need.uid, "controller": True}
        assert bound_volume(a_claim(ownerReferences=[owner]), need) == "pv-1"


def test_only_a_pod_of_the_cluster_has_claims() -> None:
    found = of_claim()
    assert found.refusal is None
    assert the_need(found).ref in found.refs
    ours = Pod.model_validate(
        {"metadata": {"name": "web"}, "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {}}]}}
    )
    assert not any(each.ref.origin == "claim" for each in references(ours))


class Made:
    """Makes a pod's volumes on a node of its own."""

    def __init__(self, directory: Path, found: BoundPod) -> None:
        self.node: NodeContext = replace(NODE, state_dir=directory / "state", memory_dir=directory / "memory")
        self.store = ObjectStore(self.node.state_dir, self.node.memory_dir)
        self.pod = Pod.model_validate(found.document)
        self.need = the_need(found)
        make_directories(own_directories(self.pod.metadata.uid, self.node))

    def keep(self, place: ClaimedPlace) -> None:
        """Let the node store the volume's place."""
        self.store.keep(kept_place(self.need.ref, place), "claim")

    def make(self) -> Path:
        """Make the volumes; return what the runtime is to mount at /data."""
        make_volumes(pod_directory(self.node, self.pod.metadata.uid), pod_volumes(self.pod, self.node), self.store)
        return Path(self.mount().host_path)

    def mount(self) -> Any:
        """The mount in the request to the runtime."""
        return container_mounts(self.pod, self.pod.spec.containers[0], self.node, (), "spec.containers[0]")[0]


class TestTheVolumeOfAPod:
    """The symlink to the place."""

    def test_containers_are_given_the_place_itself(self, tmp_path: Path) -> None:
        made, disk = Made(tmp_path, of_claim()), tmp_path / "disk"
        disk.mkdir()
        made.keep(ClaimedPlace("pv-1", "local", str(disk)))
        for _ in range(2):
            link = made.make()
            assert link.is_symlink()
            assert link.resolve() == disk
        assert not made.mount().readonly

    def test_a_claim_that_is_read_only_is_mounted_so(self, tmp_path: Path) -> None:
        found = a_pod({"persistentVolumeClaim": {"claimName": "disk", "readOnly": True}})
        assert Made(tmp_path, found).mount().readonly

    def test_a_place_that_is_not_known_says_why_and_is_waited_for(self, tmp_path: Path) -> None:
        made = Made(tmp_path, of_claim())
        made.store.explain(made.need.ref, "default/disk: PVC is not bound")
        with pytest.raises(MountFailure, match="error processing PVC default/disk: PVC is not bound") as failed:
            made.make()
        assert failed.value.failures[0].wants == (made.need.ref,)

    def test_a_local_volume_must_be_a_directory_that_exists(self, tmp_path: Path) -> None:
        made = Made(tmp_path, of_claim())
        made.keep(ClaimedPlace("pv-1", "local", str(tmp_path / "disk")))
        with pytest.raises(MountFailure, match="does not exist"):
            made.make()
        (tmp_path / "disk").touch()
        with pytest.raises(MountFailure, match="must be a directory"):
            made.make()

    def test_a_host_path_behind_a_claim_is_made_where_its_type_says_so(self, tmp_path: Path) -> None:
        made = Made(tmp_path, of_claim())
        made.keep(ClaimedPlace("pv-1", "hostPath", str(tmp_path / "disk"), "DirectoryOrCreate"))
        assert made.make().resolve() == tmp_path / "disk"
        assert (tmp_path / "disk").is_dir()

    @pytest.mark.parametrize("policy", ["Always", "OnRootMismatch"])
    def test_a_local_volume_is_given_to_the_pods_group(self, policy: str, tmp_path: Path) -> None:
        group, disk = os.getgid(), tmp_path / "disk"
        disk.mkdir(mode=0o700)
        made = Made(tmp_path, of_claim(securityContext={"fsGroup": group, "fsGroupChangePolicy": policy}))
        made.keep(ClaimedPlace("pv-1", "local", str(disk)))
        made.make()
        assert disk.stat().st_mode & 0o2770 == 0o2770
        (disk / "file").touch(mode=0o600)
        made.make()
        assert bool((disk / "file").stat().st_mode & 0o060) is (policy == "Always")

    def test_a_pod_that_is_gone_stays_so(self, tmp_path: Path) -> None:
        made = Made(tmp_path, of_claim())
        made.keep(ClaimedPlace("pv-1", "local", str(tmp_path)))
        own = pod_directory(made.node, made.pod.metadata.uid)
        own.rename(tmp_path / "gone")
        with pytest.raises(FileNotFoundError):
            made.make()
        assert not own.exists()


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server; the node's waits after failures are short."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_claim, "RETRY_SECONDS", 0.02)
    async with served() as server:
        yield server


async def test_a_claim_is_followed_until_it_is_bound_and_serves_without_the_server(
    api: ApiServer, tmp_path: Path
) -> None:
    store, need = ObjectStore(tmp_path / "state", tmp_path / "memory"), the_need(of_claim())
    told: list[None] = []
    async with ApiClient(read_kubeconfig(write_kubeconfig(tmp_path / "config", api)), user_agent="test") as client:

        def follow() -> tuple[FollowedClaim, asyncio.Task[None]]:
            follower = claims(client, store).follow(need, lambda: told.append(None))
            return follower, asyncio.ensure_future(follower.run())

        follower, running = follow()
        await until(lambda: "failed to fetch PVC from API server" in follower.trouble)
        await api.put(claim_path(need), a_claim(phase="Pending"))
        await until(lambda: follower.trouble == "PVC is not bound")
        with pytest.raises(ObjectUnknown, match="error processing PVC default/disk: PVC is not bound"):
            store.get(need.ref)
        await api.put(volume_path("pv-1"), a_volume({"local": {"path": "/mnt/disk"}}, nodeAffinity=HERE))
        await api.put(claim_path(need), a_claim())
        await until(lambda: follower.is_known and bool(told))
        assert store.get(need.ref) == kept_place(need.ref, ClaimedPlace("pv-1", "local", "/mnt/disk"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await api.remove(claim_path(need))
        follower, running = follow()  # the next worker
        await until(lambda: follower.is_known)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
