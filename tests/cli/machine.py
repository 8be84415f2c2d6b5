"""A machine after `up`: a real runtime, its own Temporal server and worker, and two pods."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from syncpod.settings.directories import memory_directory
from tests.cli.conftest import Result, program
from tests.runtimes.selection import CONTAINERDS

WRITER = """
echo out; sleep 0.3; echo err >&2; sleep 0.3; printf '%20000s|\\n' long
trap exit TERM
n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done
"""

PODS = {
    "kind": "List",
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "writer", "labels": {"app": "writer"}},
            "spec": {
                "hostNetwork": True,
                "terminationGracePeriodSeconds": 1,
                "initContainers": [{"name": "setup", "image": "busybox:1", "command": ["echo", "set up"]}],
                "containers": [
                    {"name": "app", "image": "busybox:1", "command": ["sh", "-c", WRITER]},
                    {
                        "name": "side",
                        "image": "busybox:1",
                        "command": ["sh", "-c", "trap exit TERM; sleep 3600 & wait"],
                    },
                ],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "once"},
            "spec": {
                "hostNetwork": True,
                "restartPolicy": "OnFailure",
                "containers": [
                    {
                        "name": "app",
                        "image": "busybox:1",
                        "command": ["sh", "-c", "echo try; test -e /tmp/data/x || { touch /tmp/data/x; exit 3; }"],
                        "volumeMounts": [{"name": "data", "mountPath": "/tmp/data"}],
                    }
                ],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        },
    ],
}


Run = Callable[..., Result]
"""Runs a command on the machine."""


EMBEDDED = "embedded"
RUNTIMES = (EMBEDDED, *CONTAINERDS)


@contextmanager
def machine(runtime: str, request: pytest.FixtureRequest, directory: Path) -> Iterator[dict[str, str]]:
    """Yield an environment with a runtime and a state directory; at the end, `down` ends everything there."""
    environ = {
        "SYNCPOD_STATE_DIR": str(directory / "state"),
        "SYNCPOD_LOG_DIR": str(directory / "pods"),
        "SYNCPOD_NODE": f"vm-{directory.name}",
        "CONTAINER_RUNTIME_ENDPOINT": "" if runtime == EMBEDDED else request.getfixturevalue(runtime).endpoint,
    }
    try:
        yield environ
    finally:
        program("down", environ=environ)
        shutil.rmtree(memory_of(environ), ignore_errors=True)
        assert program("down", environ=environ).out == "", "everything has been ended"
        assert remains(environ) == [], "nothing runs on"


def memory_of(environ: dict[str, str]) -> Path:
    """The directory of the machine's Secrets, which by default is in memory."""
    return memory_directory(Path(environ["SYNCPOD_STATE_DIR"]), os.environ)


def bring_up(environ: dict[str, str], run: Run = program) -> Result:
    """Bring both pods up."""
    flags = () if environ["CONTAINER_RUNTIME_ENDPOINT"] else ("--embedded",)
    return run("up", *flags, "-f", "-", "--timeout", "60s", environ=environ, stdin=json.dumps(PODS))


def remains(environ: dict[str, str]) -> list[str]:
    """The command lines of running processes that contain the machine's state directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if environ["SYNCPOD_STATE_DIR"] in line:
            found.append(line)
    return found
