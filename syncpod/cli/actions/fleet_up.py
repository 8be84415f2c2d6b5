"""Starts and ends the processes of a fleet on this machine, or runs its worker in place of the command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from syncpod.cli import local_processes
from syncpod.cli.console import paint, program, remark, say
from syncpod.cli.failure import INTERRUPTED
from syncpod.cli.machine import fleet_processes
from syncpod.cli.machine.ending import end_server
from syncpod.cli.machine.processes import run_in_place
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import recorded_worker, running_fleet_process, running_server
from syncpod.cli.machine.units_of_node import require_fleet_not_installed
from syncpod.cli.machine.worker_process import fleet_worker_program
from syncpod.cli.temporal.session import connection
from syncpod.gate.gate import fleet_directory
from syncpod.gate.record import read_gate_record
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from syncpod.cli.local_processes import Ports, Server


def start_fleet(listen: str, names: list[str] | None, ports: Ports, state_dir: str) -> None:
    """Start what does not run of the fleet's server, worker and gate, and print how a node joins.

    `listen` is the gate's address, "" = its last one; `names` are its host names, None = its last ones. Raises
    BadInput, Failure. Ctrl-C ends the command, which prints what runs; that is left running.
    """
    try:
        here = settings(state_dir=state_dir)
        require_fleet_not_installed(here.state_dir)
        server = local_processes.start_server(here, ports)
        if pid := fleet_processes.start_worker(here.state_dir, server.config):
            remark(paint(f"fleet's worker started (pid {pid})", "dim"))
        if pid := fleet_processes.start_gate(here.state_dir, server.config, listen, names):
            remark(paint(f"fleet's gate started (pid {pid})", "dim"))
    except KeyboardInterrupt:
        remark(f"\n{_what_runs(state_dir)}")
        raise typer.Exit(INTERRUPTED) from None
    _print_next_steps(here.state_dir, server)


def end_fleet(state_dir: str) -> None:
    """End what `start_fleet` has started, but not a server that a node uses. Raises BadInput, Failure."""
    directory = settings(state_dir=state_dir).state_dir
    require_fleet_not_installed(directory)
    ended = fleet_processes.end_fleet(directory)
    server = running_server(directory)
    if server is not None and (recorded_worker(directory) is not None or serving(directory) is not None):
        remark(f"Note: the Temporal server at {server.address} keeps running: the node of {directory} uses it")
    elif server is not None and not server.detached:
        remark(f"Note: the Temporal server at {server.address} was not started by `fleet up`; it keeps running")
    elif server is not None:
        ended += end_server(directory)
    if not ended:
        remark(f"Nothing to end: nothing that `syncpod fleet up` has started runs in {directory}")
        return
    say(f"the fleet's nodes keep running their pods; `{program()} fleet up` serves them again")


def serve_workflows(state_dir: str) -> None:
    """Become the fleet's worker. Never returns. Raises BadInput if no server is known."""
    address = connection(state_dir, begun_by="syncpod server")["target_host"]
    directory = settings(state_dir=state_dir).state_dir
    command = [sys.executable, str(fleet_worker_program()), "--state-dir", str(directory)]
    run_in_place(command, {**os.environ, "TEMPORAL_ADDRESS": address})


def _what_runs(state_dir: str) -> str:
    """Return which processes of a fleet run after Ctrl-C, in a sentence."""
    directory = settings(state_dir=state_dir).state_dir
    server = running_server(directory)
    found = [f"Temporal server (pid {server.process.pid})"] if server and server.detached else []
    worker, gate = running_fleet_process(directory, "worker"), running_fleet_process(directory, "gate")
    found += [f"fleet's worker (pid {worker.process.pid})"] if worker else []
    found += [f"fleet's gate (pid {gate.process.pid})"] if gate else []
    if not found:
        return "Nothing was left running."
    return f"Running: {', '.join(found)}; `{program()} fleet down` ends them, `{program()} fleet up` continues."


def _print_next_steps(directory: Path, server: Server) -> None:
    """Print where the fleet is served, and how a node joins."""
    record, gate = read_gate_record(fleet_directory(directory)), running_fleet_process(directory, "gate")
    listen = gate.listen if gate is not None else ""
    page = f", UI {server.own.ui}" if server.own is not None and server.own.ui else ""
    address = (record.address if record is not None else "") or listen
    say(f"the fleet is served: nodes join at {address}; Temporal at {server.config['target_host']}{page}")
    us = program()
    say(f"`{us} fleet invite n1` writes n1.invitation, with which `{us} join n1.invitation` on a node joins it.")
    if listen.startswith(("127.", "localhost:", "[::1]")):
        say("Only nodes of this machine reach it: `--listen 0.0.0.0:7300 --name HOST` lets those of others.")
    say(f"`{us} fleet down` ends this; the nodes keep running their pods.")
