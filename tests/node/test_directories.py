"""A pod's directories and files are made and removed."""

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from syncpod.kernel.tree_removal import StillMounted, remove_tree
from syncpod.node.directories import (
    make_directories,
    plan_container,
    plan_pod,
    prepare_container,
    prepare_pod,
    remove_pod_files,
)
from syncpod.node.pod_volumes import MountFailure
from syncpod.objects import ObjectStore
from syncpod.pod import Container, Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, message_file
from tests.translation.translation import NODE, UID, make_pod

EMPTY_DIR = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return replace(
        NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory", log_dir=tmp_path / "logs" / "pods"
    )


@pytest.fixture(params=[0o022, 0o077, 0o000], ids=["umask 022", "umask 077", "umask 0"])
def any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def prepare(pod: Pod, node: NodeContext) -> Path:
    """Make the pod's directory."""
    prepare_pod(plan_pod(pod, node), ObjectStore(node.state_dir, node.memory_dir))
    return node.state_dir / "pods" / pod.metadata.uid


def test_a_pods_directories_have_the_kubelets_names_and_permissions(node: NodeContext, any_umask: None) -> None:
    own = prepare(make_pod(EMPTY_DIR), node)
    logs = node.log_dir / f"default_web_{UID}"
    assert {
        str(path.relative_to(node.state_dir.parent)): oct(mode(path))
        for path in (*node.state_dir.rglob("*"), node.state_dir, node.log_dir, logs)
    } == {
        "state": "0o700",
        "state/pods": "0o700",
        f"state/pods/{UID}": "0o750",
        f"state/pods/{UID}/containers": "0o750",
        f"state/pods/{UID}/plugins": "0o750",
        f"state/pods/{UID}/plugins/kubernetes.io~empty-dir": "0o750",
        f"state/pods/{UID}/plugins/kubernetes.io~empty-dir/scratch": "0o750",
        f"state/pods/{UID}/plugins/kubernetes.io~empty-dir/scratch/ready": "0o600",
        f"state/pods/{UID}/volumes": "0o750",
        f"state/pods/{UID}/volumes/kubernetes.io~empty-dir": "0o750",
        f"state/pods/{UID}/volumes/kubernetes.io~empty-dir/scratch": "0o777",
        "logs/pods": "0o755",
        f"logs/pods/default_web_{UID}": "0o755",
    }
    assert own.is_dir()


def test_files_that_a_container_wrote_survive_a_new_sandbox(node: NodeContext) -> None:
    pod = make_pod(EMPTY_DIR)
    written = prepare(pod, node) / "volumes/kubernetes.io~empty-dir/scratch/file"
    written.write_text("kept")
    prepare(pod, node)
    assert written.read_text() == "kept"


def test_permissions_left_incomplete_by_a_crashed_worker_are_corrected(node: NodeContext) -> None:
    pod = make_pod(EMPTY_DIR)
    own = prepare(pod, node)
    scratch = own / "volumes/kubernetes.io~empty-dir/scratch"
    scratch.chmod(0o700)
    (own / "plugins/kubernetes.io~empty-dir/scratch/ready").unlink()
    prepare(pod, node)
    assert mode(scratch) == 0o777


def test_permissions_that_a_container_set_on_its_volume_survive_a_new_sandbox(node: NodeContext) -> None:
    pod = make_pod(EMPTY_DIR)
    scratch = prepare(pod, node) / "volumes/kubernetes.io~empty-dir/scratch"
    scratch.chmod(0o700)
    prepare(pod, node)
    assert mode(scratch) == 0o700


def test_a_log_directory_made_by_a_kubelet_is_not_changed(node: NodeContext) -> None:
    node.log_dir.mkdir(parents=True)
    node.log_dir.chmod(0o750)
    prepare(make_pod(), node)
    assert mode(node.log_dir) == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory to a group it is not in")
def test_an_empty_dir_belongs_to_the_fs_group_and_is_setgid(node: NodeContext) -> None:
    pod = make_pod({**EMPTY_DIR, "securityContext": {"fsGroup": 2000}})
    scratch = prepare(pod, node) / "volumes/kubernetes.io~empty-dir/scratch"
    assert (scratch.stat().st_gid, oct(mode(scratch))) == (2000, "0o2777")
    (scratch / "file").touch()
    assert (scratch / "file").stat().st_gid == 2000


def test_a_symlink_in_place_of_a_pod_directory_is_not_followed(node: NodeContext, tmp_path: Path) -> None:
    pod = make_pod(EMPTY_DIR)
    scratch = prepare(pod, node) / "volumes/kubernetes.io~empty-dir/scratch"
    scratch.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    scratch.symlink_to(elsewhere)
    with pytest.raises(MountFailure, match="must be a directory, and is something else"):
        prepare(pod, node)
    assert mode(elsewhere) == 0o700


