"""``syncpod fleet gate``: the mTLS gate in front of the fleet's Temporal server."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.listen_addresses import checked_names, parse_listen
from syncpod.cli.input.options import StateDir

ListenAddress = Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where nodes connect.")]
GateNames = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="HOST", help="A host name or address of this machine. Invitations have the first one."
    ),
]


def gate(
    listen: ListenAddress = "127.0.0.1:7300",
    name: GateNames = None,
    temporal: Annotated[
        str,
        typer.Option(
            "--temporal",
            metavar="ADDRESS",
            help="The fleet's Temporal server.",
            show_default="that of other commands",
        ),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Let nodes reach the fleet's Temporal server, until Ctrl-C.

    A node shows the certificate of its invitation. With that it may poll its own task queue and answer its own tasks,
    and nothing else. Certificates that are issued or revoked meanwhile take effect at once.
    """
    (host, port), names = parse_listen(listen), checked_names(name)

    from syncpod.cli.actions.fleet_gate import serve_gate

    serve_gate(host, port, names, temporal, state_dir, said=listen)
