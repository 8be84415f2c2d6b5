"""The invitation by which a node belongs to a fleet, kept in its state directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.invitation import Invitation, read_invitation, write_invitation

FILE_NAME: Final = "fleet.json"
LISTEN_FILE_NAME: Final = "fleet-listen"


def membership_file(state_dir: Path) -> Path:
    """Return where a node keeps its invitation."""
    return state_dir / FILE_NAME


def read_membership(state_dir: Path) -> Invitation | None:
    """Return the invitation; None if the node belongs to no fleet. Blocks. Raises SettingsInvalid."""
    path = membership_file(state_dir)
    return read_invitation(path) if path.exists() else None


def keep_membership(state_dir: Path, invitation: Invitation) -> None:
    """Have the node belong to a fleet. Atomic. Blocks. Raises OSError."""
    write_invitation(membership_file(state_dir), invitation)


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
    membership_file(state_dir).unlink(missing_ok=True)
