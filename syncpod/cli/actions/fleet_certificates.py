"""The work of ``syncpod fleet invite``: whom a fleet may invite, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput
from syncpod.gate.authority import AUTHORITY_LIFE
from syncpod.settings.invitation import is_address, is_node_name
from syncpod.settings.values import SettingsInvalid, days_or_duration

if TYPE_CHECKING:
    pass


def require_invitable(node: str, gate: str) -> None:
    """Raise BadInput for an invalid name of a node, or an invalid address of a gate ("" = none is given)."""
    if not is_node_name(node):
        raise BadInput(
            f"NODE: {node!r} must be the name of a node, a DNS subdomain: lower case letters, digits, - and ."
        )
    if gate and not is_address(gate):
        raise BadInput(f"--gate: {gate!r} must be a host and a port, such as fleet.example.com:7300")


def certificate_life(text: str) -> timedelta:
    """Return how long a certificate shall be valid. Raises BadInput."""
    try:
        life = days_or_duration("--for", {"--for": text}, timedelta())
    except SettingsInvalid:
        life = timedelta()
    if not timedelta() < life <= AUTHORITY_LIFE:
        raise BadInput(f"--for: {text!r} must be a duration such as 365d or 36h, ten years at most")
    return life
