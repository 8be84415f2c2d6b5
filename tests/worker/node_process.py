"""`python worker.py` as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol, Self

from tests.agent.waiting import until
from tests.fork_server import start_worker
from tests.runtimes.processes import Closing
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

ROOT = Path(__file__).resolve().parents[2]


class Process(Protocol):
    """A worker's process: the methods of `subprocess.Popen` that a fork also has."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


class NodeProcess(Closing):
    """A worker. `stop` or `kill` ends it; `close` makes sure of that."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        runtime: str,
        temporal: str,
        node: str = "n1",
        start: Any = subprocess.Popen,  # a Callable[..., Process]; mypy would take **environment for one
        **environment: str,
    ) -> None:
        """Start it with `start`, by default Popen; `directory` gets its state, its pods' logs and its own log."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "OTEL_"))}
        self.node = node
        self.state_dir = directory / "state"
        self.output = directory / "stdout"
        self.log = directory / "stderr"
        command = [sys.executable, str(ROOT / "worker.py"), "--node", node, "--state-dir", str(self.state_dir)]
        command += ["--log-dir", str(directory / "logs"), *arguments]
        settings = {
            "CONTAINER_RUNTIME_ENDPOINT": runtime,
            "TEMPORAL_ADDRESS": temporal,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SYNCPOD_MEMORY_DIR": str(directory / "memory"),
            "PYTHONUNBUFFERED": "1",
        }
        with self.output.open("wb") as output, self.log.open("ab") as log:
            self._process: Process = start(
                command, cwd=directory, stdout=output, stderr=log, env={**inherited, **settings, **environment}
            )

    @classmethod
    def of(cls, runtime: Runtime, server: DevServer, directory: Path, *arguments: str, node: str, **more: Any) -> Self:
        """Start a worker for a test runtime and a test server, with its pods in the cgroups of that runtime."""
        cgroups = ("--cgroup-parent", runtime.cgroup_parent) if runtime.cgroup_parent else ()
        return cls(
            directory, *cgroups, *arguments, runtime=runtime.endpoint, temporal=server.address, node=node, **more
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it is alive and has reported that it is ready."""
        return self._process.poll() is None and self.output.read_text().endswith("\n")

    async def ready(self) -> Self:
        """Wait until it is ready; raises AssertionError with its log if it ends instead."""
        await until(lambda: self._process.poll() is not None or self.output.read_text().endswith("\n"), patience=180)
        assert self._process.poll() is None, self.log.read_text()
        return self

    async def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        return await asyncio.to_thread(self._process.wait, 60)

    async def stop(self) -> int:
        """Send SIGTERM; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._process.wait()

    close = kill


def forked(directory: Path, *arguments: str, **more: Any) -> NodeProcess:
    """A worker as a fork with all modules imported, for tests that do not test the start of the process."""
    return NodeProcess(directory, *arguments, start=start_worker, **more)
