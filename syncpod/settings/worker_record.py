"""The file in a node's state directory that says which worker serves it, for people and for the command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from syncpod.kernel.atomic_file import replace_file

_FILE_NAME = "worker.json"


@dataclass(frozen=True)
class WorkerRecord:
    """A worker's record of itself while it serves."""

    pid: int
    identity: str
    """``<node>/<machine>/<boot>``, as the server and the UI show it."""
    node: str
    endpoint: str
    """The runtime's socket."""
    runtime: str
    """The runtime's name and version."""
    address: str
    """The Temporal server's address."""
    namespace: str
    task_queue: str
    boot: int
    """Number of the worker's life on this node; each is larger than the one before."""
    memory_dir: str = ""
    """The directory of Secrets that it reads; "" = not recorded."""
    manifest_dir: str = ""
    """The manifest directory that it follows; "" = none."""
    kubeconfig: str = ""
    """The kubeconfig of the Kubernetes cluster that its node is part of; "" = none."""
    metrics_address: str = ""
    """``host:port`` of its metrics; "" = they are not served."""
    labels: dict[str, str] = field(default_factory=dict)
    """The node's labels."""


def write_worker_record(state_dir: Path, record: WorkerRecord) -> None:
    """Write the record of a worker that serves. Atomic; readable by its owner only. Raises OSError."""
    replace_file(state_dir / _FILE_NAME, json.dumps(asdict(record), indent=2) + "\n", durable=True)


def read_worker_record(state_dir: Path) -> WorkerRecord | None:
    """Return the record in this state directory, or None. Its worker may have died since: check the pid."""
    try:
        fields = json.loads((state_dir / _FILE_NAME).read_text())
        return WorkerRecord(**{name: fields[name] for name in WorkerRecord.__dataclass_fields__ if name in fields})
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def serving(state_dir: Path) -> WorkerRecord | None:
    """Return the record of the live worker of a state directory, whoever started it; None = none lives."""
    record = read_worker_record(state_dir)
    return record if record is not None and _is_worker(record.pid) else None


def serving_at(state_dir: Path, address: str, namespace: str) -> WorkerRecord | None:
    """Return the live worker of a state directory if it serves this namespace of the server at this address.

    Then the namespace exists and has the node's pods: the worker has checked that at its start, and checks it again
    every five seconds.
    """
    worker = serving(state_dir)
    return worker if worker is not None and (worker.address, worker.namespace) == (address, namespace) else None


def _is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(Path(part.decode(errors="replace")).name == "worker.py" for part in command)


def remove_worker_record(state_dir: Path) -> None:
    """Remove the record: the worker no longer serves."""
    (state_dir / _FILE_NAME).unlink(missing_ok=True)
