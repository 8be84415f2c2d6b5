"""Ends the processes that `up` has started in a state directory. Each function returns how many it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncpod.cli.console import program, remark, say
from syncpod.cli.machine import dev_server, fleet_processes, runtime_process
from syncpod.cli.machine.port_guard import remove_guard
from syncpod.cli.machine.processes import end, end_unrecorded
from syncpod.cli.machine.runtime_process import end_process
from syncpod.cli.machine.state_directory import (
    exclusive,
    log_directory,
    running_server,
    running_worker,
    runtime_log,
    server_log,
    worker_log,
)
from syncpod.cli.machine.worker_process import worker_program
from syncpod.settings.process_records import running_runtime

_WORKER_SECONDS: Final = 25.0
"""How long a worker may take to end. A worker waits less for a runtime that does not answer."""
_SERVER_SECONDS: Final = 15.0


def end_all(directory: Path) -> int:
    """End the worker, the embedded runtime and the Temporal server, in this order; pods keep running."""
    unrecorded = end_all_unrecorded(directory)
    return unrecorded + end_worker(directory) + _end_runtime(directory) + end_server(directory)


def end_all_unrecorded(directory: Path) -> int:
    """End processes whose command was killed before it could record them: no other command would find them.

    The pods lose nothing: they keep running, and the next worker continues from the files on the disk.
    """
    if not log_directory(directory).is_dir():
        return 0
    ended = 0
    with exclusive(directory):
        for what, log, word, is_recorded in (
            ("worker", worker_log(directory), str(worker_program()), running_worker(directory)),
            ("embedded runtime", runtime_log(directory), runtime_process.MODULE, running_runtime(directory)),
            ("Temporal server", server_log(directory), dev_server.SUBCOMMAND, running_server(directory)),
        ):
            for pid in end_unrecorded(log, word) if is_recorded is None else ():
                remark(f"Note: {what} ended (pid {pid}): the command that started it had not recorded it")
                ended += 1
    return ended


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
        record = running_runtime(directory)
        if record is None or not record.detached or not end_process(record.process):
            return 0
    say(f"embedded runtime ended (pid {record.process.pid})")
    return 1


def end_server(directory: Path) -> int:
    """End the Temporal server that `up` or `fleet up` has started, unless the fleet of `fleet up` still uses it."""
    with exclusive(directory):
        record = running_server(directory)
        if record is not None and (users := fleet_processes.served_parts(directory, record.address)):
            remark(
                f"Note: the Temporal server keeps running for {' and '.join(users)}: `{program()} fleet down` ends it"
            )
            return 0
        if record is None or not record.detached or not end(record.process, patience_seconds=_SERVER_SECONDS):
            return 0
    say(f"Temporal server ended (pid {record.process.pid})")
    return 1


def end_guard(directory: Path, node: str) -> int:
    """Remove the rule that guards the server's ports, unless the server runs."""
    if running_server(directory) is not None or not remove_guard(node):
        return 0
    say("guard of the Temporal server's ports removed")
    return 1
