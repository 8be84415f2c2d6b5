"""Pods with limits on a node that cannot enforce them (its user is not root): refused before anything is sent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.waiting import until
from tests.cli.conftest import Result
from tests.cli.machine import Run

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to become nobody"
)

NOBODY = 65534
BECOME = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),  # may read the tests' Python, wherever it is
)
WHY = "cannot be enforced by the embedded runtime, since cgroups are closed to this user: run as root"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A directory of that user, outside of pytest's directories, which only root can enter."""
    with tempfile.TemporaryDirectory(prefix="nobody-", ignore_cleanup_errors=True) as made:
        directory = Path(made)
        for each in (directory, directory / "manifests"):
            each.mkdir(exist_ok=True)
            os.chown(each, NOBODY, NOBODY)
        yield directory


@pytest.fixture(scope="module")
def nobody(home: Path) -> Iterator[Run]:
    """Run commands as a user without rights, on that user's node."""
    own = {"SYNCPOD_STATE_DIR": str(home / "state"), "SYNCPOD_NODE": "nobody", "HOME": str(home)}
    environ = {**os.environ, "TEMPORAL_CONFIG_FILE": os.devnull, **own, "CONTAINER_RUNTIME_ENDPOINT": ""}

    def command(*arguments: str, stdin: str = "") -> Result:
        line = [*BECOME, sys.executable, "-m", "syncpod.cli.main", *arguments]
        done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=120, check=False, env=environ)
        return Result(done.returncode, done.stdout, done.stderr)

    try:
        begun = command("up", "--embedded", "--manifests", str(home / "manifests"))
        assert begun.code == 0, begun.err
        yield command
    finally:
        command("down", "--purge")


def pod(name: str, limits: dict[str, str], port: int) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "busybox:1",
        "command": ["sleep", "1000"],
        "ports": [{"containerPort": port, "hostPort": port}],
        "resources": {"limits": limits},
    }
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def listed(nobody: Run) -> dict[str, Any]:
    """The listed pods by name."""
    items = json.loads(nobody("get", "pods", "-o", "json").out)["items"]
    return {each["metadata"]["name"]: each for each in items}


@pytest.mark.parametrize("command", [("apply", "-f", "-"), ("create", "-f", "-"), ("up", "-f", "-")])
def test_limits_that_nothing_enforces_are_refused_by_their_paths_and_no_pod_is_made(
    nobody: Run, command: tuple[str, ...]
) -> None:
    pods = [pod("limited", {"memory": "64Mi", "cpu": "500m"}, 18701), pod("free", {}, 18702)]
    done = nobody(*command, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    assert done.err.splitlines()[-2:] == [
        f"syncpod: pod limited: spec.containers[0].resources.limits[{name}]: {WHY}, or remove the limit"
        for name in ("cpu", "memory")
    ]
    assert done.code == (1 if command[0] == "up" else 2), "`up` has begun processes by then"
    assert listed(nobody).keys().isdisjoint({"limited", "free"}), "nothing is done if a document is refused"


async def test_a_manifest_of_the_nodes_directory_is_rejected_in_every_view_and_takes_no_host_port(
    nobody: Run, home: Path
) -> None:
    manifest = home / "manifests" / "limited.json"
    manifest.write_text(json.dumps(pod("static", {"memory": "64Mi"}, 18703)))
    os.chown(manifest, NOBODY, NOBODY)
    name = "static-nobody"

    def status() -> dict[str, Any]:
        found: dict[str, Any] = listed(nobody).get(name, {}).get("status", {})
        return found

    await until(lambda: status().get("reason") == "LimitsUnenforced")
    sentence = f"spec.containers[0].resources.limits[memory]: {WHY}, or remove the limit"
    assert status()["message"] == f"Pod was rejected: {sentence}"
    assert "LimitsUnenforced" in nobody("get", "pods").out
    assert sentence in nobody("explain", name).out

    same_port = nobody("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("other", {}, 18703)))
    assert same_port.code == 0, same_port.err
    manifest.unlink()
    assert nobody("delete", "pod", "other", "--now").code == 0
