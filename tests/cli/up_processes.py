"""The processes that `up` started, found by their records in the state directory."""

from __future__ import annotations

import json
from pathlib import Path

from syncpod.kernel.procfs import identify
from tests.runtimes import processes


def state_of(environ: dict[str, str]) -> Path:
    return Path(environ["SYNCPOD_STATE_DIR"])


def kill(environ: dict[str, str], record: str) -> None:
    """Kill a record's process, as the machine might do, and wait for its end."""
    process = identify(json.loads((state_of(environ) / record).read_text())["process"]["pid"])
    assert process is not None
    processes.kill([process.pid])
