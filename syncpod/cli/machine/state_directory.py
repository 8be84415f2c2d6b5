"""The files of ``up`` in the state directory: records of the processes that it started, their logs, and our mark."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from syncpod.cli.failure import BadInput
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.procfs import ProcessIdentity, is_running
from syncpod.settings.directories import MADE_BY_MANIFESTS, NODE_FILE, PLACE_FILE, alone_in, note_place
from syncpod.settings.kept import FILE_NAME as KEPT_SETTINGS
from syncpod.settings.node import NodeSettings
from syncpod.settings.process_records import RUNTIME_FILE as _RUNTIME
from syncpod.settings.process_records import SERVER_FILE as _SERVER
from syncpod.settings.worker_record import serving

MARK: Final = "syncpod-state"
"""The file that marks a directory as created for syncpod alone."""
_WORKER, _LOCK = "up-worker.json", "up.lock"
_FLEET_PARTS: Final = {"worker": "up-fleet-worker.json", "gate": "up-fleet-gate.json"}
_JOURNAL: Final = (
    "journal.sign",
    *(f"{name}{end}" for name in ("journal.db", "journal.db.broken") for end in ("", "-wal", "-shm")),
)
_OF_WORKER: Final = frozenset(
    {
        *(
            "lock",
            "lock.new",
            NODE_FILE,
            PLACE_FILE,
            KEPT_SETTINGS,
            "node-report.json",
            "worker.json",
            MADE_BY_MANIFESTS,
            "manifest-place.json",
        ),
        *("api.sock", "reader-token", "loop-stall.json", "codec.json", "proxy.sock", "node-workflow.json", *_JOURNAL),
        *("fleet.json", "fleet-intent.json", "fleet-contact", "fleet-listen", "fleet-machine", "fleet-told-key.json"),
        *("fleet-intent.json.broken", "fleet-earlier-keys.json", "fleet-earlier-fleet-keys.json"),
        *("kubernetes", "kubernetes-events.json", "kubelet-serving.pem", "kept-secrets", "pod-resources", "pods-api"),
        *("pods", "containers", "deleted", "objects", "memory", "image_manager", "exits", "keys", "begun"),
    }
)
"""The files of a worker."""
_OF_POD: Final = re.compile(r"([a-z0-9.-]+_[a-z0-9.-]+_)?([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})")
"""The names of pods' directories, ``<uid>``, and of their logs', ``<namespace>_<name>_<uid>``."""
OURS: Final = (
    _OF_WORKER
    | {MARK, _SERVER, _WORKER, _RUNTIME, _LOCK, "log", "temporal", "runtime", "units.env"}
    | set(_FLEET_PARTS.values())
)
"""Everything that syncpod creates in a state directory for a node, and the records of a fleet's processes."""
_ROOM: Final = 1 << 20
"""A disk with fewer free bytes counts as full: a database may grow by more than this at once."""


@dataclass(frozen=True)
class ServerRecord:
    """The Temporal dev server of a state directory."""

    process: ProcessIdentity
    address: str
    ui: str
    """The URL of its UI; "" = it serves none."""
    detached: bool
    """Whether ``up`` started it: ``down`` ends no other server."""


@dataclass(frozen=True)
class StartedWorker:
    """The worker that ``up`` started. The record stays until ``down`` has deleted the worker's pods."""

    process: ProcessIdentity
    node: str
    log_dir: str
    endpoint: str
    """The runtime's socket."""
    address: str
    """The Temporal server's address."""
    namespace: str
    own_server: bool
    """Whether that server is the state directory's."""
    memory_dir: str = ""
    """Where the worker keeps Secrets; "" in records of earlier versions."""
    manifest_dir: str = ""
    """The directory of manifests that it follows; "" = none."""


FleetPart = Literal["worker", "gate"]


