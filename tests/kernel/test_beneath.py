"""Paths in directories that others can write to never lead out of them, with and without openat2.

Holds: A reader of an object or a volume sees either the old set or the new one.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncpod.kernel.beneath import LeadsOut, make_beneath, open_beneath, open_directory, read_beneath, walk_beneath
from tests.volumes.swapping import exchanging

Open = Callable[[int, str], int]
both_ways = pytest.mark.parametrize("opens", [open_beneath, walk_beneath])


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with files like those that containers make, next to a file of the node."""
    root = tmp_path / "volume"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_text("in")
    (root / "..data").symlink_to("a")
    (root / "key").symlink_to("..data/file")
    (root / "up-and-down").symlink_to("a/../a/b/../file")
    (root / "out").symlink_to("../secret")
    (root / "far-out").symlink_to("a/../../secret")
    (root / "etc").symlink_to("/etc")
    (root / "nowhere").symlink_to("nothing")
    (root / "round").symlink_to("round")
    (root / "proc").symlink_to("/proc/self/root")
    (tmp_path / "secret").write_text("of the node")
    return root


@pytest.fixture
def root(volume: Path) -> Iterator[int]:
    opened = open_directory(volume)
    yield opened
    os.close(opened)


def kernel_path_of(opens: Open, root: int, relative: str) -> str:
    """Open a path, and return the kernel's path of the opened file."""
    descriptor = opens(root, relative)
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    finally:
        os.close(descriptor)


INSIDE = {
    "a": "a",
    "a/file": "a/file",
    "a/./b//": "a/b",
    "..data/file": "a/file",
    "key": "a/file",
    "up-and-down": "a/file",
    "a/../a/b": "a/b",
}


@both_ways
@pytest.mark.parametrize(("relative", "found"), INSIDE.items())
def test_a_path_that_stays_inside_is_followed(opens: Open, root: int, volume: Path, relative: str, found: str) -> None:
    assert kernel_path_of(opens, root, relative) == str(volume / found)


@both_ways
@pytest.mark.parametrize(
    "relative", ["out", "far-out", "etc", "etc/passwd", "proc", "..", "a/../..", "../volume/a", "/a"]
)
def test_a_path_that_leads_out_is_refused_even_if_it_leads_back_in(opens: Open, root: int, relative: str) -> None:
    with pytest.raises(LeadsOut):
        opens(root, relative)


@both_ways
@pytest.mark.parametrize(
    ("relative", "number"),
    [("none", errno.ENOENT), ("nowhere", errno.ENOENT), ("round", errno.ELOOP), ("a/file/x", errno.ENOTDIR)],
)
def test_a_missing_path_raises_the_kernels_error(opens: Open, root: int, relative: str, number: int) -> None:
    with pytest.raises(OSError) as failed:
        opens(root, relative)
    assert failed.value.errno == number


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "..data", "out", "etc", "nowhere"]), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(NAMES)
def test_the_walk_opens_and_refuses_the_same_paths_as_openat2(root: int, parts: list[str]) -> None:
    def outcome(opens: Open) -> str | type[OSError]:
        try:
            return kernel_path_of(opens, root, "/".join(parts))
        except OSError as error:
            return type(error)

    assert outcome(walk_beneath) == outcome(open_beneath)


def test_the_walk_refuses_a_path_too_deep_before_descriptors_run_out(root: int) -> None:
    os.close(make_beneath(root, "/".join(["d"] * 150), 0o700))
    os.close(open_beneath(root, "/".join(["d"] * 150)))
    with pytest.raises(OSError, match="more than 128 directories"):
        walk_beneath(root, "/".join(["d"] * 150))


def test_missing_directories_are_made_with_the_given_mode_despite_the_umask(root: int, volume: Path) -> None:
    before = os.umask(0o077)
    try:
        os.close(make_beneath(root, "a/new/deep", 0o2775))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((volume / made).stat().st_mode) for made in ("a/new", "a/new/deep")]
    assert modes == [0o2775, 0o2775]


def test_making_an_existing_directory_leaves_it_unchanged(root: int, volume: Path) -> None:
    (volume / "a").chmod(0o701)
    os.close(make_beneath(root, "a", 0o777))
    assert stat.S_IMODE((volume / "a").stat().st_mode) == 0o701


def test_nothing_is_made_through_a_symlink_that_leads_out_or_nowhere(root: int, volume: Path, tmp_path: Path) -> None:
    (volume / "up").symlink_to("..")
    with pytest.raises(LeadsOut):
        make_beneath(root, "up/made", 0o777)
    with pytest.raises(FileExistsError):
        make_beneath(root, "nowhere/made", 0o777)
    assert not (tmp_path / "made").exists()
    assert not (volume / "nothing").exists()


def test_only_regular_files_of_a_reasonable_size_are_read(root: int, volume: Path) -> None:
    os.mkfifo(volume / "pipe")
    assert read_beneath(root, "key", 2) == b"in"
    with pytest.raises(OSError, match="no more than 1 bytes"):
        read_beneath(root, "key", 1)
    for other in ("pipe", "a"):
        with pytest.raises(OSError, match="must be a regular file"):
            read_beneath(root, other, 100)
    with pytest.raises(LeadsOut):
        read_beneath(root, "out", 100)


@both_ways
def test_a_directory_swapped_for_a_symlink_during_the_walk_never_leads_out(
    opens: Open, root: int, volume: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (volume / "link").symlink_to(outside)
    seen: set[str] = set()
    with exchanging(volume / "a", volume / "link"):
        for _ in range(3000):
            try:
                seen.add(kernel_path_of(opens, root, "a/b"))
            except OSError as error:
                seen.add(type(error).__name__)
    assert not any(str(outside) in each for each in seen)
    assert any(each.startswith(str(volume)) for each in seen)
