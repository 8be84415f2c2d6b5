"""The file in a node's state directory that says where its embedded runtime listens, and which process that is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.process_identity import ProcessIdentity, is_running

FILE_NAME: Final = "runtime.json"


@dataclass(frozen=True)
class RuntimeRecord:
    """The embedded runtime of a state directory. It may have died since; its pods keep running."""

    process: ProcessIdentity
    endpoint: str
    """Its socket, as ``unix:///path``."""
    simulated: bool
    detached: bool
    """Whether ``up`` started it: only then ``down`` ends it."""


def write_runtime(state_dir: Path, record: RuntimeRecord) -> None:
    """Record the embedded runtime that serves now. Atomic; readable by its owner only. Raises OSError."""
    replace_file(state_dir / FILE_NAME, json.dumps(asdict(record), indent=2) + "\n", durable=True)


def recorded_runtime(state_dir: Path) -> RuntimeRecord | None:
    """Return the recorded embedded runtime, running or not; None if there is no valid record. Blocks."""
    try:
        said = json.loads((state_dir / FILE_NAME).read_text())
        return RuntimeRecord(**{**said, "process": ProcessIdentity(**said["process"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running_runtime(state_dir: Path) -> RuntimeRecord | None:
    """Return the embedded runtime of a state directory if it is alive, by whatever command it was started. Blocks."""
    record = recorded_runtime(state_dir)
    return record if record is not None and is_running(record.process) else None


def forget_runtime(state_dir: Path) -> None:
    """Remove the record. Raises OSError."""
    (state_dir / FILE_NAME).unlink(missing_ok=True)
