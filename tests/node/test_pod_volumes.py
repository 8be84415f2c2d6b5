"""A pod's volumes on disk: made, updated in place, and removed.

Holds: Only mounts that were made for a pod are unmounted with it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from syncpod.kernel import mounting
from syncpod.kernel.tree_removal import StillMounted
from syncpod.node.directories import plan_pod, prepare_pod, remove_pod_files
from syncpod.node.pod_volumes import MountFailure, alone, pod_volumes, refresh_volumes, share_volumes
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.translation.translation import NODE, UID, make_pod

MAP, PASSWORD = ObjectRef("ConfigMap", "default", "settings"), ObjectRef("Secret", "default", "password")
VOLUMES: list[dict[str, Any]] = [
    {"name": "map", "configMap": {"name": "settings"}},
    {"name": "secret", "secret": {"secretName": "password"}},
    {"name": "me", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {
        "name": "both",
        "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "password"}}]},
    },
    {"name": "plain", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
]


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return replace(
        NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory", log_dir=tmp_path / "logs" / "pods"
    )


@pytest.fixture
def store(node: NodeContext) -> ObjectStore:
    return ObjectStore(node.state_dir, node.memory_dir)


def put(store: ObjectStore, colour: str = "red", root: str = "secret-text") -> None:
    of = {"namespace": "default"}
    store.put(ConfigMap.model_validate({"metadata": {"name": "settings", **of}, "data": {"colour": colour}}))
    store.put(Secret.model_validate({"metadata": {"name": "password", **of}, "stringData": {"root": root}}))


def pod_of(*volumes: dict[str, Any], **spec: Any) -> Pod:
    return make_pod({"volumes": list(volumes), **spec}, labels={"app": "web"})


def make(pod: Pod, node: NodeContext, store: ObjectStore) -> None:
    prepare_pod(plan_pod(pod, node), store)


def texts(pod: Pod, node: NodeContext) -> dict[str, str]:
    """The content of each file of each volume, by `volume/file`."""
    return {
        f"{volume.name}/{file.name}": file.read_text()
        for volume in pod_volumes(pod, node)
        if volume.path is not None and volume.path.is_dir()
        for file in volume.path.iterdir()
        if file.is_file()
    }


def test_volume_files_are_written_and_secrets_kept_in_memory(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES)
    make(pod, node, store)
    assert texts(pod, node) == {
        "map/colour": "red",
        "secret/root": "secret-text",
        "me/labels": 'app="web"',
        "both/colour": "red",
        "both/root": "secret-text",
        "plain/colour": "red",
    }
    own, in_memory = f"state/pods/{UID}/volumes", f"memory/pods/{UID}/volumes"
    assert [
        str(volume.path and volume.path.relative_to(node.state_dir.parent)) for volume in pod_volumes(pod, node)
    ] == [
        f"{own}/kubernetes.io~configmap/map",
        f"{in_memory}/kubernetes.io~secret/secret",
        f"{own}/kubernetes.io~downward-api/me",
        f"{in_memory}/kubernetes.io~projected/both",
        f"{own}/kubernetes.io~projected/plain",
    ]
    assert "secret-text" not in "".join(
        path.read_text() for path in (node.state_dir / "pods").rglob("*") if path.is_file()
    )


def test_the_repr_of_a_volume_plan_omits_secret_values(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    assert "secret-text" not in repr(plan_pod(pod_of(*VOLUMES), node))


def test_all_missing_sources_are_reported_at_once_and_the_other_volumes_written(
    node: NodeContext, store: ObjectStore
) -> None:
    pod = pod_of(*VOLUMES[:3], {"name": "no", "hostPath": {"path": "/nowhere", "type": "Directory"}})
    with pytest.raises(MountFailure) as caught:
        make(pod, node, store)
    setup = "MountVolume.SetUp failed for volume"
    assert [(failure.message, failure.wants) for failure in caught.value.failures] == [
        (
            f'{setup} "no" : hostPath type check failed, /nowhere is not a directory, unable to determine its type: '
            'path "/nowhere" does not exist',
            (),
        ),
        (f'{setup} "map" : configmap "settings" not found', (MAP,)),
        (f'{setup} "secret" : secret "password" not found', (PASSWORD,)),
    ]
    assert texts(pod, node) == {"me/labels": 'app="web"'}


def test_the_error_of_an_unreadable_object_omits_its_content(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    (file,) = node.memory_dir.rglob("password.json")
    for text, why in (('{"secret-text', "holds no Secret"), ('{"data": {"a": "secret-text!"}}', "password")):
        file.write_text(text)
        with pytest.raises(MountFailure, match=why) as caught:
            make(pod_of(VOLUMES[1]), node, store)
        assert "secret-text" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group it is not in")
def test_volume_files_are_readable_by_the_fs_group(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    secret = {"name": "v", "secret": {"secretName": "password", "defaultMode": 0o400}}
    pod = pod_of(secret, securityContext={"fsGroup": 2000})
    for root in ("one", "two"):
        put(store, root=root)
        make(pod, node, store)
        (volume,) = (each.path for each in pod_volumes(pod, node))
        assert volume is not None
        found = (volume / "root").stat()
        assert (oct(found.st_mode & 0o7777), found.st_gid) == ("0o440", 2000)
        assert (oct(volume.stat().st_mode & 0o7777), volume.stat().st_gid) == ("0o3777", 2000)


# --- in memory --------------------------------------------------------------------------------------------------------

MOUNTS = pytest.mark.skipif(not mounting.may_mount(), reason="mounts")


@pytest.fixture
def mounting_node(node: NodeContext) -> Iterator[NodeContext]:
    """A node that may mount, and leaves nothing mounted."""
    yield replace(node, may_mount=True)
    for place in mounting.mounts_below(node.state_dir.parent.resolve()):
        mounting.unmount(place)


def shape(pod: Pod, node: NodeContext) -> dict[str, tuple[bool, str]]:
    """For each volume: whether it is a mount, and the mode of its directory."""
    return {
        volume.name: (mounting.is_mount(volume.path), oct(volume.path.stat().st_mode & 0o7777))
        for volume in pod_volumes(pod, node)
        if volume.path is not None
    }


@MOUNTS
def test_downward_and_projected_volumes_are_each_a_tmpfs(mounting_node: NodeContext, store: ObjectStore) -> None:
    """Row 121: as large as the pod's memory limit lets it be."""
    put(store)
    limited = {"name": "main", "image": "busybox:1", "resources": {"limits": {"memory": "1Mi"}}}
    pod = pod_of(*VOLUMES, containers=[limited])
    for _ in range(2):
        make(pod, mounting_node, store)
        assert shape(pod, mounting_node) == {
            "map": (False, "0o777"),
            "secret": (False, "0o1777"),
            "me": (True, "0o1777"),
            "both": (False, "0o1777"),
            "plain": (True, "0o1777"),
        }
    place = next(volume.path for volume in pod_volumes(pod, mounting_node) if volume.name == "me")
    assert place is not None
    of_file_system = os.statvfs(place)
    assert of_file_system.f_blocks * of_file_system.f_frsize == 1 << 20
    put(store, colour="blue")
    assert refresh_volumes(pod, mounting_node, store) == ("map", "both", "plain")
    assert texts(pod, mounting_node)["plain/colour"] == "blue"
    remove(mounting_node)
    assert not mounting.mounts_below(mounting_node.state_dir.resolve())


