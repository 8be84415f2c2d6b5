"""``syncpod fleet invite``, ``revoke``, ``certificates``, ``rotate``, ``retire``: the certificates of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.views.text import columns
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.kernel.os_errors import sentence_of
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from syncpod.gate.authority import Fleet, IssuedToNode

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
    from syncpod.cli.actions.fleet_certificates import certificate_life, require_invitable
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.gate.authority import now
    from syncpod.gate.record import GateRecord, read_gate_record
    from syncpod.gate.sealing_keys import FleetSealingKeys
    from syncpod.settings.invitation import Invitation, invitation_text, write_invitation

    require_invitable(node, gate)
    life = certificate_life(for_)
    path = Path(output or f"{node}.invitation")
    if output != "-" and path.exists():
        raise BadInput(f"{path}: already exists: name another file with -o")
    fleet = open_here(state_dir)
    told = read_gate_record(fleet.directory) or GateRecord("", "default")
    if not (address := gate or told.address):
        raise BadInput("--gate: must say how the node reaches the gate, such as --gate fleet.example.com:7300")
    try:
        pair = fleet.issue(node, life, now())
        invitation = Invitation(
            fleet=fleet.id,
            node=node,
            address=address,
            server_name=fleet.server_name,
            namespace=told.namespace,
            authorities=fleet.authorities_pem(),
            certificate=pair.certificate,
            key=pair.key,
            fleet_key=FleetSealingKeys(fleet, now).public_pem(),
        )
        if output == "-":
            say(invitation_text(invitation).rstrip("\n"))
            return
        write_invitation(path, invitation)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise Failure(f"the invitation cannot be written: {sentence_of(error)}") from None
    say(f"node/{node} invited: {path}")


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
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.gate.authority import now

    fleet = open_here(state_dir)
    known = [each for each in issued_by(fleet) if each.node == node and serial in ("", each.serial)]
    if not known:
        raise Failure(f'certificates of node "{node}" not found' + (f": none has serial {serial}" if serial else ""))
    revoked = fleet.revoke(node, now(), serial)
    for each in revoked:
        say(f"certificate/{each} of node/{node} revoked")
    if not revoked:
        remark(f"all certificates of node {node} are already revoked")


def certificates(state_dir: StateDir = "") -> None:
    """List the certificates of nodes, and how long each is valid."""
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.gate.authority import now
    from syncpod.gate.gate import DIRECTORY
    from syncpod.gate.machines import refused_from

    rows = [("NODE", "SERIAL", "NOT AFTER", "AUTHORITY", "STATUS")]
    at, fleet, second = now(), open_here(state_dir), []
    for each in issued_by(fleet):
        status = (
            "removed"
            if each.dismissed
            else "revoked"
            if each.revoked
            else "expired"
            if each.not_after <= at
            else "valid"
        )
        by = str(each.authority) if each.authority else "retired"
        rows.append((each.node, each.serial, f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}", by, status))
        if address := refused_from(fleet.directory / DIRECTORY, each.serial):
            second.append(
                f"Note: certificate {each.serial} of node {each.node} was presented by a second machine, at "
                f"{address}, and refused: if you do not know that machine, invite {each.node} anew, and revoke this "
                "certificate"
            )
    say("\n".join(columns(rows)))
    for note in second:
        remark(note)


def rotate(state_dir: StateDir = "") -> None:
    """Make a new certificate authority for new certificates.

    Certificates of the earlier one stay valid. Invite each node anew, and then remove the earlier authority with
    `syncpod fleet retire`.
    """
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.gate.authority import now

    fleet = open_here(state_dir)
    try:
        number = fleet.rotate(now())
    except OSError as error:
        raise Failure(f"the authority cannot be written: {sentence_of(error)}") from None
    say(f"authority/{number} created: it issues all new certificates")
    remark(f"when each node has a new invitation, run `{program()} fleet retire`")


def retire(
    force: Annotated[bool, typer.Option("--force", help="Retire it even if nodes have no newer certificate.")] = False,
    state_dir: StateDir = "",
) -> None:
    """Remove the earliest certificate authority, and so revoke all certificates that it has issued.

    If nodes have no certificate of a newer authority, they are named, and nothing is removed.
    """
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.gate.authority import now

    fleet = open_here(state_dir)
    authorities = fleet.authorities()
    if len(authorities) < 2:
        raise Failure(f"the fleet has only one authority: make another one first with `{program()} fleet rotate`")
    at = now()
    valid = [each for each in issued_by(fleet) if not each.revoked and each.not_after > at]
    renewed = {each.node for each in valid if each.authority != authorities[0]}
    if (needing := sorted({each.node for each in valid} - renewed)) and not force:
        raise Failure(f"{first_few(needing)} would be kept out: invite them anew, or use --force to keep them out")
    say(f"authority/{fleet.retire()} retired")


def issued_by(fleet: Fleet) -> list[IssuedToNode]:
    """Return the certificates that a fleet has issued. Blocks. Raises BadInput."""
    try:
        return fleet.issued()
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
