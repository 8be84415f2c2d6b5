"""The invitation by which a node belongs to a fleet, kept in its state directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.invitation import Invitation, read_invitation, write_invitation

FILE_NAME: Final = "fleet.json"
LISTEN_FILE_NAME: Final = "fleet-listen"
EARLIER_FILE_NAME: Final = "fleet-earlier-keys.json"
_EARLIER: Final = 4
"""The most earlier keys that are kept. Only a node that is invited several times while it is cut off needs more."""


def membership_file(state_dir: Path) -> Path:
    """Return where a node keeps its invitation."""
    return state_dir / FILE_NAME


def read_membership(state_dir: Path) -> Invitation | None:
    """Return the invitation; None if the node belongs to no fleet. Blocks. Raises SettingsInvalid."""
    path = membership_file(state_dir)
    return read_invitation(path) if path.exists() else None


def keep_membership(state_dir: Path, invitation: Invitation) -> None:
    """Have the node belong to a fleet. Atomic. Blocks. Raises OSError.

    The key of an earlier invitation to the same fleet is kept beside it: the list on the node's disk is sealed for it.
    """
    try:
        before = read_membership(state_dir)
    except SettingsInvalid:
        before = None
    if before is None or (before.fleet, before.node) != (invitation.fleet, invitation.node):
        forget_earlier_keys(state_dir)
    elif before.key != invitation.key:
        keys = [each for each in (before.key, *read_earlier_keys(state_dir)) if each != invitation.key]
        text = json.dumps(list(dict.fromkeys(keys))[:_EARLIER])
        replace_file(state_dir / EARLIER_FILE_NAME, text + "\n", durable=True)
    write_invitation(membership_file(state_dir), invitation)


def read_earlier_keys(state_dir: Path) -> tuple[str, ...]:
    """Return the private keys of earlier invitations that may still be needed, PEM, the newest first. Blocks.

    A file that cannot be read counts as none: the node then waits for its fleet to seal anew.
    """
    try:
        found = json.loads((state_dir / EARLIER_FILE_NAME).read_text())
    except (OSError, ValueError):
        return ()
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def forget_earlier_keys(state_dir: Path) -> None:
    """Remove the keys of earlier invitations. Blocks. Raises OSError."""
    (state_dir / EARLIER_FILE_NAME).unlink(missing_ok=True)


def read_listening(state_dir: Path) -> str:
    """Return where the node listens for who commands its fleet, ``host:port``; "" = nowhere. Blocks."""
    try:
        return (state_dir / LISTEN_FILE_NAME).read_text().strip()
    except FileNotFoundError:
        return ""


def keep_listening(state_dir: Path, address: str) -> None:
    """Have the node listen there, "" = nowhere. Atomic. Blocks. Raises OSError."""
    if address:
        replace_file(state_dir / LISTEN_FILE_NAME, address + "\n", durable=True)
    else:
        (state_dir / LISTEN_FILE_NAME).unlink(missing_ok=True)


def forget_membership(state_dir: Path) -> None:
    """Have the node belong to no fleet. Blocks. Raises OSError."""
    keep_listening(state_dir, "")
    forget_earlier_keys(state_dir)
    membership_file(state_dir).unlink(missing_ok=True)
