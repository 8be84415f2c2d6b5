"""`explain` and `node` on a full disk, of a running node: what was recorded last is not told as the present state."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine
from tests.cli.up_processes import state_of

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "short"},
    "spec": {"containers": [{"name": "a", "image": "busybox:1", "command": ["sleep", "15"]}]},
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with little room."""
    (place := tmp_path / "m").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> Path:
    """Fill a disk to its last byte with one file."""
    path = place / "filling"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 10):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return path


def explained(environ: dict[str, str], words: str) -> str:
    """The explanation, once it has these words."""
    deadline = time.monotonic() + 60
    while words not in (told := program("explain", "short", environ=environ).out):
        assert time.monotonic() < deadline, told
        time.sleep(0.3)
    return told


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_told_with_the_last_state_that_could_be_recorded(
    request: pytest.FixtureRequest, small_disk: Path
) -> None:
    with machine(EMBEDDED, request, small_disk) as environ:
        up = program("up", "--embedded", "-f", "-", "--timeout", "60s", environ=environ, stdin=json.dumps(POD))
        assert up.code == 0, up
        begun = time.monotonic()
        explained(environ, "a has been running for")
        is_full = f"the disk of {state_of(environ)} is full"
        filling = fill(small_disk)
        try:
            time.sleep(max(0.0, 18 - (time.monotonic() - begun)))  # the container has ended meanwhile
            told = program("explain", "short", environ=environ)
            of_node, node = (program(*words, environ=environ) for words in (("explain", "node"), ("node",)))
        finally:
            filling.unlink()
        assert "a had been running for" in told.out and "later events are not known" in told.out, told.out
        assert is_full in told.out and "this is the last state that could be recorded" in told.err
        assert is_full in " ".join(of_node.out.split())
        assert f"{is_full}: what follows is the last report that could be written" in node.err
        assert is_full not in explained(environ, "finished (exit 0)")