@dataclass(frozen=True)
class FleetProcess:
    """The worker or the gate of a fleet, as ``fleet up`` last started it. The record outlives the process."""

    process: ProcessIdentity
    address: str
    """The Temporal server's address."""
    namespace: str
    listen: str = ""
    """The address at which the gate listens, as it was given; "" for the worker."""
    names: Sequence[str] = ()
    """The names by which nodes reach the gate, as they were given; () for the worker."""


def server_log(state_dir: Path) -> Path:
    """Return the log of the Temporal server."""
    return log_directory(state_dir) / "temporal.log"


def runtime_log(state_dir: Path) -> Path:
    """Return the log of the embedded runtime."""
    return log_directory(state_dir) / "runtime.log"


def worker_log(state_dir: Path) -> Path:
    """Return the log of the worker that ``up`` starts."""
    return log_directory(state_dir) / "worker.log"


def fleet_log(state_dir: Path, part: FleetPart) -> Path:
    """Return the log of a fleet's worker or gate that ``fleet up`` starts."""
    return log_directory(state_dir) / f"fleet-{part}.log"


def log_directory(state_dir: Path) -> Path:
    """Return the directory of these logs."""
    return state_dir / "log"


def prepare(state_dir: Path) -> None:
    """Create the directory and its log directory, for this user alone. Raises BadInput if that is impossible.

    A directory that is new or empty, or has only a worker's files or pods' logs, gets the mark that ``down --purge``
    looks for.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.statvfs(state_dir).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))  # access(2) would report only a missing permission
        if not os.access(state_dir, os.W_OK | os.X_OK):
            raise PermissionError
        mark(state_dir)
        note_place(state_dir)
        log_directory(state_dir).mkdir(mode=0o700, exist_ok=True)
    except PermissionError:
        raise BadInput(
            f"the state directory {state_dir} may not be written: "
            "run as its owner, or name another in SYNCPOD_STATE_DIR"
        ) from None
    except OSError as error:
        raise BadInput(f"the state directory {state_dir} cannot be written: {error.strerror}") from None


def full_disk(state_dir: Path) -> str:
    """Return the sentence that the directory's disk is full; "" if it is not.

    The sentence explains a failure of a process that writes there: a Temporal server on a full disk reports only that a
    shard is unknown.
    """
    try:
        found = os.statvfs(state_dir)
    except OSError:
        return ""
    is_full = found.f_bavail * found.f_frsize < _ROOM or (found.f_files > 0 and found.f_favail == 0)
    return f"the disk of {state_dir} is full" if is_full else ""


def mark(state_dir: Path) -> None:
    """Mark a directory that has only files of syncpod. Raises OSError."""
    with alone_in(state_dir):
        names = {path.name for path in state_dir.iterdir()}
        of_worker = NODE_FILE in names and names <= _OF_WORKER
        if not names or of_worker or (names == {"pods"} and _only_pods(state_dir / "pods")):
            replace_file(
                state_dir / MARK, "This directory is syncpod's; `syncpod down --purge` removes it.\n", durable=True
            )


def _only_pods(directory: Path) -> bool:
    """Return whether a directory has only directories that workers make for pods and their logs."""
    return directory.is_dir() and len(pod_directories(directory)) == sum(1 for _ in directory.iterdir())


def pod_directories(directory: Path) -> list[Path]:
    """Return the subdirectories that are named like workers' directories of pods and of their logs."""
    there = directory.iterdir() if directory.is_dir() else ()
    return [path for path in there if _OF_POD.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


def is_marked(state_dir: Path) -> bool:
    """Return whether the directory was created for syncpod alone."""
    return (state_dir / MARK).is_file()


@contextlib.contextmanager
def exclusive(state_dir: Path) -> Iterator[None]:
    """Lock the directory: only one command at a time starts or ends its processes; others wait."""
    lock = os.open(state_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_server(state_dir: Path, record: ServerRecord) -> None:
    """Record the server that serves now."""
    _write(state_dir / _SERVER, asdict(record))


def running_server(state_dir: Path) -> ServerRecord | None:
    """Return the recorded server if exactly that process still runs."""
    record = recorded_server(state_dir)
    return record if record is not None and is_running(record.process) else None


def recorded_server(state_dir: Path) -> ServerRecord | None:
    """Return the recorded server, running or not."""
    return _record(ServerRecord, state_dir / _SERVER)


_other_servers: dict[Path, str] = {}
"""The address of the server that this command uses, if that is not the node's own server; by state directory.

Such a server does not show which pods of the node are orphans: their workflows may be on the node's own server."""


def note_server(state_dir: Path, address: str, *, is_own: bool) -> None:
    """Remember whether the server that this command uses is that of the state directory's node."""
    _other_servers.pop(state_dir, None)
    if not is_own:
        _other_servers[state_dir] = address


def other_server(state_dir: Path) -> str:
    """Return the address of the server that this command uses; "" if it is the node's own, or not connected yet."""
    return _other_servers.get(state_dir, "")


def forget_server(state_dir: Path) -> None:
    """Remove the record of the server."""
    (state_dir / _SERVER).unlink(missing_ok=True)


def write_worker(state_dir: Path, record: StartedWorker) -> None:
    """Record the worker that ``up`` has started."""
    _write(state_dir / _WORKER, asdict(record))


def recorded_worker(state_dir: Path) -> StartedWorker | None:
    """Return the worker that ``up`` started last, unless its pods have been deleted since."""
    return _record(StartedWorker, state_dir / _WORKER)


def running_worker(state_dir: Path) -> ProcessIdentity | None:
    """Return the worker that ``up`` started if exactly that process still runs."""
    record = recorded_worker(state_dir)
    return record.process if record is not None and is_running(record.process) else None


def forget_worker(state_dir: Path) -> None:
    """Remove the record of the worker."""
    (state_dir / _WORKER).unlink(missing_ok=True)


def write_fleet_process(state_dir: Path, part: FleetPart, record: FleetProcess) -> None:
    """Record the worker or the gate that ``fleet up`` has started."""
    _write(state_dir / _FLEET_PARTS[part], asdict(record))


def recorded_fleet_process(state_dir: Path, part: FleetPart) -> FleetProcess | None:
    """Return the worker or the gate that ``fleet up`` started last, running or not."""
    return _record(FleetProcess, state_dir / _FLEET_PARTS[part])


def running_fleet_process(state_dir: Path, part: FleetPart) -> FleetProcess | None:
    """Return the worker or the gate that ``fleet up`` started if exactly that process still runs."""
    record = recorded_fleet_process(state_dir, part)
    return record if record is not None and is_running(record.process) else None


def _write(path: Path, record: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(record, indent=2) + "\n", durable=True)


_Record = TypeVar("_Record", ServerRecord, StartedWorker, FleetProcess)


def _record(kind: type[_Record], path: Path) -> _Record | None:
    """Read a record; None if there is no valid one."""
    try:
        said = json.loads(path.read_text())
        return kind(**{**said, "process": ProcessIdentity(**said["process"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def memory_directory_of(here: NodeSettings, *, is_named: bool) -> Path:
    """Return the directory of the node's Secrets: the one that its worker uses, else the one that the user names.

    If neither names one (`is_named` is False), it is that of the last worker that `up` started, or the default. Raises
    BadInput if the user names another directory than the worker uses.
    """
    worker, started = serving(here.state_dir), recorded_worker(here.state_dir)
    if worker is not None and worker.memory_dir:
        if is_named and Path(worker.memory_dir) != here.memory_dir:
            raise BadInput(
                f"the worker of {here.state_dir} (pid {worker.pid}) keeps Secrets in {worker.memory_dir}, "
                f"not in {here.memory_dir}: name no other memory directory while it runs"
            )
        return Path(worker.memory_dir)
    if started is not None and started.memory_dir and not is_named:
        return Path(started.memory_dir)
    return here.memory_dir
