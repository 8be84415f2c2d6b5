"""The work of ``syncpod join`` and ``syncpod leave``: this machine's node, and the fleet that it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import first_few, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.listen_addresses import parse_listen
from syncpod.cli.machine.names_on_disk import pods_of_fleet
from syncpod.cli.machine.settings import settings
from syncpod.cli.standard_streams import STDIN, standard_input
from syncpod.gate.authority import now
from syncpod.gate.handshakes import listen as try_to_listen
from syncpod.gate.invitation_check import require_fitting, require_not_expired
from syncpod.kernel.os_errors import why_of
from syncpod.settings.invitation import LARGEST_BYTES, parse_invitation, read_invitation
from syncpod.settings.membership import read_membership
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from syncpod.settings.invitation import Invitation
    from syncpod.settings.node import NodeSettings


NOWHERE: Final = "none"
_NAMED: Final = 10
"""Maximum number of pods that are named."""


def present_invitation(state_dir: Path, *, replaced: bool) -> Invitation | None:
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


def require_this_nodes(invitation: str, invited: Invitation, node: str, before: Invitation | None) -> None:
    """Raise BadInput if the invitation is for another node, or if the node already belongs to another fleet."""
    if invited.node != node:
        raise BadInput(f"{_source(invitation)}: node: is {invited.node}, but this node is {node}")
    if before is not None and before.fleet != invited.fleet:
        raise BadInput(f"node {node} belongs to fleet {before.fleet}: `syncpod leave` first")


def node_settings(state_dir: str) -> NodeSettings:
    """Return the node's settings. Raises BadInput if it is part of a Kubernetes cluster."""
    here = settings(state_dir=state_dir)
    if here.kubeconfig is not None:
        raise BadInput(
            f"this node is part of the Kubernetes cluster of {here.kubeconfig}, so it cannot be part of a fleet: "
            "see `syncpod up --no-kubeconfig`"
        )
    return here


def say_joined(state_dir: Path, invited: Invitation) -> None:
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


def given_invitation(source: str) -> Invitation:
    """Return the invitation in a file, or on standard input (``-``). Raises SettingsInvalid."""
    if source != "-":
        return read_invitation(Path(source))
    try:
        return parse_invitation(standard_input().buffer.read(LARGEST_BYTES + 1))
    except SettingsInvalid as wrong:
        raise SettingsInvalid(f"invitation {STDIN}: {wrong}") from None


def require_usable(source: str, invited: Invitation) -> None:
    """Raise BadInput for an invitation that the fleet's gate would not accept; the node then keeps its earlier one."""
    if not source:  # `invited` is the one that the node has already
        return
    try:
        require_fitting(invited)
        require_not_expired(invited, now())
    except SettingsInvalid as wrong:
        raise BadInput(f"invitation {_source(source)}: {wrong}") from None


def listen_address(listen: str, before: str) -> str:
    """Return the address at which the node is to listen, ``host:port``; "" = nowhere. Without the flag, it is `before`.

    Raises BadInput for an invalid address, or one at which this machine cannot listen.
    """
    if not listen:
        return before
    if listen == NOWHERE:
        return ""
    host, port = parse_listen(f"127.0.0.1:{listen}" if listen.isdecimal() else listen)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if str(port) != before.rpartition(":")[2]:  # at the same port, the node itself may be listening
        try:
            try_to_listen(host, port).close()
        except OSError as error:
            raise BadInput(f"--listen: this node cannot listen at {where}: {why_of(error)}") from None
    return where
