"""Ending what `up` has started in a state directory; each function returns how many processes it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncpod.cli.console import say
from syncpod.cli.machine.port_guard import remove_guard
from syncpod.cli.machine.processes import end
from syncpod.cli.machine.runtime_process import end_process, serving
from syncpod.cli.machine.state_directory import exclusive, running_server, running_worker

_WORKER_SECONDS: Final = 25.0
"""Longer than a worker waits for a runtime that does not answer."""
_SERVER_SECONDS: Final = 15.0


def end_all(directory: Path) -> int:
    """End the worker, the embedded runtime and the Temporal server, in this order; the pods run on."""
    return end_worker(directory) + _end_runtime(directory) + _end_server(directory)


def end_worker(directory: Path) -> int:
    """End the worker."""
    with exclusive(directory):
        process = running_worker(directory)
        if process is None or not end(process, patience_seconds=_WORKER_SECONDS):
            return 0
    say(f"worker ended (pid {process.pid})")
    return 1


def _end_runtime(directory: Path) -> int:
    with exclusive(directory):
        record = serving(directory)
        if record is None or not record.detached or not end_process(record.process):
            return 0
    say(f"embedded runtime ended (pid {record.process.pid})")
    return 1


def _end_server(directory: Path) -> int:
    with exclusive(directory):
        record = running_server(directory)
        if record is None or not record.detached or not end(record.process, patience_seconds=_SERVER_SECONDS):
            return 0
    say(f"Temporal server ended (pid {record.process.pid})")
    return 1


def end_guard(directory: Path, node: str) -> int:
    """Remove the rule that guards the server's ports, once they are nobody's."""
    if running_server(directory) is not None or not remove_guard(node):
        return 0
    say("guard of the Temporal server's ports removed")
    return 1
