"""Has this machine's node join a fleet: checks the invitation and the address to listen at, and keeps both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import first_few, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.listen_addresses import parse_listen
from syncpod.cli.machine.names_on_disk import pods_of_fleet
from syncpod.cli.machine.state_directory import prepare
from syncpod.cli.standard_streams import STDIN, standard_input
from syncpod.gate.authority import now
from syncpod.gate.handshakes import listen as try_to_listen
from syncpod.gate.invitation_check import require_fitting, require_not_expired
from syncpod.kernel.os_errors import sentence_of, why_of
from syncpod.settings.invitation import LARGEST_BYTES, parse_invitation, read_invitation
from syncpod.settings.membership import keep_listening, keep_membership, read_listening, read_membership
from syncpod.settings.values import SettingsInvalid
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from syncpod.settings.invitation import Invitation
    from syncpod.settings.node import NodeSettings

_NOWHERE: Final = "none"
_NAMED: Final = 10
"""Maximum number of pods that are named."""


def join_fleet(here: NodeSettings, invitation: str, listen: str) -> None:
    """Keep an invitation ("" = the one that the node has), and the address at which the node is to listen.

    `listen` is ``none``, a port, or an address and a port; "" = as before. Raises BadInput for an invitation that does
    not fit this node or its fleet's gate, and for such an address; and Failure if they cannot be kept.
    """
    try:
        invited = _given_invitation(invitation) if invitation else None
        before = _present_invitation(here.state_dir, replaced=invited is not None)
        listened = read_listening(here.state_dir)
    except (SettingsInvalid, OSError) as wrong:
        raise BadInput(sentence_of(wrong)) from None
    invited = invited or before
    if invited is None:
        raise BadInput("--listen: this node belongs to no fleet yet: name the file of its invitation too")
    worker = serving(here.state_dir)
    node = worker.node if worker is not None else here.node
    _require_this_nodes(invitation, invited, node, before)
    _require_usable(invitation, invited)
    where = _listen_address(listen, listened)
    prepare(here.state_dir)
    try:
        keep_listening(here.state_dir, where)
        keep_membership(here.state_dir, invited)
    except OSError as error:
        raise Failure(f"the invitation cannot be kept in {here.state_dir}: {why_of(error)}") from None
    if invitation:
        _print_joined(here.state_dir, invited)
    if where or listened:
        say(f"node/{node} listens at {where} for the fleet's machine" if where else f"node/{node} does not listen")
    if worker is None:
        remark("no worker serves this node yet: `syncpod up` starts one")


def _present_invitation(state_dir: Path, *, replaced: bool) -> Invitation | None:
    """Return the invitation that the node has; None if it has none. Raises SettingsInvalid, OSError.

    If the invitation cannot be read, but is `replaced` by another one, a note is printed, and the result is None.
    """
    try:
        return read_membership(state_dir)
    except SettingsInvalid as wrong:
        if not replaced:
            raise
        remark(f"the invitation that the node had is replaced, though it could not be read: {wrong}")
        return None


def _require_this_nodes(invitation: str, invited: Invitation, node: str, before: Invitation | None) -> None:
    """Raise BadInput if the invitation is for another node, or if the node already belongs to another fleet."""
    if invited.node != node:
        raise BadInput(f"{_source(invitation)}: node: is {invited.node}, but this node is {node}")
    if before is not None and before.fleet != invited.fleet:
        raise BadInput(f"node {node} belongs to fleet {before.fleet}: `syncpod leave` first")


def _print_joined(state_dir: Path, invited: Invitation) -> None:
    """Print that the node has joined, and which pods of an earlier fleet end, since the new fleet's list lacks them."""
    fleet = invited.fleet
    say(f"node/{invited.node} joined fleet {fleet} at {invited.address}")
    giver, pods = pods_of_fleet(state_dir)
    if giver == fleet or not pods:
        return
    what, end = ("1 pod", "ends") if len(pods) == 1 else (f"{len(pods)} pods", "end")
    named = first_few(pods, _NAMED)
    remark(f"Note: {what} of fleet {giver} on this node {end} as soon as fleet {fleet} has sent its own list: {named}")


def _source(given: str) -> str:
    return STDIN if given == "-" else given


def _given_invitation(source: str) -> Invitation:
    """Return the invitation in a file, or on standard input (``-``). Raises SettingsInvalid."""
    if source != "-":
        return read_invitation(Path(source))
    try:
        return parse_invitation(standard_input().buffer.read(LARGEST_BYTES + 1))
    except SettingsInvalid as wrong:
        raise SettingsInvalid(f"invitation {STDIN}: {wrong}") from None


def _require_usable(source: str, invited: Invitation) -> None:
    """Raise BadInput for an invitation that the fleet's gate would not accept; the node then keeps its earlier one."""
    if not source:  # `invited` is the one that the node has already
        return
    try:
        require_fitting(invited)
        require_not_expired(invited, now())
    except SettingsInvalid as wrong:
        raise BadInput(f"invitation {_source(source)}: {wrong}") from None


def _listen_address(listen: str, before: str) -> str:
    """Return the address at which the node is to listen, ``host:port``; "" = nowhere. Without the flag, it is `before`.

    Raises BadInput for an invalid address, or one at which this machine cannot listen.
    """
    if not listen:
        return before
    if listen == _NOWHERE:
        return ""
    host, port = parse_listen(f"127.0.0.1:{listen}" if listen.isdecimal() else listen)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if str(port) != before.rpartition(":")[2]:  # at the same port, the node itself may be listening
        try:
            try_to_listen(host, port).close()
        except OSError as error:
            raise BadInput(f"--listen: this node cannot listen at {where}: {why_of(error)}") from None
    return where
