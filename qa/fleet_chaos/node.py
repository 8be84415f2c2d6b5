"""One node as the owner of a machine runs it: a containerd and `syncpod up`, in a network of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import threading
from pathlib import Path

from qa.fleet_chaos.network import Wire, run
from tests.runtimes import claim, leftovers
from tests.runtimes.containerd import Containerd
from tests.runtimes.processes import kill, processes, with_descendants

SYNCPOD = (sys.executable, "-m", "syncpod.cli.main")
COMPILED = claim.HOME / "compiled"
"""The directory of the bytecode of syncpod's programs, which start hundreds of times in a run."""
_MEMORY = Path("/dev/shm")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, without variables that name another server or node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "OTEL_", "SYNCPOD"))}
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(COMPILED)}  # as if it were installed
    return {**kept, **compiled, "TEMPORAL_CONFIG_FILE": os.devnull, "NO_COLOR": "1", **more}


class Machine:
    """A node that can die like a machine, and boot again with the contents of its disk."""

    def __init__(self, name: str, wire: Wire, directory: Path) -> None:
        """Start its containerd. Raises `Missing`."""
        self.name, self.wire = name, wire
        directory.mkdir(mode=0o700)
        self.directory = directory
        self.state_dir = directory / "state"
        self._memory = _MEMORY / f"syncpod-fleet-{secrets.token_hex(3)}"
        self.runtime = Containerd.launch("2.4", gates=False, within=wire.within)
        self._environ = environment(
            SYNCPOD_STATE_DIR=str(self.state_dir),
            SYNCPOD_MEMORY_DIR=str(self._memory),
            SYNCPOD_LOG_DIR=str(directory / "logs"),
            SYNCPOD_CGROUP_PARENT=self.runtime.cgroup_parent,
            CONTAINER_RUNTIME_ENDPOINT=self.runtime.endpoint,
        )

    def up(self) -> None:
        """Run `syncpod up`, which starts the Temporal server and the worker, on the same ports as on every node."""
        self.say("up", "--node", self.name, seconds=600)

    def say(self, *words: str, seconds: float = 300) -> str:
        """Run `syncpod` on the node; raises RuntimeError with its message if it fails."""
        return run(self.wire.within, *SYNCPOD, *words, environ=self._environ, seconds=seconds)

    def die(self) -> int:
        """Kill all its processes, as a power cut does, and remove all state in memory; return how many were killed.

        The kernel is this machine's and keeps running, so its boot id and clock do not change.
        """
        killed = 0
        while pids := self._everything():
            killed += len(pids)
            kill(pids)
        self.runtime.kill()
        leftovers.unmount_below(self.runtime.directory)
        leftovers.unmount_below(self.directory)
        if self._memory.exists():
            leftovers.unmount_below(self._memory)
            shutil.rmtree(self._memory)
        leftovers.remove_cgroup(self.runtime.cgroup_parent)
        shutil.rmtree(self.runtime.directory / "state", ignore_errors=True)
        self.wire.forget_interfaces()
        return killed

    def boot(self) -> None:
        """Start containerd and syncpod, as a machine does at boot."""
        self.runtime.start(patience=180)
        self.up()

    def remove(self) -> None:
        """End all its processes, and remove its containerd's directory."""
        self.die()
        self.runtime.close()

    def _everything(self) -> tuple[int, ...]:
        """Its processes: those in its network namespace, its shims, and all their descendants."""
        everything = processes()
        roots = {*self.wire.inside(), *(shim.pid for shim in self.runtime.shims)}
        return tuple(set(with_descendants(roots, everything)))


def all_at_once(work: list[threading.Thread]) -> None:
    """Run threads concurrently, and wait for all of them."""
    for each in work:
        each.start()
    for each in work:
        each.join()
