"""``syncpod fleet up``, ``down`` and ``serve``: start or end a fleet's processes, or run its worker in foreground."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.fleet_gate import GateNames, checked_names, parse_listen
from syncpod.cli.console import paint, program, remark, say
from syncpod.cli.failure import INTERRUPTED
from syncpod.cli.input.options import ServerPort, ServerUi, ServerUiPort, StateDir

if TYPE_CHECKING:
    pass

Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="ADDRESS:PORT",
        help="Where nodes connect.",
        show_default="its last one, else 127.0.0.1:7300",
    ),
]


def up(
    listen: Listen = "",
    name: GateNames = None,
    port: ServerPort = None,
    ui: ServerUi = False,
    ui_port: ServerUiPort = None,
    state_dir: StateDir = "",
) -> None:
    """Serve a fleet from this machine: start its Temporal server, its worker and its gate.

    It starts what is not running: a Temporal dev server, unless the environment or temporal.toml names another; the
    fleet's worker; and the gate, through which nodes reach the server. They keep running when this command ends, and it
    can be run again. `syncpod server`, `fleet serve` and `fleet gate` are the same in the foreground, one by one.

    The gate's address and names are kept for the next start, since invitations have them.
    """
    from syncpod.cli.actions.fleet_up import tell_what_next, what_runs

    try:
        from syncpod.cli import local_processes
        from syncpod.cli.machine import fleet_processes
        from syncpod.cli.machine.settings import settings
        from syncpod.cli.machine.units_of_node import require_fleet_not_installed

        if listen:
            parse_listen(listen)
        names = checked_names(name) or None
        here = settings(state_dir=state_dir)
        require_fleet_not_installed(here.state_dir)
        server = local_processes.start_server(here, local_processes.Ports(port, ui_port, ui))
        if pid := fleet_processes.start_worker(here.state_dir, server.config):
            remark(paint(f"fleet's worker started (pid {pid})", "dim"))
        if pid := fleet_processes.start_gate(here.state_dir, server.config, listen, names):
            remark(paint(f"fleet's gate started (pid {pid})", "dim"))
    except KeyboardInterrupt:
        remark(f"\n{what_runs(state_dir)}")
        raise typer.Exit(INTERRUPTED) from None
    tell_what_next(here.state_dir, server)


def down(state_dir: StateDir = "") -> None:
    """End the gate, the worker and the Temporal server that `fleet up` has started.

    The fleet's keys and its database stay, so `fleet up` serves the same fleet again. The nodes keep their pods running
    meanwhile. A server that a node of this state directory uses stays, and so does one that `fleet up` has not started.
    """
    from syncpod.cli.machine.ending import end_server
    from syncpod.cli.machine.fleet_processes import end_fleet
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import recorded_worker, running_server
    from syncpod.cli.machine.units_of_node import require_fleet_not_installed
    from syncpod.settings.worker_record import serving

    directory = settings(state_dir=state_dir).state_dir
    require_fleet_not_installed(directory)
    ended = end_fleet(directory)
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


def serve(state_dir: StateDir = "") -> None:
    """Run the fleet's worker until Ctrl-C, on the Temporal server that the environment names, or on your own.

    Any number of workers may run, on any machines that have the fleet's keys. The fleet's state is in the server.
    """
    from syncpod.cli.machine.processes import run_in_place
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.worker_process import fleet_worker_program
    from syncpod.cli.temporal.session import connection

    address = connection(state_dir, begun_by="syncpod server")["target_host"]
    directory = settings(state_dir=state_dir).state_dir
    command = [sys.executable, str(fleet_worker_program()), "--state-dir", str(directory)]
    run_in_place(command, {**os.environ, "TEMPORAL_ADDRESS": address})
