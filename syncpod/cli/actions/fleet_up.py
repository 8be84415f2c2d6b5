"""The work of ``syncpod fleet up`` and ``down``: which processes of the fleet run, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.console import program, say
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import running_fleet_process, running_server
from syncpod.gate.gate import fleet_directory
from syncpod.gate.record import read_gate_record

if TYPE_CHECKING:
    from syncpod.cli.local_processes import Server


def what_runs(state_dir: str) -> str:
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


def tell_what_next(directory: Path, server: Server) -> None:
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
