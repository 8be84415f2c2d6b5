"""Finds, starts and ends the worker and the gate of ``fleet up``, one of each per state directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import program, remark, say, waiting
from syncpod.cli.failure import BAD_INPUT, BadInput, Failure
from syncpod.cli.machine.processes import end, end_unrecorded, require_not_stopped, since, size_of, start_recorded
from syncpod.cli.machine.state_directory import (
    FleetPart,
    FleetProcess,
    exclusive,
    fleet_log,
    log_directory,
    prepare,
    recorded_fleet_process,
    running_fleet_process,
    write_fleet_process,
)
from syncpod.cli.machine.worker_process import fleet_worker_program

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

LISTEN: Final = "127.0.0.1:7300"
"""Where a gate listens by default: on the loopback, so that a first try opens no port to the network."""
PARTS: Final[tuple[FleetPart, ...]] = ("worker", "gate")
_CALLED: Final[dict[FleetPart, str]] = {"worker": "fleet's worker", "gate": "fleet's gate"}
_READY: Final[dict[FleetPart, str]] = {"worker": "fleet worker ready: ", "gate": "the fleet's gate listens at "}
"""The beginning of the line that each process prints when it serves."""
_READY_SECONDS: Final = 60.0
_END_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05


def served_parts(state_dir: Path, address: str = "") -> list[str]:
    """Return the running processes that `fleet up` has started, each as a phrase with its pid.

    `address` selects those that use the Temporal server there; "" = all.
    """
    found = ((part, running_fleet_process(state_dir, part)) for part in PARTS)
    return [
        f"the {_CALLED[part]} (pid {record.process.pid})"
        for part, record in found
        if record is not None and address in ("", record.address)
    ]


def start_worker(state_dir: Path, config: ClientConnectConfig) -> int:
    """Start the fleet's worker, and return its pid once it serves; 0 if the worker of `fleet up` runs already.

    Raises Failure with the last line of its log, and BadInput if it runs with another server.
    """
    command = [sys.executable, str(fleet_worker_program()), "--state-dir", str(state_dir)]
    return _start(state_dir, "worker", command, config, "", ())


def start_gate(state_dir: Path, config: ClientConnectConfig, listen: str, names: Sequence[str] | None) -> int:
    """Start the fleet's gate, and return its pid once it listens; 0 if the gate of `fleet up` runs already.

    An empty `listen`, and None for `names`, stand for the values of its last start. Raises Failure with the last line
    of its log, and BadInput if it runs with another server, address or names.
    """
    before = recorded_fleet_process(state_dir, "gate")
    listen = listen or (before.listen if before is not None else LISTEN)
    names = list(names if names is not None else before.names if before is not None else ())
    line = [sys.executable, "-P", "-m", "syncpod.cli.main", "fleet", "gate", "--listen", listen]
    line += [word for name in names for word in ("--name", name)]
    return _start(state_dir, "gate", [*line, "--state-dir", str(state_dir)], config, listen, names)


def end_fleet(state_dir: Path) -> int:
    """End the gate and the worker that `fleet up` has started; return how many there were. Nodes keep running."""
    ended = 0
    if not log_directory(state_dir).is_dir():
        return 0
    with exclusive(state_dir):
        ended += _end_unrecorded(state_dir)
        for part in reversed(PARTS):
            record = running_fleet_process(state_dir, part)
            if record is not None and end(record.process, patience_seconds=_END_SECONDS):
                say(f"{_CALLED[part]} ended (pid {record.process.pid})")
                ended += 1
    return ended


def _start(
    state_dir: Path,
    part: FleetPart,
    command: Sequence[str],
    config: ClientConnectConfig,
    listen: str,
    names: Sequence[str],
) -> int:
    prepare(state_dir)
    log, address, namespace = fleet_log(state_dir, part), config["target_host"], config["namespace"]
    with exclusive(state_dir):
        running = running_fleet_process(state_dir, part)
        if running is not None:
            require_not_stopped(_CALLED[part], running.process.pid)
            _require_same(part, running, FleetProcess(running.process, address, namespace, listen, names))
            return 0
        _end_unrecorded(state_dir)
        begin, before = size_of(log), recorded_fleet_process(state_dir, part)
        child, _ = start_recorded(
            command,
            lambda process: write_fleet_process(
                state_dir, part, FleetProcess(process, address, namespace, listen, names)
            ),
            log=log,
            environment={**os.environ, "TEMPORAL_ADDRESS": address, "PYTHONUNBUFFERED": "1"},
            umask=0o077,
        )
        try:
            with waiting(f"waiting up to {_READY_SECONDS:g} s for the {_CALLED[part]} to serve"):
                _await_ready(part, child, log, begin)
        finally:
            if child.poll() is not None and before is not None:  # the next start uses this record
                write_fleet_process(state_dir, part, before)
    return child.pid


def _await_ready(part: FleetPart, child: subprocess.Popen[bytes], log: Path, begin: int) -> None:
    """Return once a process reports that it serves. If it ends first, raises Failure with its own sentence."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        code = child.poll()
        lines = since(log, begin).splitlines()
        if any(line.startswith(_READY[part]) for line in lines):
            return
        if code is not None:
            said = next((line for line in reversed(lines) if line.strip()), f"it ended with {code}")
            for prefix in ("syncpod fleet serve: ", "syncpod: "):
                said = said.removeprefix(prefix)
            raise Failure(f"the {_CALLED[part]} did not start: {said}", BAD_INPUT if code == BAD_INPUT else 1)
        time.sleep(_LOOK_SECONDS)
    raise Failure(
        f"the {_CALLED[part]} (pid {child.pid}) does not serve after {_READY_SECONDS:g} s, and keeps trying; "
        f"{log} shows what it does"
    )


def _require_same(part: FleetPart, runs: FleetProcess, wanted: FleetProcess) -> None:
    """Raise BadInput if a running process has another server, address or names than are wanted."""
    for what, there, asked in (
        ("for the Temporal server at", runs.address, wanted.address),
        ("for namespace", runs.namespace, wanted.namespace),
        ("with --listen", runs.listen, wanted.listen),
        ("with --name", ", ".join(runs.names) or "none", ", ".join(wanted.names) or "none"),
    ):
        if there != asked:
            raise BadInput(
                f"the {_CALLED[part]} (pid {runs.process.pid}) runs already, {what} {there}, not {asked}: end it first "
                f"with `{program()} fleet down`"
            )


def _end_unrecorded(state_dir: Path) -> int:
    """End processes whose command was killed before it could record them; return how many."""
    ended = 0
    for part in PARTS:
        word = str(fleet_worker_program()) if part == "worker" else part
        is_recorded = running_fleet_process(state_dir, part) is not None
        for pid in () if is_recorded else end_unrecorded(fleet_log(state_dir, part), word):
            remark(f"Note: {_CALLED[part]} ended (pid {pid}): the command that started it had not recorded it")
            ended += 1
    return ended
