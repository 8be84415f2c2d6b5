"""What ``up`` and ``server`` leave in the state directory: which processes they started, and where those log."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from syncpod.cli.failure import BadInput
from syncpod.cli.processes import ProcessIdentity, is_running
from syncpod.node_settings import replace_private

_SERVER, _WORKER, _LOCK = "server.json", "up-worker.json", "up.lock"


@dataclass(frozen=True)
class ServerRecord:
    """The Temporal dev server of a state directory."""

    process: ProcessIdentity
    address: str
    ui: str
    detached: bool
    """Whether ``up`` started it, and so ``down`` ends it."""


def server_log(state_dir: Path) -> Path:
    """Return the log of the Temporal server."""
    return state_dir / "log" / "temporal.log"


def worker_log(state_dir: Path) -> Path:
    """Return the log of the worker that ``up`` starts."""
    return state_dir / "log" / "worker.log"


def prepare(state_dir: Path) -> None:
    """Make the directory, and the one for logs in it, for this user alone. Raises BadInput where that cannot be."""
    try:
        for directory in (state_dir, state_dir / "log"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(state_dir, os.W_OK | os.X_OK):
            raise PermissionError
    except PermissionError:
        raise BadInput(
            f"the state directory {state_dir} may not be written: "
            "run as its owner, or name another in SYNCPOD_STATE_DIR"
        ) from None
    except OSError as error:
        raise BadInput(f"the state directory {state_dir} cannot be made: {error.strerror}") from None


@contextlib.contextmanager
def exclusive(state_dir: Path) -> Iterator[None]:
    """Hold the directory for one starter or ender of processes at a time; others wait."""
    lock = os.open(state_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_server(state_dir: Path, record: ServerRecord) -> None:
    """Record the server that serves now."""
    replace_private(state_dir / _SERVER, json.dumps(asdict(record), indent=2) + "\n")


def running_server(state_dir: Path) -> ServerRecord | None:
    """Return the server that was recorded, if that very process still runs and we may read of it."""
    try:
        said = _read(state_dir / _SERVER)
        record = ServerRecord(**{**said, "process": ProcessIdentity(**said["process"])})
    except (KeyError, TypeError):
        return None
    return record if is_running(record.process) else None


def forget_server(state_dir: Path) -> None:
    """Take the record back."""
    (state_dir / _SERVER).unlink(missing_ok=True)


def write_worker(state_dir: Path, process: ProcessIdentity) -> None:
    """Record the worker that ``up`` has started."""
    replace_private(state_dir / _WORKER, json.dumps(asdict(process), indent=2) + "\n")


def running_worker(state_dir: Path) -> ProcessIdentity | None:
    """Return the worker that ``up`` started, if that very process still runs."""
    try:
        process = ProcessIdentity(**_read(state_dir / _WORKER))
    except TypeError:
        return None
    return process if is_running(process) else None


def forget_worker(state_dir: Path) -> None:
    """Take the record back."""
    (state_dir / _WORKER).unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return {}
    return said if isinstance(said, dict) else {}
