"""A machine that `up` brings up: a real containerd, a Temporal server and worker of its own, and two pods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import Result, program

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
                        "command": ["sh", "-c", "echo try; test -e /data/x || { touch /data/x; exit 3; }"],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        },
    ],
}


Run = Callable[..., Result]
"""Runs a command on the machine."""


@contextmanager
def machine(endpoint: str, directory: Path) -> Iterator[dict[str, str]]:
    """Yield an environment with a runtime and a state directory; what runs there is brought down in the end."""
    environ = {
        "SYNCPOD_STATE_DIR": str(directory / "state"),
        "SYNCPOD_LOG_DIR": str(directory / "pods"),
        "SYNCPOD_NODE": f"vm-{directory.name}",
        "CONTAINER_RUNTIME_ENDPOINT": endpoint,
    }
    try:
        yield environ
    finally:
        program("down", "--pods", environ=environ)
        assert program("down", environ=environ).out == "", "everything has been ended"


def bring_up(environ: dict[str, str]) -> Result:
    """Bring both pods up."""
    return program("up", "-f", "-", "--timeout", "60s", environ=environ, stdin=json.dumps(PODS))