@pytest.mark.parametrize("there", [True, False])
def test_a_pod_that_swaps_its_log_directory_for_a_link_changes_nothing_behind_it(
    there: bool, node: NodeContext, tmp_path: Path
) -> None:
    """It mounts the node's log directory, and has a container named as a directory of root's."""
    pod = make_pod()
    prepare(pod, node)
    container = pod.spec.containers[0]
    (roots := tmp_path / "victim").mkdir()
    if there:
        (roots / container.name).mkdir(mode=0o700)
    *looked_at, of_container = plan_container(pod, container, node, ()).directories
    make_directories(tuple(looked_at))
    looked_at[-1].path.rmdir()
    looked_at[-1].path.symlink_to(roots)  # the moment after it was looked at
    with pytest.raises(NotADirectoryError, match="must be a directory, and is something else"):
        make_directories((of_container,))
    assert [(path.name, mode(path)) for path in roots.iterdir()] == [(container.name, 0o700)] * there


def host_path(path: Path, kind: str) -> Pod:
    return make_pod({"volumes": [{"name": "v", "hostPath": {"path": str(path), "type": kind}}]})


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Paths of each kind: a directory, a file, a socket, a device, nothing, and symlinks to some."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to-directory").symlink_to("directory")
    (tmp_path / "dangling").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        named = ("directory", "file", "fifo", "socket", "to-directory", "dangling", "none")
        elsewhere = {"device": Path("/dev/null"), "below-file": tmp_path / "file" / "x"}
        yield {name: tmp_path / name for name in named} | elsewhere


FITS = [
    ("Directory", "directory"), ("Directory", "to-directory"), ("File", "file"), ("Socket", "socket"),
    ("CharDevice", "device"), ("DirectoryOrCreate", "directory"), ("DirectoryOrCreate", "none"),
    ("FileOrCreate", "file"), ("FileOrCreate", "none"), ("", "none"), ("", "below-file"), ("", "device"),
]  # fmt: skip
DOES_NOT_FIT = [
    ("Directory", "file", ": {} is not a directory, it's a File"),
    ("Directory", "none", ', {} is not a directory, unable to determine its type: path "{}" does not exist'),
    ("Directory", "below-file", ", {} is not a directory, unable to determine its type: stat {}: not a directory"),
    ("File", "directory", ": {} is not a file, it's a Directory"),
    ("File", "dangling", ', {} is not a file, unable to determine its type: path "{}" does not exist'),
    (
        *("File", "fifo"),
        ", {} is not a file, unable to determine its type: only recognise file, directory, socket, block device and "
        "character device",
    ),
    ("Socket", "file", ": {} is not a socket file, it's a File"),
    ("CharDevice", "file", ": {} is not a character device, it's a File"),
    ("BlockDevice", "device", ": {} is not a block device, it's a CharDevice"),
    ("DirectoryOrCreate", "socket", ": {} is not a directory, it's a Socket"),
    ("FileOrCreate", "directory", ": {} is not a file, it's a Directory"),
]


@pytest.mark.parametrize(("kind", "place"), FITS)
def test_valid_host_path_types_are_accepted(kind: str, place: str, places: dict[str, Path], node: NodeContext) -> None:
    prepare(host_path(places[place], kind), node)


@pytest.mark.parametrize(("kind", "place", "reason"), DOES_NOT_FIT)
def test_mismatched_host_path_types_are_refused(
    kind: str, place: str, reason: str, places: dict[str, Path], node: NodeContext
) -> None:
    with pytest.raises(MountFailure) as caught:
        prepare(host_path(places[place], kind), node)
    reason = reason.replace("{}", str(places[place]))
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : hostPath type check failed{reason}'


def test_a_directory_or_create_host_path_is_made_with_its_parents(node: NodeContext, tmp_path: Path) -> None:
    prepare(host_path(tmp_path / "a/b/c", "DirectoryOrCreate"), node)
    assert oct(mode(tmp_path / "a/b/c")) == "0o755"
    prepare(host_path(tmp_path / "a/file", "FileOrCreate"), node)
    assert oct(mode(tmp_path / "a/file")) == "0o644"


def test_a_file_or_create_host_path_needs_an_existing_directory(node: NodeContext, tmp_path: Path) -> None:
    with pytest.raises(MountFailure, match=r'volume "v" : No such file or directory: .*/no/file'):
        prepare(host_path(tmp_path / "no/file", "FileOrCreate"), node)


def test_an_unsupported_volume_is_refused_by_name(node: NodeContext) -> None:
    with pytest.raises(MountFailure, match=r'volume "v" : persistentVolumeClaim is not supported'):
        plan_pod(make_pod({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}), node)


def test_a_container_gets_its_log_directory_and_the_pods_hosts_file(node: NodeContext, any_umask: None) -> None:
    pod = make_pod()
    own = prepare(pod, node)
    for address in ("10.4.0.7", "10.4.0.8"):
        prepare_container(plan_container(pod, pod.spec.containers[0], node, (address,)))
    logs = node.log_dir / f"default_web_{UID}" / "main"
    assert (logs.is_dir(), oct(mode(logs)), oct(mode(own / "etc-hosts"))) == (True, "0o755", "0o644")
    assert (own / "etc-hosts").read_text().endswith("\n10.4.0.8\tweb\n")


