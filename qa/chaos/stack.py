"""The targets of chaos, private to one run: a Temporal server, a containerd whose runc can be slowed, and a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

from qa.chaos.record import PodRecord
from qa.chaos.witness import PLACE, build
from syncpod.cri.client import CriClient
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.names import NODE_LABEL
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import CGROUPS
from tests.runtimes.processes import processes, with_descendants
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

VERSIONS = {"containerd16": "1.6", "containerd24": "2.4"}
NODE = "chaos"
TIDY = {"SYNCPOD_ORPHANS_PERIOD": "5s", "SYNCPOD_GONE_PODS_PERIOD": "5s", "SYNCPOD_GONE_PODS_MIN_AGE": "30s"}
"""Short periods of the node's clean-up, so that a run can wait for it."""

_SLOW_RUNC = """#!{busybox} sh
case " $* " in
*" start "*)
  {runc} "$@"
  code=$?
  {busybox} sleep "$({busybox} cat {late})"
  exit $code
  ;;
esac
exec {runc} "$@"
"""
"""A runc that answers `start` late: the process runs already, and the caller still waits."""


@dataclass
class Stack:
    """One node, with its server and its runtime."""

    directory: Path
    server: DevServer
    runtime: Containerd
    client: Client
    cri: CriClient
    worker: NodeProcess | None = None
    ended_by_itself: list[int] = field(default_factory=list)
    """The exit codes of workers that nobody killed."""

    @property
    def out(self) -> Path:
        """The directory in which containers write their notes."""
        return self.directory / "out"

    @property
    def late(self) -> Path:
        """The file with the number of seconds by which runc delays the answer to a start."""
        return self.directory / "late"

    def be_late(self, seconds: float) -> None:
        """Have runc answer each start this many seconds late from now on."""
        beside = self.late.with_suffix(".new")
        beside.write_text(f"{seconds}\n")
        beside.replace(self.late)

    @property
    def is_served(self) -> bool:
        """Whether the present worker has reported that it is ready."""
        return self.worker is not None and self.worker.is_ready

    def start_worker(self) -> NodeProcess:
        """Start a worker process, without waiting until it serves."""
        self.worker = NodeProcess.of(self.runtime, self.server, self.directory, node=NODE, **TIDY)
        return self.worker

    def kill_worker(self) -> None:
        """SIGKILL the worker."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None

    def keep_worker(self) -> None:
        """Restart the worker if it has ended by itself, as a supervisor would."""
        code = self.worker._process.poll() if self.worker is not None else None
        if code is not None:
            self.ended_by_itself.append(code)
            self.start_worker()

    def witnesses(self) -> tuple[int, ...]:
        """Return the ids of all processes of our containers, according to the kernel."""
        everything = processes()
        below = set(with_descendants((shim.pid for shim in self.runtime.shims), everything))
        mark = f"{PLACE}/witness"
        return tuple(each.pid for each in everything if each.pid in below and each.argv[0] == mark)

    def stop_for_a_while(self) -> None:
        """SIGSTOP containerd."""
        os.kill(self.runtime.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT containerd."""
        with contextlib.suppress(ProcessLookupError, RuntimeError):
            os.kill(self.runtime.pid, signal.SIGCONT)

    async def left(self) -> list[str]:
        """Return the remains on the machine after the last pod: containers, processes, cgroups, mounts, directories."""
        labels = {NODE_LABEL: NODE}
        found = [f"sandbox {each.id}" for each in await self.cri.list_pod_sandboxes(labels=labels)]
        found += [f"container {each.id} ({each.name})" for each in await self.cri.list_containers(labels=labels)]
        found += [f"process {pid}" for pid in self.witnesses()]
        forgotten = self.forgotten_shims()
        for shim in (each for each in self.runtime.shims if each.pid not in forgotten):
            below = [each.argv[0] for each in processes() if each.parent == shim.pid]
            found.append(f"shim of {shim.argv[shim.argv.index('-id') + 1]} with {below or 'no process'}")
        ours = (self.directory, self.runtime.directory)
        forgotten_mounts = self.forgotten_namespaces()
        mounts = (mount for place in ours for mount in mounts_below(place))
        found += [f"mount {mount}" for mount in mounts if mount not in forgotten_mounts]
        for place in ("state/pods", "memory/pods", "logs"):
            found += [f"directory {path}" for path in sorted((self.directory / place).glob("*"))]
        parent = self.runtime.cgroup_parent.strip("/")
        for hierarchy in (CGROUPS, *(each for each in CGROUPS.iterdir() if each.is_dir())):
            places = (hierarchy / parent / tier for tier in ("", "burstable", "besteffort"))
            found += [f"cgroup {path}" for place in places for path in sorted(place.glob("pod*"))]
        return found

    def forgotten_shims(self) -> frozenset[int]:
        """Return the ids of shims that have no process and are older than the running containerd.

        If containerd is killed between the start of a shim and the record of it, the shim stays for ever: the next
        containerd cannot find it, and CRI never reports it.
        """
        everything = processes()
        busy, since = {each.parent for each in everything}, _started(self.runtime.pid)
        return frozenset(each.pid for each in self.runtime.shims if each.pid not in busy and _started(each.pid) < since)

    def forgotten_namespaces(self) -> frozenset[str]:
        """Return the mounts of network namespaces without a sandbox. Call this only if the runtime lists no sandbox.

        If containerd is killed while it makes or removes a sandbox, the namespace stays for ever: the next containerd
        has no sandbox for it. While there are sandboxes, the result includes their namespaces too.
        """
        mounts = mounts_below(self.runtime.directory)
        return frozenset(mount for mount in mounts if Path(mount).parent.name == "netns")

    def keep_evidence(self, place: Path, records: Iterable[PodRecord]) -> None:
        """Copy notes, logs and the record of each pod to a directory, for later analysis."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.out, place / "out")
        for path, name in ((self.runtime.log, "containerd.log"), (self.server.log, "temporal.log")):
            shutil.copy(path, place / name)
        shutil.copy(self.directory / "stderr", place / "worker.log")
        (place / "pods").mkdir()
        for record in records:
            (place / "pods" / f"{record.name}-{record.uid}.json").write_text(json.dumps(asdict(record), indent=1))


@contextlib.asynccontextmanager
async def stack(runtime: str) -> AsyncIterator[Stack]:
    """Run server, containerd and worker during the block. Raises `Missing`."""
    with tempfile.TemporaryDirectory(prefix="syncpod-chaos-") as name, contextlib.ExitStack() as parts:
        directory = _laid_out(Path(name))
        containerd = parts.enter_context(await asyncio.to_thread(Containerd.launch, VERSIONS[runtime], gates=False))
        server = parts.enter_context(await asyncio.to_thread(DevServer.launch))
        client = await Client.connect(
            server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()], runtime=_quiet()
        )
        async with CriClient(containerd.endpoint) as cri:
            made = Stack(directory, server, containerd, client, cri)
            made.be_late(0)
            _slow_down(containerd, made.late)
            try:
                await made.start_worker().ready()
                yield made
            finally:
                made.kill_worker()
                made.go_on()
                await asyncio.to_thread(_unmount, directory)


def _quiet() -> Runtime:
    """Return an SDK runtime that does not log each try to connect to a killed server."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="off")))


