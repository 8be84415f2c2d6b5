"""Finds and starts the worker of ``up``, one per state directory."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import syncpod
from syncpod.cli.console import program, waiting
from syncpod.cli.failure import BAD_INPUT, Failure
from syncpod.cli.machine.processes import require_not_stopped, since, size_of, start_recorded
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import (
    StartedWorker,
    exclusive,
    forget_worker,
    prepare,
    recorded_worker,
    running_worker,
    worker_log,
    write_worker,
)
from syncpod.journal.reading import last_sign_of
from syncpod.kernel.procfs import is_running
from syncpod.settings.kept import beneath
from syncpod.settings.node import NodeSettings
from syncpod.settings.table import RUNTIME_ENDPOINT, as_arguments
from syncpod.settings.worker_record import WorkerRecord, read_worker_record, serving

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

_READY_SECONDS: Final = 60.0
_LIFE_SECONDS: Final = 10.0
"""How old the last sign of life of a serving worker may be, and how long to wait for a newer one."""
_LOOK_SECONDS: Final = 0.1


def local_node(asked: str) -> str:
    """Return the node for pods that name none: the requested one, else this machine's."""
    here = settings(node=asked)
    worker = None if asked else serving(here.state_dir)
    return worker.node if worker is not None else here.node


def start(
    node: NodeSettings, endpoint: str, config: ClientConnectConfig, *, own_server: bool
) -> tuple[WorkerRecord, bool]:
    """Start the node's worker if it does not run, and return once it serves; returns also whether it was started.

    A worker that does not serve yet may run already: the command that started it was ended before it served.
    `own_server`: whether the server is the state directory's own. Raises Failure with the worker's own error.
    """
    prepare(node.state_dir)
    log = worker_log(node.state_dir)
    with exclusive(node.state_dir):
        running = serving(node.state_dir) or _gets_ready(node.state_dir, log)
        if running is not None:
            _require_signs_of_life(node, running)
            return running, False
        command = [sys.executable, str(worker_program()), *_arguments(node, endpoint)]
        address, namespace = config["target_host"], config["namespace"]
        begin, before = size_of(log), recorded_worker(node.state_dir)
        child, _ = start_recorded(
            command,
            lambda process: write_worker(
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
            ),
            log=log,
            environment={**os.environ, "TEMPORAL_ADDRESS": address},
        )
        record = _record_of(node.state_dir, child.pid, lambda: child.poll() is None)
        if record is not None:
            return record, True
        code = child.poll()
        if code is not None:
            _put_back(node.state_dir, before)
    raise _not_ready(child.pid, code, log, begin)


def _gets_ready(state_dir: Path, log: Path) -> WorkerRecord | None:
    """Return the record of a worker that `up` started earlier, once it serves; None if none runs, or it ends first."""
    process, begin = running_worker(state_dir), size_of(log)
    if process is None:
        return None
    require_not_stopped("worker", process.pid)
    with waiting(f"waiting up to {_READY_SECONDS:g} s for the worker (pid {process.pid}) to serve"):
        record = _record_of(state_dir, process.pid, lambda: is_running(process))
    if record is None and is_running(process):
        raise _not_ready(process.pid, None, log, begin)
    return record


def _record_of(state_dir: Path, pid: int, lives: Callable[[], bool]) -> WorkerRecord | None:
    """Return a worker's record once it serves; None if it ends first, or does not serve within _READY_SECONDS."""
    deadline = time.monotonic() + _READY_SECONDS
    while lives():
        record = read_worker_record(state_dir)
        if record is not None and record.pid == pid:
            return record
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return None


def _arguments(node: NodeSettings, endpoint: str) -> list[str]:
    """Return the worker's arguments: all settings that were given now or at the node's last start.

    Current values of `node` override both, since a command may have changed them: `down` removes the sources of pods.
    """
    otherwise = beneath(kept_settings(node.state_dir).variables, os.environ)
    texts = {**node.texts(), RUNTIME_ENDPOINT.variable: endpoint}
    adopts = ["--adopt-cluster"] if node.adopt_cluster else []
    return ["--state-dir", str(node.state_dir), *as_arguments(texts, otherwise), *adopts]