def test_the_hosts_file_keeps_its_inode_for_running_containers(node: NodeContext) -> None:
    pod = make_pod()
    hosts = prepare(pod, node) / "etc-hosts"
    plan = plan_container(pod, pod.spec.containers[0], node, ("10.4.0.7",))
    prepare_container(plan)
    before = hosts.stat().st_ino
    prepare_container(plan)
    assert hosts.stat().st_ino == before


def test_the_hosts_file_of_a_host_network_pod_equals_the_nodes_byte_by_byte(node: NodeContext, tmp_path: Path) -> None:
    of_node = tmp_path / "hosts"
    of_node.write_bytes(b"127.0.0.1 localhost # \xff\n")
    pod = make_pod({"hostNetwork": True})
    hosts = prepare(pod, node) / "etc-hosts"
    prepare_container(plan_container(pod, pod.spec.containers[0], node, ()), hosts_of_node=of_node)
    assert hosts.read_bytes().endswith(b"\n127.0.0.1 localhost # \xff\n")


def remove(node: NodeContext, **names: str) -> None:
    remove_pod_files(node, **{"namespace": "default", "name": "web", "uid": UID, **names})


def test_removing_a_pod_removes_only_its_directory_and_logs(node: NodeContext) -> None:
    other = make_pod({**EMPTY_DIR}, uid="other", name="other")
    prepare(other, node)
    own = prepare(make_pod(EMPTY_DIR), node)
    (own / "volumes/kubernetes.io~empty-dir/scratch/deep/er").mkdir(parents=True)
    remove(node)
    assert [path.name for path in (node.state_dir / "pods").iterdir()] == ["other"]
    assert [path.name for path in node.log_dir.iterdir()] == ["default_other_other"]


def test_removing_a_missing_pod_succeeds(node: NodeContext) -> None:
    remove(node)
    prepare(make_pod(), node)
    remove(node)
    remove(node)


def test_removal_keeps_the_targets_of_symlinks(node: NodeContext, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    scratch = prepare(make_pod(EMPTY_DIR), node) / "volumes/kubernetes.io~empty-dir/scratch"
    (scratch / "link").symlink_to(treasure)
    (scratch / "file-link").symlink_to(treasure / "gold")
    remove(node)
    assert (treasure / "gold").exists()
    assert not scratch.exists()


def test_removal_of_a_symlink_in_place_of_a_pod_directory_keeps_the_target(node: NodeContext, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    prepare(make_pod(), node)
    remove(node)
    (node.state_dir / "pods" / UID).symlink_to(treasure)
    remove(node)
    assert not (node.state_dir / "pods" / UID).is_symlink()
    assert (treasure / "gold").exists()


@pytest.mark.parametrize(
    "names", [{"uid": ".."}, {"uid": "../x"}, {"uid": ""}, {"name": "../.."}, {"namespace": "a/b"}]
)
def test_removal_with_an_unsafe_name_is_refused(names: dict[str, str], node: NodeContext) -> None:
    own = prepare(make_pod(), node)
    with pytest.raises(UnsafeName):
        remove(node, **names)
    assert own.exists()


@pytest.mark.parametrize("name", ["", "..", "a/../../..", "n" * 256])
def test_an_unsafe_container_name_has_no_termination_message_file(name: str, node: NodeContext) -> None:
    with pytest.raises(UnsafeName, match=r"^spec\.containers\[\]\.name: "):
        message_file(node, UID, Container(name=name, termination_message_path="/dev/termination-log"), 0)
    assert message_file(node, UID, Container(name=name, termination_message_path=""), 0) is None


def test_a_tree_deeper_than_any_path_or_stack_is_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    here = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        here = below
    os.close(here)
    remove_tree(tree)
    assert not tree.exists()


def test_entries_with_the_temporary_names_of_removal_are_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for path in (".removed-0/.removed-1/.removed-0", ".removed-1/x/y", "a/b/c", "a/.removed-2/d"):
        (tree / path).mkdir(parents=True)
    remove_tree(tree)
    assert not tree.exists()


def test_a_file_or_socket_in_place_of_a_directory_is_removed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")
    assert not (tmp_path / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("place", ["", "scratch", "scratch/deep/deeper"])
@pytest.mark.parametrize("of_a_file", [False, True], ids=["a directory", "a file"])
def test_removal_never_touches_mounts_inside_a_tree(tmp_path: Path, place: str, of_a_file: bool) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("still here")
    tree = tmp_path / "tree"
    where = tree / place / "mounted"
    where.parent.mkdir(parents=True)
    source = treasure / "gold" if of_a_file else treasure
    where.touch() if of_a_file else where.mkdir()
    subprocess.run(["mount", "--bind", source, where], check=True)
    try:
        with pytest.raises(StillMounted, match="something is mounted in"):
            remove_tree(tree)
        assert (treasure / "gold").read_text() == "still here"
    finally:
        mounted = subprocess.run(["findmnt", "-rno", "TARGET"], capture_output=True, text=True, check=True).stdout
        for target in [line for line in mounted.splitlines() if line.startswith(f"{tree}/")]:
            subprocess.run(["umount", target], check=True)
    remove_tree(tree)
    assert not tree.exists()
    assert (treasure / "gold").read_text() == "still here"
