"""A fleet's commands in a copy of its state directory: they are refused, and end nothing of the fleet that was copied.

Holds: A node has one agent on a machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cli.machine.state_directory import running_fleet_process, running_server
from tests.cli.conftest import Result, program

ROOT = Path(__file__).parents[2]
COMMANDS = (
    ("fleet", "up"),
    ("fleet", "down"),
    ("fleet", "gate"),
    ("fleet", "serve"),
    ("fleet", "install", "--print"),
    ("server",),
    ("fleet", "get", "nodes"),
)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of a fleet that is served."""
    state = tmp_path_factory.mktemp("fleets") / "fleet"
    upped = run(state, "fleet", "up", "--listen", "127.0.0.1:0")
    assert upped.code == 0, upped.err
    yield state
    run(state, "fleet", "down")


@pytest.fixture(scope="module")
def copy(origin: Path) -> Path:
    """A copy of it, made while its processes run."""
    made = origin.with_name("copy")
    shutil.copytree(origin, made, ignore=shutil.ignore_patterns("*.sock"))
    return made


def run(state: Path, *arguments: str) -> Result:
    return program(*arguments, environ={"SYNCPOD_STATE_DIR": str(state), "TEMPORAL_ADDRESS": ""})


def pids(state: Path) -> list[int]:
    """The processes of the fleet's server, worker and gate."""
    records = running_server(state), running_fleet_process(state, "worker"), running_fleet_process(state, "gate")
    return [record.process.pid for record in records if record is not None]


def refusal(origin: Path, copy: Path) -> str:
    return (
        f"state directory {copy} is a copy of {origin}, and cannot serve its fleet too: name {origin} in "
        "SYNCPOD_STATE_DIR, or an empty directory for another fleet; if the fleet is to move here, end it there "
        f"(`syncpod fleet down`) and remove {origin}\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_a_copy_is_refused_and_ends_nothing(
    origin: Path, copy: Path, command: tuple[str, ...]
) -> None:
    before = pids(origin)
    assert len(before) == 3
    done = run(copy, *command)
    assert (done.code, done.out, done.err) == (2, "", f"syncpod: {refusal(origin, copy)}")
    assert pids(origin) == before, "the fleet is served on"


def test_the_keys_alone_may_be_copied_and_command_the_fleet(origin: Path) -> None:
    elsewhere = origin.with_name("elsewhere")
    server = running_server(origin)
    assert server is not None
    shutil.copytree(origin / "fleet", elsewhere / "fleet", ignore=shutil.ignore_patterns("*.sock"))
    environ = {"SYNCPOD_STATE_DIR": str(elsewhere), "TEMPORAL_ADDRESS": server.address}
    listed = program("fleet", "get", "nodes", environ=environ)
    assert listed.code == 0, listed.err


def test_a_second_server_worker_and_gate_are_refused_even_if_the_fleets_own_are_away(origin: Path, copy: Path) -> None:
    assert run(origin, "fleet", "down").code == 0
    assert run(copy, "fleet", "up").code == 2
    done = subprocess.run(
        [sys.executable, str(ROOT / "fleet_worker.py"), "--state-dir", str(copy)],
        env={**os.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"syncpod fleet serve: {refusal(origin, copy)}")


def test_a_fleet_whose_directory_was_moved_is_served_on(origin: Path) -> None:
    run(origin, "fleet", "down")
    moved = origin.with_name("moved")
    origin.rename(moved)
    try:
        upped = run(moved, "fleet", "up")
        assert upped.code == 0, upped.err
    finally:
        run(moved, "fleet", "down")
        moved.rename(origin)
    assert run(origin, "fleet", "up").code == 0, "and back again"
