"""The fleet's own side: its cluster, a load balancer, `syncpod fleet serve`, `syncpod fleet gate`, and its commands."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from qa.fleet_chaos.network import run
from qa.fleet_chaos.node import SYNCPOD, environment
from tests.runtimes.ports import free_ports
from tests.runtimes.temporal_cluster import Balancer, TemporalCluster

_PATIENCE = 300.0


@dataclass(frozen=True)
class Said:
    """A command that succeeded in the end: the number of attempts, and the seconds that they took together."""

    words: str
    tries: int
    seconds: float


class _Front:
    """A load balancer with an event loop of its own, since all other code here blocks."""

    def __init__(self, ports: list[int]) -> None:
        """Forward connections to these ports until `close`."""
        self._ports, self.address = ports, ""
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        async with Balancer(self._ports) as balancer:
            self.address = balancer.address
            self._ready.set()
            await self._over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()


class Headquarters:
    """The servers, worker, gate and commands of a fleet. `with` ends all of its processes."""

    def __init__(self, directory: Path, gate_address: str) -> None:
        """Start the cluster, the worker, and the gate at this address. Raises `Missing`."""
        directory.mkdir(mode=0o700)
        self.cluster = TemporalCluster.launch()
        self._front = _Front([server.port for server in self.cluster.servers])
        self.state_dir = directory / "fleet"
        self._environ = environment(TEMPORAL_ADDRESS=self._front.address, SYNCPOD_STATE_DIR=str(self.state_dir))
        self.said: list[Said] = []
        (port,) = free_ports(1)
        self.gate = f"{gate_address}:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start(directory / "worker.log", "serve")
            self._start(directory / "gate.log", "gate", "--listen", self.gate, "--name", gate_address)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """The cluster's address, for clients on its machine."""
        return self._front.address

    def invite(self, node: str, place: Path) -> Path:
        """Write a node's invitation to the file `place`, and return that. Raises RuntimeError."""
        self.say("invite", node, "--gate", self.gate, "-o", str(place))
        return place

    def say(self, *words: str, stdin: str = "") -> str:
        """Run `syncpod fleet`; raises RuntimeError with its message if it fails."""
        return run((), *SYNCPOD, "fleet", *words, environ=self._environ, stdin=stdin)

    def insist(self, *words: str, stdin: str = "") -> str:
        """Repeat a command until it succeeds, as a person would; raises its last error after five minutes.

        A repeated deletion may find nothing to delete, if the first answer was lost.
        """
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                answer = self.say(*words, stdin=stdin)
            except (RuntimeError, subprocess.TimeoutExpired) as refused:
                if tries > 1 and words[0] == "delete" and "not found in the fleet" in str(refused):
                    answer = ""
                elif time.monotonic() > began + _PATIENCE:
                    raise
                else:
                    time.sleep(2)
                    continue
            self.said.append(Said(f"fleet {' '.join(words)}", tries, time.monotonic() - began))
            return answer

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._front.close()
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _start(self, log: Path, *words: str) -> None:
        """Start a long-running command, and wait for the line that says that it serves. Raises RuntimeError."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*SYNCPOD, "fleet", *words],
                env=self._environ | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        deadline = time.monotonic() + 180
        while not any(sign in log.read_text() for sign in ("fleet worker ready", "the fleet's gate listens at")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"syncpod fleet {words[0]} does not serve: {log.read_text()}")
            time.sleep(0.2)