def _laid_out(directory: Path) -> Path:
    """Make the directories that containers mount, writable by any user."""
    directory.chmod(0o755)
    for place in ("out", "bin"):
        (directory / place).mkdir()
    (directory / "out").chmod(0o777)
    build(directory / "bin" / "witness")
    return directory


def _slow_down(runtime: Containerd, late: Path) -> None:
    """Give containerd a runc that reads the delay of its answers from the file `late`."""
    wrapper = runtime.directory / "bin" / "runc"
    wrapper.unlink()
    wrapper.write_text(_SLOW_RUNC.format(busybox=shutil.which("busybox"), runc=shutil.which("runc"), late=late))
    wrapper.chmod(0o755)


def _unmount(directory: Path) -> None:
    if mounts := mounts_below(directory):
        subprocess.run(["umount", "--lazy", *reversed(mounts)], capture_output=True, check=False)


def mounts_below(directory: Path) -> list[str]:
    """Return the mounts below a directory, in the order of mounting."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [mount for mount in mounts if mount.startswith(f"{directory}/")]


def _started(pid: int) -> float:
    """Return when a process was started, in ticks since the machine booted; infinity if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return math.inf


def container_of(pid: int) -> str:
    """Return the id of a process's container. Raises OSError if the process has ended."""
    return Path(f"/proc/{pid}/cgroup").read_text().splitlines()[0].rpartition("/")[2]
