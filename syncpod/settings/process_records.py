"""The files in a node's state directory that record its processes and their addresses.

There is one for the embedded runtime, one for the Temporal server, and one for the codec server, with its token. Only
their owner may read them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.procfs import ProcessIdentity, is_running

RUNTIME_FILE: Final = "runtime.json"
SERVER_FILE: Final = "server.json"
"""The Temporal server's record, which the command line writes (`syncpod.cli.machine.state_directory`)."""
_CODEC_FILE: Final = "codec.json"


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
    replace_file(state_dir / RUNTIME_FILE, json.dumps(asdict(record), indent=2) + "\n", durable=True)


def recorded_runtime(state_dir: Path) -> RuntimeRecord | None:
    """Return the recorded embedded runtime, running or not; None if there is no valid record. Blocks."""
    try:
        said = json.loads((state_dir / RUNTIME_FILE).read_text())
        return RuntimeRecord(**{**said, "process": ProcessIdentity(**said["process"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running_runtime(state_dir: Path) -> RuntimeRecord | None:
    """Return the embedded runtime of a state directory if it is alive, by whatever command it was started. Blocks."""
    record = recorded_runtime(state_dir)
    return record if record is not None and is_running(record.process) else None


def forget_runtime(state_dir: Path) -> None:
    """Remove the record. Raises OSError."""
    (state_dir / RUNTIME_FILE).unlink(missing_ok=True)


def recorded_server_pid(state_dir: Path) -> int | None:
    """Return the process id of the Temporal server that was recorded last; None if none was.

    The server may have ended since, and another process may have the id. Blocks.
    """
    try:
        pid = json.loads((state_dir / SERVER_FILE).read_text())["process"]["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) and pid > 0 else None


@dataclass(frozen=True)
class CodecRecord:
    """The addresses of a codec server and of the signing proxy that serves with it, and their token."""

    endpoint: str
    """``http://127.0.0.1:port``."""
    proxy: str
    """The signing proxy before the Temporal server: ``127.0.0.1:port``."""
    token: str
    """The token that both require, as ``Authorization: Bearer <token>``. Each worker process makes a new one."""
    page: str = ""
    """The endpoint for the Temporal UI, whose browser sends no token. It decodes, signs nothing, and answers only
    processes of the owner and of root. The address is a secret."""


def write_codec_record(state_dir: Path, record: CodecRecord) -> None:
    """Write the record. Atomic; readable by its owner only. Raises OSError."""
    replace_file(state_dir / _CODEC_FILE, json.dumps(asdict(record), indent=2) + "\n", durable=False)


def read_codec_record(state_dir: Path) -> CodecRecord | None:
    """Return the record; None if there is none, or this user may not read it. Its server may have ended since."""
    try:
        said = json.loads((state_dir / _CODEC_FILE).read_text())
        return CodecRecord(str(said["endpoint"]), str(said["proxy"]), str(said["token"]), str(said["page"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_codec_record(state_dir: Path) -> None:
    """Remove the record. Raises OSError."""
    (state_dir / _CODEC_FILE).unlink(missing_ok=True)
