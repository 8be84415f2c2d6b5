"""Issues, lists and revokes the certificates of a fleet's nodes, and changes the authorities that issue them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.api.views.text import columns
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import issued_by, open_here
from syncpod.gate.authority import AUTHORITY_LIFE, now
from syncpod.gate.gate import DIRECTORY
from syncpod.gate.machines import refused_from
from syncpod.gate.record import GateRecord, read_gate_record
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.kernel.os_errors import sentence_of
from syncpod.settings.invitation import Invitation, invitation_text, write_invitation
from syncpod.settings.values import Names, SettingsInvalid, days_or_duration

if TYPE_CHECKING:
    from datetime import datetime

    from syncpod.gate.authority import Fleet, IssuedToNode


def invite_node(node: str, life: str, gate: str, output: str, state_dir: str) -> None:
    """Write an invitation that is valid for the duration `life`, to the file `output`, or to the output for ``-``.

    `gate` "" = the address that the gate was started with; `output` "" = a file named after the node. Raises BadInput,
    and Failure if the file cannot be written.
    """
    valid = _certificate_life(life)
    path = Path(output or f"{node}.invitation")
    if output != "-" and path.exists():
        raise BadInput(f"{path}: already exists: name another file with -o")
    fleet = open_here(state_dir)
    told = read_gate_record(fleet.directory) or GateRecord("", "default")
    if not (address := gate or told.address):
        raise BadInput("--gate: must say how the node reaches the gate, such as --gate fleet.example.com:7300")
    try:
        invitation = _invitation(fleet, node, valid, address, told.namespace)
        if output == "-":
            say(invitation_text(invitation).rstrip("\n"))
            return
        write_invitation(path, invitation)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise Failure(f"the invitation cannot be written: {sentence_of(error)}") from None
    say(f"node/{node} invited: {path}")


def _certificate_life(text: str) -> timedelta:
    """Return how long a certificate shall be valid. Raises BadInput."""
    try:
        life = days_or_duration(Names("--for", "--for"), text)
    except SettingsInvalid:
        life = timedelta()
    if not timedelta() < life <= AUTHORITY_LIFE:
        raise BadInput(f"--for: {text!r} must be a duration such as 365d or 36h, ten years at most")
    return life


def _invitation(fleet: Fleet, node: str, life: timedelta, address: str, namespace: str) -> Invitation:
    """Issue a certificate, and return the invitation with it. Blocks. Raises SettingsInvalid, OSError."""
    pair = fleet.issue(node, life, now())
    return Invitation(
        fleet=fleet.id,
        node=node,
        address=address,
        server_name=fleet.server_name,
        namespace=namespace,
        authorities=fleet.authorities_pem(),
        certificate=pair.certificate,
        key=pair.key,
        fleet_key=FleetSealingKeys(fleet, now).public_pem(),
    )


def revoke_certificates(node: str, serial: str, state_dir: str) -> None:
    """Revoke the certificate of this serial, "" = all of the node.

    Raises BadInput, and Failure if there is none.
    """
    fleet = open_here(state_dir)
    known = [each for each in issued_by(fleet) if each.node == node and serial in ("", each.serial)]
    if not known:
        raise Failure(f'certificates of node "{node}" not found' + (f": none has serial {serial}" if serial else ""))
    revoked = fleet.revoke(node, now(), serial)
    for each in revoked:
        say(f"certificate/{each} of node/{node} revoked")
    if not revoked:
        remark(f"all certificates of node {node} are already revoked")


def print_certificates(state_dir: str) -> None:
    """Print a table of the certificates, and a note for each that a second machine has presented. Raises BadInput."""
    rows = [("NODE", "SERIAL", "NOT AFTER", "AUTHORITY", "STATUS")]
    at, fleet, second = now(), open_here(state_dir), []
    for each in issued_by(fleet):
        by = str(each.authority) if each.authority else "retired"
        rows.append((each.node, each.serial, f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}", by, _status(each, at)))
        if address := refused_from(fleet.directory / DIRECTORY, each.serial):
            second.append(
                f"Note: certificate {each.serial} of node {each.node} was presented by a second machine, at "
                f"{address}, and refused: if you do not know that machine, invite {each.node} anew, and revoke this "
                "certificate"
            )
    say("\n".join(columns(rows)))
    for note in second:
        remark(note)


def _status(certificate: IssuedToNode, at: datetime) -> str:
    """Return whether a certificate is valid, in a word."""
    if certificate.dismissed:
        return "removed"
    if certificate.revoked:
        return "revoked"
    return "expired" if certificate.not_after <= at else "valid"


def rotate_authority(state_dir: str) -> None:
    """Make an authority that issues all new certificates. Raises BadInput, Failure."""
    fleet = open_here(state_dir)
    try:
        number = fleet.rotate(now())
    except OSError as error:
        raise Failure(f"the authority cannot be written: {sentence_of(error)}") from None
    say(f"authority/{number} created: it issues all new certificates")
    remark(f"when each node has a new invitation, run `{program()} fleet retire`")


def retire_authority(state_dir: str, *, force: bool) -> None:
    """Remove the earliest authority. Raises BadInput, and Failure if it is the only one, or nodes need it."""
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
