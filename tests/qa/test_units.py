"""The stand-in for systemd starts, ends, restarts and lists a unit, and refuses unknown verbs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qa.conformance import units

UNIT = "kubelet-1.service"


class Machine:
    """The programs, called as the tests call them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "unit.log"
        programs = units.install(directory / "machine")
        self._environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, *command: str) -> tuple[int, str]:
        """Run a command; return its exit code and its output."""
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    def start(self, script: str) -> None:
        """Start the unit with a shell script."""
        before = ["systemd-run", "-p", "Delegate=true", "-p", f"StandardError=append:{self.log}", f"--unit={UNIT}"]
        assert self.run(*before, "--slice=runtime.slice", "--remain-after-exit", "/bin/sh", "-c", script) == (0, "")

    def running(self) -> str:
        """The list of running units."""
        return self.run("sudo", "systemctl", "list-units", "*kubelet*", "--state=running")[1]

    def until_lines(self, count: int) -> list[str]:
        """Wait until the unit's log has this many lines."""
        deadline = time.monotonic() + 60
        while len(lines := self.log.read_text().splitlines() if self.log.exists() else []) < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    units.end(tmp_path / "machine")


def test_a_unit_is_listed_while_it_runs_and_a_restart_is_another_process(machine: Machine) -> None:
    machine.start("echo $$$$; exec sleep 600")
    (first,) = machine.until_lines(1)
    assert machine.running() == f"{UNIT} loaded active running\n"
    assert machine.run("sudo", "systemctl", "restart", "kubelet-1") == (0, "")
    assert machine.until_lines(2)[1] != first
    state = Path("/proc", first, "stat")
    assert not state.exists() or state.read_text().rpartition(") ")[2].startswith("Z")  # init may still have to reap it


def test_a_killed_unit_is_listed_as_no_running_one_and_can_be_started_again(machine: Machine) -> None:
    machine.start("echo begun; exec sleep 600")
    machine.until_lines(1)
    assert machine.run("systemctl", "kill", UNIT) == (0, "")
    deadline = time.monotonic() + 60
    while machine.running():
        assert time.monotonic() < deadline
    assert machine.run("systemctl", "list-units", "*kubelet*")[1] == f"{UNIT} loaded active exited\n"
    assert machine.run("systemctl", "start", UNIT) == (0, "")
    machine.until_lines(2)
    assert machine.run("sudo", "systemctl", "stop", UNIT) == (0, "")
    assert machine.running() == ""


def test_what_is_not_known_fails(machine: Machine) -> None:
    assert machine.run("systemctl", "mask", "--now", "locksmithd")[0] == 1
    assert machine.run("systemctl", "restart", "containerd")[0] == 1
