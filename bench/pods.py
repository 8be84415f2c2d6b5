"""The measured pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncpod.pod import Pod, admit_pod
from tests.runtimes.images import BUSYBOX

ENDS_AT_ONCE = ("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")
"""A first process that ends on SIGTERM without delay; plain `sleep` as process 1 would ignore it."""


def main_containers(number: int) -> tuple[str, ...]:
    """Return the names of a pod's `number` containers: `main`, `main-1` and so on."""
    return ("main", *(f"main-{other}" for other in range(1, number)))


def pod(name: str, *, host_network: bool = True, init_containers: int = 0, containers: int = 1) -> Pod:
    """Return a pod with this many containers, and this many init containers (`init-0`…) that exit at once."""
    return admit_pod(manifest(name, host_network=host_network, init_containers=init_containers, containers=containers))


def manifest(name: str, *, host_network: bool, init_containers: int = 0, containers: int = 1) -> dict[str, Any]:
    """Return the manifest of the same pod, which a kubelet can read too."""
    inits: list[dict[str, Any]] = [
        {"name": f"init-{number}", "image": BUSYBOX, "command": ["true"]} for number in range(init_containers)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "hostNetwork": host_network,
            "initContainers": inits,
            "containers": [
                {"name": main, "image": BUSYBOX, "command": list(ENDS_AT_ONCE)} for main in main_containers(containers)
            ],
        },
    }


def simulated_pod(name: str, probes: Mapping[str, Any] | None = None) -> Pod:
    """Return a simulated pod with a container `main` that runs until it is stopped, on a pod network.

    `probes` are the container's probes, by field.
    """
    return admit_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {"simulate.syncpod.dev/main": '{"memory": "64Mi", "cpu": "10m", "stopExitCode": 0}'},
            },
            "spec": {"containers": [{"name": "main", "image": BUSYBOX, **(probes or {})}]},
        }
    )
