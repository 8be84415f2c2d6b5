"""The worker that ``up`` starts: one per state directory. Finding it, and starting it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import syncpod
from syncpod.cli.failure import BAD_INPUT, Failure
from syncpod.cli.machine.processes import identify, last_lines, start_detached
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import (
    StartedWorker,
    exclusive,
    prepare,
    worker_log,
    write_worker,
)
from syncpod.settings.node import NodeSettings
from syncpod.settings.worker_record import WorkerRecord, read_worker_record

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

_READY_SECONDS: Final = 60.0


def serving(state_dir: Path) -> WorkerRecord | None:
    """Return the record of the live worker of a state directory, whoever started it; None = none lives."""
    record = read_worker_record(state_dir)
    return record if record is not None and _is_worker(record.pid) else None


def local_node(asked: str) -> str:
    """Return the node for pods that name none: the one asked for, else this machine's."""
    here = settings(node=asked)
    worker = None if asked else serving(here.state_dir)
    return worker.node if worker is not None else here.node


def start(
    node: NodeSettings, endpoint: str, config: ClientConnectConfig, *, own_server: bool
) -> tuple[WorkerRecord, bool]:
    """Return the worker of the node, and whether it was started here; returns once it serves.

    `own_server`: whether the server is the state directory's own. Raises Failure with the worker's last words.
    """
    prepare(node.state_dir)
    log = worker_log(node.state_dir)
    with exclusive(node.state_dir):
        running = serving(node.state_dir)
        if running is not None:
            return running, False
        command = [sys.executable, str(worker_program()), "--node", node.node, "--state-dir", str(node.state_dir)]
        command += ["--memory-dir", str(node.memory_dir), "--log-dir", str(node.log_dir)]
        command += ["--runtime-endpoint", endpoint]
        command += ["--manifests", str(node.manifest_dir)] if node.manifest_dir is not None else ["--no-manifests"]
        command += ["--adopt-cluster"] if node.adopt_cluster else []
        command += ["--capacity", node.capacity] if node.capacity else []
        command += [] if node.pod_cgroups else ["--no-pod-cgroups"]
        address, namespace = config["target_host"], config["namespace"]
        child = start_detached(command, log=log, environment={**os.environ, "TEMPORAL_ADDRESS": address})
        if (process := identify(child.pid)) is not None:
            write_worker(
                node.state_dir,
                StartedWorker(
                    process=process,
                    node=node.node,
                    log_dir=str(node.log_dir),
                    endpoint=endpoint,
                    address=address,
                    namespace=namespace,
                    own_server=own_server,
                    memory_dir=str(node.memory_dir),
                    manifest_dir=str(node.manifest_dir or ""),
                ),
            )
        deadline = time.monotonic() + _READY_SECONDS
        while child.poll() is None and time.monotonic() < deadline:
            record = read_worker_record(node.state_dir)
            if record is not None and record.pid == child.pid:
                return record, True
            time.sleep(0.05)
    said = next((line for line in reversed(last_lines(log, 20)) if line.strip()), "nothing")
    if child.poll() is None:
        raise Failure(f"the worker (pid {child.pid}) does not get ready; the last line of {log}: {said}")
    raise Failure(said.removeprefix("syncpod worker: "), BAD_INPUT if child.returncode == BAD_INPUT else 1)


def _is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(Path(part.decode(errors="replace")).name == "worker.py" for part in command)


def worker_program() -> Path:
    """Return the path of worker.py, beside the package in a checkout and in an installation alike."""
    program = Path(syncpod.__file__).resolve().parent.parent / "worker.py"
    if not program.is_file():
        raise Failure(f"{program} is missing: install syncpod again")
    return program
