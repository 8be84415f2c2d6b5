"""The node of the trials, whose Temporal server and worker are child processes that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from qa.conformance.control_plane import NODE, ControlPlane
from qa.conformance.namespace import WITHIN
from qa.conformance.nodes import SYNCPOD, own_environment
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import unmount_below
from tests.runtimes.processes import kill, processes, with_descendants

_ROOT: Final = Path(__file__).resolve().parents[2]
_ADDRESS: Final = "127.0.0.1:17233"
_PATIENCE: Final = 120.0


class Node:
    """A node of ours in the cluster. Its methods raise RuntimeError if something takes too long."""

    def __init__(self, cluster: ControlPlane, containerd: Containerd, directory: Path, memory: Path) -> None:
        """Keep the node's state below `directory`, and its Secrets in `memory`. Nothing runs yet."""
        directory.mkdir(parents=True)
        self._cluster, self._containerd, self._directory, self._memory = cluster, containerd, directory, memory
        self.state = directory / "state"
        self._server: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The worker's process id."""
        assert self._worker is not None
        return self._worker.pid

    @property
    def is_up(self) -> bool:
        """Whether the worker lives."""
        return self._worker is not None and self._worker.poll() is None

    def start_server(self) -> None:
        """Start the Temporal server, and wait until it answers."""
        port, ui_port = _ADDRESS.rpartition(":")[2], "18233"
        self._server = self._launch(
            "server", [str(SYNCPOD), "server", "--state-dir", str(self.state), "--port", port, "--ui-port", ui_port], {}
        )
        deadline = time.monotonic() + _PATIENCE
        asked = [*WITHIN, sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"]
        while subprocess.run(asked, capture_output=True, check=False).returncode:
            if time.monotonic() > deadline or self._server.poll() is not None:
                raise RuntimeError(f"the Temporal server did not start: {self._log('server')}")
            time.sleep(0.2)

    def start_worker(
        self, *options: str, environment: Mapping[str, str] | None = None, is_killed: bool = False, wait: bool = True
    ) -> None:
        """Start the worker, that of `killed_worker` with `is_killed`. With `wait`, wait until it serves."""
        program = ["-m", "qa.cluster_outages.killed_worker"] if is_killed else [str(_ROOT / "worker.py")]
        command = [sys.executable, *program, "--state-dir", str(self.state), "--node", NODE]
        command += ["--kubeconfig", str(self._cluster.node), "--runtime-endpoint", self._containerd.endpoint, *options]
        self._worker = self._launch("worker", command, environment or {})
        if wait:
            self.await_worker()

    def await_worker(self) -> None:
        """Wait until the worker serves."""
        deadline = time.monotonic() + _PATIENCE
        while self._serving() != self.pid:
            if time.monotonic() > deadline or not self.is_up:
                raise RuntimeError(f"the worker did not start: {self._log('worker')}")
            time.sleep(0.05)

    def kill_worker(self) -> None:
        """SIGKILL the worker."""
        _kill(self._worker)
        self._worker = None

    def await_death(self, patience: float) -> bool:
        """Wait at most `patience` seconds for the worker's end; return whether it has ended."""
        assert self._worker is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._worker.wait(patience)
        return not self.is_up

    def kill_all(self) -> None:
        """Kill every process of the machine, as a power cut would, and remove all files in memory."""
        containers = with_descendants([shim.pid for shim in self._containerd.shims], processes())
        self.kill_worker()
        self._containerd.kill()
        _kill(self._server)
        self._server = None
        kill(containers)
        unmount_below(self._directory)
        unmount_below(self._memory)
        shutil.rmtree(self._memory, ignore_errors=True)

    def boot(self, *options: str) -> None:
        """Start the runtime, the Temporal server and the worker, as a boot does."""
        self._containerd.start()
        self.start_server()
        self.start_worker(*options)

    def close(self) -> None:
        """End worker and server, and remove their mounts and Secrets."""
        self.kill_worker()
        _kill(self._server)
        self._server = None
        unmount_below(self._directory)
        unmount_below(self._memory)
        shutil.rmtree(self._memory, ignore_errors=True)

    def syncpod(self, *arguments: str) -> str:
        """Run the node's own command and return its output. Raises CalledProcessError."""
        command = [*WITHIN, str(SYNCPOD), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=self._environment(), timeout=120
        ).stdout

    def _serving(self) -> int:
        try:
            return int(json.loads((self.state / "worker.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return 0

    def _launch(self, name: str, command: list[str], more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        environment = self._environment() | dict(more)
        with (self._directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*WITHIN, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=_ROOT,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        return own_environment(self._directory) | {
            "SYNCPOD_MEMORY_DIR": str(self._memory),
            "SYNCPOD_STATE_DIR": str(self.state),
            "SYNCPOD_CGROUP_PARENT": self._containerd.cgroup_parent,
            "SYNCPOD_LOG_DIR": str(self._directory / "logs"),
            "TEMPORAL_ADDRESS": _ADDRESS,
        }

    def _log(self, name: str) -> str:
        text = (self._directory / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-8:])


@contextlib.contextmanager
def node(cluster: ControlPlane, containerd: Containerd, directory: Path) -> Iterator[Node]:
    """Run a node that has joined the cluster during the block. Raises RuntimeError."""
    found = Node(cluster, containerd, directory, Path(f"/dev/shm/syncpod-outages-{os.getpid()}"))
    try:
        found.start_server()
        found.start_worker()
        cluster.wait_for_node()
        yield found
    finally:
        found.close()


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a process and its process group."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
