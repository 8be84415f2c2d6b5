"""A state directory on a full disk: each command reports that in a sentence, and `up` repairs all once there is space.

Holds: What `up` starts has a record, or is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncpod.kernel.mounting import mount_tmpfs, unmount
from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine, remains
from tests.cli.manifests import manifest
from tests.cli.up_processes import kill, state_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of that size")

BYTES = 96 << 20
INODES = 4096
"""Far more than a machine uses. By default, a tmpfs has so many that using them all takes minutes."""
FULL = "No space left on device"


@pytest.fixture
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A machine whose state directory is on a small file system of its own."""
    (disk := tmp_path / "disk").mkdir()
    mount_tmpfs(disk, BYTES, 0o700)
    subprocess.run(["mount", "-o", f"remount,nr_inodes={INODES}", disk], check=True)
    try:
        with machine(EMBEDDED, request, disk) as environ:
            yield environ
    finally:
        unmount(disk)


@contextlib.contextmanager
def no_bytes(disk: Path) -> Iterator[None]:
    """Fill the disk, so that no byte is free."""
    filler = disk / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def no_inodes(disk: Path) -> Iterator[None]:
    """Use up all inodes, so that no file can be made."""
    (place := disk / "files").mkdir()
    made: list[Path] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                (file := place / str(len(made))).touch()
                made.append(file)
        yield
    finally:
        for file in made:
            file.unlink()
        place.rmdir()


@pytest.mark.parametrize("full", [no_bytes, no_inodes])
def test_a_first_up_on_a_full_disk_says_so_and_leaves_nothing(
    environ: dict[str, str], full: Callable[[Path], contextlib.AbstractContextManager[None]]
) -> None:
    with full(state_of(environ).parent):
        upped = program("up", "--embedded", environ=environ)
        assert (upped.code, upped.out) == (2, "") and FULL in upped.err and "Traceback" not in upped.err
        assert upped.err.count("\n") == 1 and remains(environ) == []


def test_a_first_up_on_a_read_only_disk_names_the_disk_and_not_its_owner(environ: dict[str, str]) -> None:
    disk = state_of(environ).parent
    state_of(environ).mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for command in ("up", "server", "runtime"):
        done = program(command, environ=environ)
        assert (done.code, done.out) == (2, "") and "cannot be written: Read-only file system" in done.err
        assert done.err.count("\n") == 1 and remains(environ) == []
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


def test_what_cannot_be_recorded_is_ended_and_the_next_up_mends_all(environ: dict[str, str]) -> None:
    """Each part in turn is killed and started again where its record finds no room."""
    assert (upped := program("up", "--simulate", environ=environ)).code == 0, upped.err
    for record in ("up-worker.json", "server.json", "runtime.json"):
        kill(environ, record)
        before = set(remains(environ))
        with no_bytes(state_of(environ).parent):
            upped = program("up", environ=environ)
            assert upped.code == 1 and "Traceback" not in upped.err
            assert f"{record}: {FULL}" in upped.err or f"up-worker.json: {FULL}" in upped.err
            assert set(remains(environ)) <= before, "what was started is ended"
        assert (upped := program("up", environ=environ)).code == 0, upped.err
        assert program("get", "pods", environ=environ).code == 0


def test_commands_on_a_full_disk_fail_in_a_sentence(environ: dict[str, str]) -> None:
    assert (upped := program("up", "--simulate", environ=environ)).code == 0, upped.err
    pod = json.dumps(manifest("web"))
    with no_bytes(state_of(environ).parent):
        for words in (("apply", "-f", "-", "--timeout", "10s"), ("down", "--timeout", "10s")):
            done = program(*words, environ=environ, stdin=pod)
            assert "Traceback" not in done.err and done.code in (0, 1), done.err
            assert done.code == 0 or "full" in done.err or FULL in done.err, done.err
        assert program("down", "--keep-pods", environ=environ).code == 0
    assert remains(environ) == []
