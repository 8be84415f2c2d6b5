"""Commands in a copy of a state directory: they are refused, and touch nothing of the directory that was copied.

Holds: A node has one agent on a machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.settings.worker_record import serving
from tests.cli.conftest import Result, program
from tests.cli.machine import memory_of
from tests.cli.manifests import manifest

ROOT = Path(__file__).parents[2]
POD = json.dumps(manifest("web", containers=[{"name": "app", "image": "busybox:1"}]))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory whose node has a simulated pod."""
    state = tmp_path_factory.mktemp("copies") / "state"
    upped = run(state, "up", "--simulate", "-f", "-", stdin=POD)
    assert upped.code == 0, upped.err
    yield state
    run(state, "down")
    shutil.rmtree(memory_of(environ(state)), ignore_errors=True)


@pytest.fixture(scope="module")
def copy(origin: Path) -> Path:
    """A copy of it, made while its processes run."""
    made = origin.with_name("copy")
    shutil.copytree(origin, made, ignore=shutil.ignore_patterns("*.sock"))
    return made


def environ(state: Path) -> dict[str, str]:
    return {
        "SYNCPOD_STATE_DIR": str(state),
        "SYNCPOD_LOG_DIR": str(state.parent / "pods"),
        "SYNCPOD_NODE": f"vm-{state.parent.name}",
        "CONTAINER_RUNTIME_ENDPOINT": "",
    }


def run(state: Path, *arguments: str, stdin: str = "") -> Result:
    return program(*arguments, environ=environ(state), stdin=stdin)


@pytest.mark.parametrize(
    "command", [("up",), ("down",), ("down", "--keep-pods"), ("down", "--purge"), ("node",), ("get", "pods")]
)
def test_every_command_in_a_copy_is_refused_and_ends_nothing(
    origin: Path, copy: Path, command: tuple[str, ...]
) -> None:
    before = serving(origin)
    assert before is not None
    done = run(copy, *command)
    assert serving(origin) == before, "the worker runs on"
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"syncpod: state directory {copy} is a copy of {origin}, and cannot serve its node too: name {origin} in "
        "SYNCPOD_STATE_DIR, or an empty directory for another node; if the node is to move here, end it there "
        f"(`syncpod down --keep-pods`) and remove {origin}\n"
    )
    assert "Running" in run(origin, "get", "pods").out


def test_a_worker_in_a_copy_is_refused_even_if_the_nodes_own_is_away(origin: Path, copy: Path) -> None:
    assert run(origin, "down", "--keep-pods").code == 0
    done = subprocess.run(
        [sys.executable, str(ROOT / "worker.py")],
        env={**os.environ, **environ(copy)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, f"state directory {copy} is a copy of {origin}" in done.stderr) == (2, True), done.stderr
    assert run(copy, "up").code == 2


def test_a_directory_that_was_moved_serves_its_node_on(origin: Path) -> None:
    run(origin, "down", "--keep-pods")
    moved = origin.with_name("moved")
    origin.rename(moved)
    try:
        upped = run(moved, "up")
        assert upped.code == 0, upped.err
        assert "web    1/1     Running" in run(moved, "get", "pods").out
    finally:
        run(moved, "down", "--keep-pods")
        moved.rename(origin)
    assert run(origin, "up").code == 0, "and back again"