def _require_signs_of_life(node: NodeSettings, worker: WorkerRecord) -> None:
    """Return once a running worker has given a recent sign of life. Raises Failure if it gives none.

    A worker gives one each second, but a busy machine may delay it.
    """
    require_not_stopped("worker", worker.pid)
    deadline = time.monotonic() + _LIFE_SECONDS
    while (heard := last_sign_of(node.state_dir, Path(worker.memory_dir))) is not None:
        silent = (datetime.now(UTC) - heard).total_seconds()
        if silent < _LIFE_SECONDS:
            return
        if time.monotonic() > deadline:
            raise Failure(
                f"the worker (pid {worker.pid}) runs, but has given no sign of life for {silent:.0f} s: "
                f"{worker_log(node.state_dir)} says what it did; `{program()} down --keep-pods` ends it, "
                f"and `{program()} up` starts another"
            )
        time.sleep(_LOOK_SECONDS)


def _put_back(state_dir: Path, before: StartedWorker | None) -> None:
    """Restore the record of the previous worker, after a worker could not serve, perhaps because of its server.

    The next `up` takes the node's server from the record.
    """
    if before is not None:
        write_worker(state_dir, before)
    else:
        forget_worker(state_dir)


_REFUSAL: Final = "syncpod worker: "
"""The prefix of a worker's message that it cannot serve."""
_ENTRY: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (?P<level>[A-Z]+) \S+: (?P<text>.*)")
_EXCEPTION: Final = re.compile(r"[\w.]*[A-Z]\w+: .+")
"""The last line of a traceback."""


def _not_ready(pid: int, code: int | None, log: Path, begin: int) -> Failure:
    """Return the failure of a worker that did not get ready, with the reason in its log since byte `begin`, if any.

    `code` is its exit code; None = it still runs.
    """
    lines = since(log, begin).splitlines()
    trouble = [text for level, text in map(_entry, lines) if level in ("WARNING", "ERROR", "CRITICAL")]
    if code is None:
        doing = f"; its last warning: {trouble[-1]}" if trouble else ""
        return Failure(
            f"the worker (pid {pid}) is not ready after {_READY_SECONDS:g} s, and keeps trying{doing}; "
            f"`{program()} node` shows when it serves, and {log} what it does"
        )
    refusals = [line.removeprefix(_REFUSAL) for line in lines if line.startswith(_REFUSAL)]
    if refusals:
        return Failure(refusals[-1], BAD_INPUT if code == BAD_INPUT else 1)
    if code < 0:
        return Failure(f"the worker was ended by signal {-code} before it was ready; {log} says what it did")
    why = next((line for line in reversed(lines) if _EXCEPTION.fullmatch(line)), "") or next(iter(trouble[-1:]), "")
    return Failure(f"the worker ended with exit code {code} before it was ready{f': {why}' if why else ''}; see {log}")


def _entry(line: str) -> tuple[str, str]:
    """Return level and text of a log entry, in either format; both are "" for other lines."""
    if entry := _ENTRY.fullmatch(line):
        return entry["level"], entry["text"]
    try:
        said = json.loads(line)
        return said["level"].upper(), said["message"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return "", ""


def worker_program() -> Path:
    """Return the path of worker.py, which is beside the package, even if installed. Raises Failure if missing."""
    return _program("worker.py")


def fleet_worker_program() -> Path:
    """Return the path of fleet_worker.py. Raises Failure."""
    return _program("fleet_worker.py")


def _program(name: str) -> Path:
    path = Path(syncpod.__file__).resolve().parent.parent / name
    if not path.is_file():
        raise Failure(f"{path} is missing: install syncpod again")
    return path
