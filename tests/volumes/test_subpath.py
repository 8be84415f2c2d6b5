"""Parts of volumes: the runtime mounts exactly the requested part, even if a container swaps names meanwhile.

Holds: A reader of an object or a volume sees either the old set or the new one.
"""

import os
import re
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from syncpod.kernel import libc
from syncpod.kernel.mounting import is_mount, may_mount
from syncpod.volumes.subpath import SubPath, SubPathRefused, clear_sub_paths, prepare_sub_path
from tests.volumes.swapping import exchanging

PREPARE = 'failed to prepare subPath for volumeMount "v" of container "c"'
MAKE = 'failed to create subPath directory for volumeMount "v" of container "c"'


@pytest.fixture(params=["bound", "handed over"])
def binds(request: pytest.FixtureRequest) -> bool:
    """Whether the node may mount; if this process may not, only tests without mounts run."""
    bound = bool(request.param == "bound")
    if bound and not may_mount():
        pytest.skip("binding needs CAP_SYS_ADMIN")
    return bound


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """A pod's directory; its bind mounts are removed at the end."""
    directory = tmp_path / "pod"
    directory.mkdir()
    yield directory
    clear_sub_paths(directory / "volume-subpaths")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    directory = tmp_path / "volume"
    (directory / "site" / "deep").mkdir(parents=True)
    (directory / "site" / "index").write_text("hello")
    directory.chmod(0o2770)
    return directory


def wanted(pod: Path, volume: Path, relative: str, *, container: str = "c", index: int = 0) -> SubPath:
    place = pod / "volume-subpaths" / "v" / container / str(index)
    return SubPath(volume="v", container=container, root=volume, relative=relative, place=place)


def test_a_sub_path_may_be_a_directory_or_a_file(pod: Path, volume: Path, binds: bool) -> None:
    directory = prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds)
    file = prepare_sub_path(wanted(pod, volume, "site/index", index=1), may_mount=binds)
    assert ((directory / "index").read_text(), file.read_text()) == ("hello", "hello")
    places = [pod / "volume-subpaths" / "v" / "c" / "0", pod / "volume-subpaths" / "v" / "c" / "1"]
    assert [directory, file] == (places if binds else [volume / "site", volume / "site" / "index"])
    assert [is_mount(place) for place in places] == [binds, binds]


def test_writes_to_a_prepared_sub_path_reach_the_volume(pod: Path, volume: Path, binds: bool) -> None:
    (prepare_sub_path(wanted(pod, volume, "site/deep"), may_mount=binds) / "new").write_text("x")
    assert (volume / "site" / "deep" / "new").read_text() == "x"


def test_a_missing_sub_path_directory_is_made_with_the_volumes_permissions(
    pod: Path, volume: Path, binds: bool
) -> None:
    prepare_sub_path(wanted(pod, volume, "logs/web"), may_mount=binds)
    assert [stat.S_IMODE((volume / made).stat().st_mode) for made in ("logs", "logs/web")] == [0o2770, 0o2770]


def test_symlinks_inside_the_volume_are_followed(pod: Path, volume: Path, binds: bool) -> None:
    (volume / "current").symlink_to("site")
    assert (prepare_sub_path(wanted(pod, volume, "current"), may_mount=binds) / "index").read_text() == "hello"
    prepare_sub_path(wanted(pod, volume, "current/made"), may_mount=binds)
    assert (volume / "site" / "made").is_dir()


def test_a_volume_behind_a_symlink_is_resolved(pod: Path, volume: Path, tmp_path: Path, binds: bool) -> None:
    (tmp_path / "alias").symlink_to(volume)
    assert (prepare_sub_path(wanted(pod, tmp_path / "alias", "site"), may_mount=binds) / "index").read_text() == "hello"


ESCAPES = {
    "..": PREPARE,
    "site/../../secret": PREPARE,
    "/etc": PREPARE,
    "etc": PREPARE,
    "etc/passwd": PREPARE,
    "up": PREPARE,
    "up/secret": PREPARE,
    "etc/made": PREPARE,
    "proc": PREPARE,
    "nowhere": MAKE,
    "nowhere/made": MAKE,
    "site/index/made": PREPARE,
}


@pytest.mark.parametrize(("relative", "message"), ESCAPES.items())
def test_a_sub_path_out_of_the_volume_is_refused_with_the_kubelets_message(
    pod: Path, volume: Path, relative: str, message: str, binds: bool
) -> None:
    (volume / "etc").symlink_to("/etc")
    (volume / "up").symlink_to("..")
    (volume / "proc").symlink_to("/proc/self/cwd")
    (volume / "nowhere").symlink_to("nothing")
    (volume.parent / "secret").mkdir()
    before = sorted(volume.parent.rglob("*"))
    with pytest.raises(SubPathRefused, match=f"^{re.escape(message)}$"):
        prepare_sub_path(wanted(pod, volume, relative), may_mount=binds)
    assert sorted(volume.parent.rglob("*")) == before


