"""``syncpod fleet up``, ``down`` and ``serve``: start or end a fleet's processes, or run its worker in foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.commands.fleet_gate import GateNames
from syncpod.cli.input.listen_addresses import checked_names, parse_listen
from syncpod.cli.input.options import ServerPort, ServerUi, ServerUiPort, StateDir

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
    if listen:
        parse_listen(listen)
    names = checked_names(name) or None

    from syncpod.cli.actions.fleet_up import start_fleet
    from syncpod.cli.local_processes import Ports

    start_fleet(listen, names, Ports(port, ui_port, ui), state_dir)


def down(state_dir: StateDir = "") -> None:
    """End the gate, the worker and the Temporal server that `fleet up` has started.

    The fleet's keys and its database stay, so `fleet up` serves the same fleet again. The nodes keep their pods running
    meanwhile. A server that a node of this state directory uses stays, and so does one that `fleet up` has not started.
    """
    from syncpod.cli.actions.fleet_up import end_fleet

    end_fleet(state_dir)


def serve(state_dir: StateDir = "") -> None:
    """Run the fleet's worker until Ctrl-C, on the Temporal server that the environment names, or on your own.

    Any number of workers may run, on any machines that have the fleet's keys. The fleet's state is in the server.
    """
    from syncpod.cli.actions.fleet_up import serve_workflows

    serve_workflows(state_dir)