@MOUNTS
def test_memory_volumes_lost_in_a_reboot_are_mounted_and_written_again(
    mounting_node: NodeContext, store: ObjectStore
) -> None:
    put(store)
    pod = pod_of(*VOLUMES[2:])
    make(pod, mounting_node, store)
    before = texts(pod, mounting_node)
    for place in mounting.mounts_below(mounting_node.state_dir.resolve()):
        mounting.unmount(place)
    assert texts(pod, mounting_node) != before
    make(pod, mounting_node, store)
    assert (texts(pod, mounting_node), shape(pod, mounting_node)["me"]) == (before, (True, "0o1777"))


@MOUNTS
def test_volumes_already_on_disk_stay_there(mounting_node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(VOLUMES[4])
    make(pod, replace(mounting_node, may_mount=False), store)
    (place,) = (volume.path for volume in pod_volumes(pod, mounting_node))
    assert place is not None
    as_container = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        put(store, colour="blue")
        assert refresh_volumes(pod, mounting_node, store) == ("plain",)
        with os.fdopen(os.open("colour", os.O_RDONLY, dir_fd=as_container)) as file:
            assert file.read() == "blue"
    finally:
        os.close(as_container)
    assert not mounting.is_mount(place)
    remove(mounting_node)


class Killed(BaseException):
    """Raised where the worker dies."""


def until_line(line: int, act: Callable[[], object]) -> bool:
    """Call `act`, and die before this executed line (by number) in the modules of volumes; return whether it ended."""
    left = line

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(WATCHED):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Killed
        return trace

    sys.settrace(trace)
    try:
        act()
    except Killed:
        return False
    finally:
        sys.settrace(None)
    return True


WATCHED = ("volumes/files.py", "volumes/nested.py", "volumes/empty_dir.py", "node/directories.py", "kernel/mounting.py")


@MOUNTS
def test_volumes_are_made_and_removed_completely_after_a_worker_kill_at_any_line(
    mounting_node: NodeContext, store: ObjectStore
) -> None:
    put(store)
    mounts = [{"name": "plain", "mountPath": "/v"}, {"name": "me", "mountPath": "/v/in"}]
    pod = pod_of(VOLUMES[4], VOLUMES[2], containers=[{"name": "main", "image": "busybox:1", "volumeMounts": mounts}])
    line, whole = 0, False
    while not whole:
        whole = until_line(line, lambda: make(pod, mounting_node, store))
        make(pod, mounting_node, store)
        assert texts(pod, mounting_node) == {"plain/colour": "red", "me/labels": 'app="web"'}
        assert shape(pod, mounting_node) == {name: (True, "0o1777") for name in ("plain", "me")}
        until_line(line, lambda: remove(mounting_node))
        remove(mounting_node)
        assert not mounting.mounts_below(mounting_node.state_dir.resolve())
        assert list((mounting_node.state_dir / "pods").iterdir()) == []
        line += 1
    assert line > 100


# --- refreshing -------------------------------------------------------------------------------------------------------


def test_only_volumes_of_a_changed_object_are_written(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES)
    make(pod, node, store)
    put(store, colour="blue", root="other")
    assert refresh_volumes(pod, node, store, {MAP}) == ("map", "both", "plain")
    assert texts(pod, node)["secret/root"] == "secret-text"
    assert refresh_volumes(pod, node, store) == ("secret",)
    assert refresh_volumes(pod, node, store) == ()
    assert texts(pod, node)["both/colour"] == "blue"


def test_changed_labels_are_written_to_downward_files(node: NodeContext, store: ObjectStore) -> None:
    make(pod_of(VOLUMES[2]), node, store)
    later = make_pod({"volumes": [VOLUMES[2]]}, labels={"app": "other"})
    assert refresh_volumes(later, node, store) == ("me",)
    assert texts(later, node) == {"me/labels": 'app="other"'}


def test_files_of_a_deleted_object_are_kept(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES[:2])
    make(pod, node, store)
    store.delete(MAP)
    put_secret = Secret.model_validate(
        {"metadata": {"name": "password", "namespace": "default"}, "stringData": {"root": "other"}}
    )
    store.put(put_secret)
    with pytest.raises(MountFailure) as caught:
        refresh_volumes(pod, node, store)
    assert [failure.wants for failure in caught.value.failures] == [(MAP,)]
    assert texts(pod, node) == {"map/colour": "red", "secret/root": "other"}


def test_a_refresh_skips_a_volume_that_is_not_made_yet(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES)
    assert refresh_volumes(pod, node, store) == ()
    assert not (node.state_dir / "pods").exists()
    make(pod_of(), node, store)
    assert refresh_volumes(pod, node, store) == ()
    assert texts(pod, node) == {}


def test_volumes_of_a_pod_are_written_by_one_caller_at_a_time(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES)
    make(pod, node, store)
    put(store, colour="blue")
    refresh = threading.Thread(target=refresh_volumes, args=(pod, node, store))
    with alone(node.state_dir / "pods" / UID):
        refresh.start()
        time.sleep(0.05)
        assert texts(pod, node)["map/colour"] == "red"
    refresh.join()
    assert texts(pod, node)["map/colour"] == "blue"


def test_a_refresh_that_waited_for_a_removed_pod_does_nothing(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    pod = pod_of(*VOLUMES)
    make(pod, node, store)
    with alone(node.state_dir / "pods" / UID):
        refresh = threading.Thread(target=refresh_volumes, args=(pod, node, store))
        refresh.start()
        time.sleep(0.05)
        (node.state_dir / "pods" / UID).rename(node.state_dir / "gone")
    refresh.join()
    assert not (node.state_dir / "pods" / UID).exists()


# --- removing ---------------------------------------------------------------------------------------------------------


def remove(node: NodeContext) -> None:
    remove_pod_files(node, namespace="default", name="web", uid=UID)


def test_memory_volumes_are_removed_with_the_pod(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    make(pod_of(*VOLUMES), node, store)
    for _ in range(2):
        remove(node)
        assert [list((at / "pods").iterdir()) for at in (node.state_dir, node.memory_dir)] == [[], []]
    assert store.get(PASSWORD) is not None


def test_memory_volumes_are_removed_even_if_the_pod_directory_is_gone(node: NodeContext, store: ObjectStore) -> None:
    put(store)
    make(pod_of(*VOLUMES), node, store)
    (node.state_dir / "pods" / UID).rename(node.state_dir / "gone")
    remove(node)
    assert list((node.memory_dir / "pods").iterdir()) == []


@pytest.mark.skipif(not mounting.may_mount(), reason="mounts")
def test_only_mounts_made_for_the_pod_are_unmounted(node: NodeContext, store: ObjectStore, tmp_path: Path) -> None:
    node = replace(node, may_mount=True)
    pod = pod_of(
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, {"name": "disk", "emptyDir": {}}
    )
    make(pod, node, store)
    memory, disk = (volume.path for volume in pod_volumes(pod, node))
    assert memory is not None
    assert disk is not None
    assert mounting.is_mount(memory)
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    mounting.bind(treasure, disk)
    try:
        with pytest.raises(StillMounted):
            remove(node)
        assert (mounting.is_mount(memory), (treasure / "gold").exists()) == (False, True)
    finally:
        # Removal moves directories up before it empties them, and mounts in them move along.
        for place in [path for path in node.state_dir.rglob("disk") if mounting.is_mount(path)]:
            mounting.unmount(place)
    remove(node)
    assert (treasure / "gold").exists()
    assert not (node.state_dir / "pods" / UID).exists()


@MOUNTS
def test_a_volume_shares_mounts_only_for_a_container_that_asks_and_goes_with_its_pod(
    node: NodeContext, store: ObjectStore
) -> None:
    """Row 121: the node's own directory, and the machine's, stay as they are."""
    node = replace(node, may_mount=True)
    put(store)
    mounts = [{"name": name, "mountPath": f"/{name}", "mountPropagation": "HostToContainer"} for name in ("a", "map")]
    asking = {"name": "asks", "image": "x", "volumeMounts": mounts}
    other = {"name": "other", "image": "x", "volumeMounts": [{"name": "b", "mountPath": "/b"}]}
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in ("a", "b")]
    pod = pod_of(*volumes, VOLUMES[0], containers=[asking, other])
    make(pod, node, store)
    before = mounting.mounts_below(node.state_dir)
    share_volumes(pod, pod.spec.containers[1], node)
    assert mounting.mounts_below(node.state_dir) == before == ()
    for _ in range(2):
        share_volumes(pod, pod.spec.containers[0], node)
    try:
        own = pod_directory(node, UID) / "volumes"
        places = {own / "kubernetes.io~empty-dir" / "a", own / "kubernetes.io~configmap" / "map"}
        assert set(mounting.mounts_below(node.state_dir)) == places
        for place in places:
            assert [each.propagation[0].partition(":")[0] for each in mounting.mounts_at(place)] == ["shared"]
        make(pod, node, store)
        assert (own / "kubernetes.io~configmap" / "map" / "colour").read_text() == "red"

        inside = own / "kubernetes.io~empty-dir" / "a" / "left"
        inside.mkdir()
        mounting.mount_tmpfs(inside, None, 0o700)
        with pytest.raises(StillMounted):
            remove_pod_files(node, namespace="default", name="web", uid=UID)
        mounting.unmount(inside)
        remove_pod_files(node, namespace="default", name="web", uid=UID)
        assert not own.exists()
    finally:
        for place in mounting.mounts_below(node.state_dir):
            mounting.unmount(place)


@MOUNTS
def test_a_volume_in_memory_shares_mounts_without_another_mount(node: NodeContext, store: ObjectStore) -> None:
    """Row 121: it is a mount already."""
    node = replace(node, may_mount=True)
    asking = {"name": "m", "mountPath": "/m", "mountPropagation": "Bidirectional"}
    pod = pod_of(
        {"name": "m", "emptyDir": {"medium": "Memory"}},
        containers=[{"name": "asks", "image": "x", "volumeMounts": [asking]}],
    )
    make(pod, node, store)
    try:
        share_volumes(pod, pod.spec.containers[0], node)
        (place,) = mounting.mounts_below(node.state_dir)
        (mount,) = mounting.mounts_at(place)
        assert (mount.file_system, mount.propagation[0].partition(":")[0]) == ("tmpfs", "shared")
    finally:
        remove_pod_files(node, namespace="default", name="web", uid=UID)
    assert mounting.mounts_below(node.state_dir) == ()