def test_a_sub_path_of_a_missing_volume_or_of_a_file_is_refused(pod: Path, volume: Path, binds: bool) -> None:
    for root in (volume / "none", volume / "site" / "index"):
        with pytest.raises(SubPathRefused, match=PREPARE):
            prepare_sub_path(wanted(pod, root, "x"), may_mount=binds)


def test_a_sub_path_is_resolved_anew_for_each_container_instance(pod: Path, volume: Path, binds: bool) -> None:
    first = prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds)
    held = os.open(first, os.O_RDONLY)
    try:
        (volume / "site").rename(volume / "old")
        (volume / "site").write_text("a file now")
        assert prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds).read_text() == "a file now"
    finally:
        os.close(held)
    assert (volume / "old" / "index").read_text() == "hello"


def test_preparing_a_sub_path_is_idempotent_after_a_crash_at_any_line(pod: Path, volume: Path, binds: bool) -> None:
    place = wanted(pod, volume, "site").place
    for left in ("nothing", "a directory", "a file", "a mount"):
        if left == "a directory":
            place.parent.mkdir(parents=True)
            place.mkdir()
        elif left == "a file":
            place.parent.mkdir(parents=True)
            place.touch()
        elif left == "a mount":
            prepare_sub_path(wanted(pod, volume, "site/deep"), may_mount=binds)
        assert (prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds) / "index").read_text() == "hello"
        clear_sub_paths(pod / "volume-subpaths")
        assert list(pod.iterdir()) == []


def test_clearing_the_sub_paths_of_one_container_leaves_volumes_and_other_containers(
    pod: Path, volume: Path, binds: bool
) -> None:
    mine = prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds)
    others = prepare_sub_path(wanted(pod, volume, "site", container="other"), may_mount=binds)
    file = prepare_sub_path(wanted(pod, volume, "site/index", index=1), may_mount=binds)
    directory = pod / "volume-subpaths"
    clear_sub_paths(directory, "c")
    assert (others / "index").read_text() == "hello"
    if binds:
        assert not mine.exists()
        assert not file.exists()
    clear_sub_paths(directory, "c")
    clear_sub_paths(directory)
    clear_sub_paths(directory)
    assert list(pod.iterdir()) == []
    assert sorted(path.name for path in (volume / "site").iterdir()) == ["deep", "index"]


def test_a_container_that_keeps_swapping_symlinks_never_gets_a_path_outside_the_volume(
    pod: Path, volume: Path, tmp_path: Path, binds: bool
) -> None:
    """If mounts are not permitted, only a path is passed on, and the runtime may open something else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index").write_text("of the node")
    (volume / "link").symlink_to(outside)
    seen: set[str] = set()
    with exchanging(volume / "site", volume / "link"):
        for _ in range(400):
            try:
                found = prepare_sub_path(wanted(pod, volume, "site"), may_mount=binds)
            except SubPathRefused as refused:
                seen.add(str(refused))
            else:
                assert not found.is_relative_to(outside)
                seen.add((found / "index").read_text() if binds else str(found))
    assert "of the node" not in seen


@pytest.mark.skipif(not (may_mount() and os.access("/dev/fuse", os.R_OK | os.W_OK)), reason="needs mounts and FUSE")
def test_a_mount_whose_server_has_died_is_replaced(pod: Path, volume: Path) -> None:
    """kubernetes/kubernetes#139275: each call to the earlier bind mount fails with ENOTCONN."""
    place = wanted(pod, volume, "site").place
    place.mkdir(parents=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    try:
        libc.mount("dead", place, "fuse", 0, f"fd={server},rootmode=40000,user_id=0,group_id=0")
    finally:
        os.close(server)
    with pytest.raises(OSError, match="Transport endpoint is not connected"):
        place.stat()
    assert (prepare_sub_path(wanted(pod, volume, "site"), may_mount=True) / "index").read_text() == "hello"


def test_containers_that_make_the_same_missing_directory_at_once_all_get_it(pod: Path, volume: Path) -> None:
    """kubernetes/kubernetes#138856."""
    together = threading.Barrier(8)

    def prepare(number: int, round_: int) -> tuple[int, int]:
        together.wait()
        asked = wanted(pod, volume, f"made{round_}/in/turn", container=f"c{number}")
        made = prepare_sub_path(asked, may_mount=False).stat()
        return made.st_dev, made.st_ino

    with ThreadPoolExecutor(8) as threads:
        for round_ in range(50):
            assert len(set(threads.map(prepare, range(8), [round_] * 8))) == 1
