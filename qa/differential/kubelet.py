"""The kubelet of the comparison: built from the Go module proxy, and run without an API server, with static pods.

    python -m qa.differential --build

The program is kept in `~/.cache/syncpod/kubernetes-1.37.2`. `SYNCPOD_KUBELET` overrides its path.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from qa.conformance import programs
from syncpod.yaml_text import yaml_text
from tests.runtimes.leftovers import CGROUPS, remove_cgroup, unmount_below
from tests.runtimes.ports import free_ports
from tests.runtimes.require import Missing

VERSION: Final = "1.37.2"
"""The kubelet's version, whose decisions a node of ours mirrors."""
CONTAINER_LOGS: Final = Path("/var/log/containers")
"""The directory in which a kubelet links to containers' logs; no setting changes it."""


def program() -> Path:
    """The path of the kubelet. Raises `Missing`, whose text has the command that builds it."""
    path = Path(os.environ.get("SYNCPOD_KUBELET") or programs.directory(VERSION) / "kubelet")
    if not os.access(path, os.X_OK):
        raise Missing(f"there is no kubelet at {path}: python -m qa.differential --build builds one")
    return path


def build() -> Path:
    """Build the kubelet if it is missing, which takes ten minutes on two cores; return its path.

    Raises `Missing`, CalledProcessError.
    """
    return programs.build(("kubelet",), VERSION) / "kubelet"


class Kubelet:
    """A kubelet without an API server, on a CRI socket. `close` ends it, and removes its cgroups, mounts and links."""

    def __init__(self, directory: Path, *, endpoint: str, node: str, cgroup_root: str) -> None:
        """Start the kubelet, with its state, its pods' logs and its own log in `directory`. Raises `Missing`."""
        executable = program()
        self.directory = directory
        self.node = node
        self.manifests = directory / "manifests"
        self.pod_logs = directory / "logs"
        self.root = directory / "root"
        self.log = directory / "kubelet.log"
        self._cgroup_root = cgroup_root
        for place in (self.manifests, self.pod_logs, self.root):
            place.mkdir(parents=True)
        make_cgroup(cgroup_root)
        port, self._read_only_port = free_ports(2)
        config = directory / "config.yaml"
        config.write_text(yaml_text(self._configuration(endpoint, port)))
        command: list[str | Path] = [
            executable,
            "--config",
            config,
            "--root-dir",
            self.root,
            "--cert-dir",
            directory / "pki",
        ]
        # Without an address, the kubelet resolves its name for each status, in its only loop. Nothing resolves that
        # name, and a name server that does not answer blocks the loop for five seconds.
        command += ["--hostname-override", node, *(f"--node-ip={address}" for address in _own_address()), "-v", "3"]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._read = 0
        self.events: dict[str, list[dict[str, str]]] = {}
        """The events of each pod, by its name, as of the last `read_log`."""
        self.refused: dict[str, str] = {}
        """The reasons why files were refused, by file name."""
        self.taken_up: dict[str, float] = {}
        """When its loop began each pod, by the pod's name, in seconds since the epoch."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ready(self, *, patience: float = 120.0) -> Self:
        """Wait until the kubelet answers. Raises RuntimeError with the end of its log."""
        deadline = time.monotonic() + patience
        while True:
            try:
                await self.pods()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    end = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                    raise RuntimeError(f"the kubelet did not start; the end of {self.log}:\n{end}") from None
                await asyncio.sleep(0.2)
            else:
                return self

    async def pods(self) -> dict[str, Any]:
        """Return the kubelet's pods, with their status, by name. Raises OSError while it does not answer."""
        return await asyncio.to_thread(self._pods)

    def read_log(self) -> None:
        """Parse the new lines of its log: events, refused files, and the times at which it began pods."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text.rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        for line in whole.splitlines():
            if line.startswith(b"{"):
                self._take(json.loads(line))

    def close(self) -> None:
        """End it with SIGKILL; remove its cgroups, mounts and links to logs. The pods end with their runtime."""
        self._process.kill()
        self._process.wait()
        remove_cgroup(self._cgroup_root)
        unmount_below(self.directory)
        if CONTAINER_LOGS.is_dir():
            for link in CONTAINER_LOGS.iterdir():
                if link.is_symlink() and link.readlink().is_relative_to(self.directory):
                    link.unlink()

    def _take(self, entry: Mapping[str, Any]) -> None:
        if entry.get("msg") == "Event occurred":
            name = (
                str(entry["object"]).rpartition("/")[2] if isinstance(entry["object"], str) else entry["object"]["name"]
            )
            self.events.setdefault(name, []).append({key: str(value) for key, value in entry.items()})
        elif entry.get("msg") == "SyncLoop ADD":
            self.taken_up |= {str(pod["name"]): entry["ts"] / 1000 for pod in entry.get("pods") or ()}
        elif "manifest" in entry.get("msg", "").lower() and entry.get("path"):
            self.refused[Path(entry["path"]).name] = str(entry.get("err", entry["msg"]))

    def _pods(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._read_only_port}/pods", timeout=30) as answer:
            listed = json.load(answer)
        return {pod["metadata"]["name"]: pod for pod in listed["items"] or ()}

    def _configuration(self, endpoint: str, port: int) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self.pod_logs),
            "containerRuntimeEndpoint": endpoint,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._cgroup_root,
            "address": "127.0.0.1",
            "port": port,
            "readOnlyPort": self._read_only_port,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failSwapOn": False,
            "failCgroupV1": False,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
            "maxPods": 500,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "logging": {"format": "json"},
            "featureGates": {"ContainerStopSignals": True},
        }


def _own_address() -> list[str]:
    """The source address of this machine's default route; none if it has no such route. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # TEST-NET-1: an address of documentation
        except OSError:
            return []
        return [str(asking.getsockname()[0])]


def make_cgroup(path: str) -> None:
    """Make the parent cgroup of a kubelet's cgroups in each hierarchy: a kubelet requires that it exists."""
    for hierarchy in CGROUPS.iterdir():
        if (hierarchy / "cgroup.procs").exists() and not hierarchy.is_symlink():
            cgroup = hierarchy / path.strip("/")
            cgroup.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (cgroup / name).exists() and not (cgroup / name).read_text().strip():
                    (cgroup / name).write_text((hierarchy / name).read_text())
