"""``syncpod fleet invite``, ``revoke``, ``certificates``, ``rotate``, ``retire``: the certificates of nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir
from syncpod.settings.invitation import is_address, is_node_name

NodeName = Annotated[str, typer.Argument(metavar="NODE", hidden=True, show_default=False)]


def invite(
    node: NodeName,
    for_: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long it is valid, as 90d or 36h.")
    ] = "365d",
    gate: Annotated[
        str,
        typer.Option(
            "--gate", metavar="HOST:PORT", help="How the node reaches the gate.", show_default="as the gate was started"
        ),
    ] = "",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE|-", help="The file to write.", show_default="./NODE.invitation"),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Write an invitation: the file that a node joins the fleet with.

    It holds the node's certificate and private key. So take it to the node in a way that nobody else can read, and keep
    no copy. An earlier invitation of the node stays valid.
    """
    if not is_node_name(node):
        raise BadInput(
            f"NODE: {node!r} must be the name of a node, a DNS subdomain: lower case letters, digits, - and ."
        )
    if gate and not is_address(gate):
        raise BadInput(f"--gate: {gate!r} must be a host and a port, such as fleet.example.com:7300")

    from syncpod.cli.actions.fleet_certificates import invite_node

    invite_node(node, for_, gate, output, state_dir)


def revoke(
    node: NodeName,
    serial: Annotated[
        str,
        typer.Option(
            "--serial", metavar="SERIAL", help="Revoke only this certificate.", show_default="all of the node"
        ),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Revoke the certificates of a node, and so keep it out of the fleet.

    The gate ends its connections within a second. The node keeps what it was already given, so its pods keep running.
    """
    from syncpod.cli.actions.fleet_certificates import revoke_certificates

    revoke_certificates(node, serial, state_dir)


def certificates(state_dir: StateDir = "") -> None:
    """List the certificates of nodes, and how long each is valid."""
    from syncpod.cli.actions.fleet_certificates import print_certificates

    print_certificates(state_dir)


def rotate(state_dir: StateDir = "") -> None:
    """Make a new certificate authority for new certificates.

    Certificates of the earlier one stay valid. Invite each node anew, and then remove the earlier authority with
    `syncpod fleet retire`.
    """
    from syncpod.cli.actions.fleet_certificates import rotate_authority

    rotate_authority(state_dir)


def retire(
    force: Annotated[bool, typer.Option("--force", help="Retire it even if nodes have no newer certificate.")] = False,
    state_dir: StateDir = "",
) -> None:
    """Remove the earliest certificate authority, and so revoke all certificates that it has issued.

    If nodes have no certificate of a newer authority, they are named, and nothing is removed.
    """
    from syncpod.cli.actions.fleet_certificates import retire_authority

    retire_authority(state_dir, force=force)
