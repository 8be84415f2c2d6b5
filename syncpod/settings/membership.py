"""The invitation by which a node belongs to a fleet, kept in its state directory."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.invitation import Invitation, read_invitation, write_invitation
from syncpod.settings.values import SettingsInvalid

FILE_NAME: Final = "fleet.json"
RECEIVED_FILE_NAME: Final = "fleet-told-key.json"
LISTEN_FILE_NAME: Final = "fleet-listen"
EARLIER_FILE_NAME: Final = "fleet-earlier-keys.json"
EARLIER_FLEET_FILE_NAME: Final = "fleet-earlier-fleet-keys.json"
MACHINE_FILE_NAME: Final = "fleet-machine"
_EARLIER: Final = 4
"""The maximum number of earlier keys that are kept. Only a node that is invited several times while it is cut off needs
more."""


@dataclass(frozen=True)
class ReceivedKey:
    """The public sealing key that a fleet has sent to its node, in place of the one in the invitation."""

    number: int
    """A later key has a higher number."""
    key: str
    """PEM."""


def membership_file(state_dir: Path) -> Path:
    """Return where a node keeps its invitation."""
    return state_dir / FILE_NAME


def read_membership(state_dir: Path) -> Invitation | None:
    """Return the node's invitation, with the newest key that the fleet has sent to the node since then.

    None if the node belongs to no fleet. Blocks. Raises SettingsInvalid.
    """
    path = membership_file(state_dir)
    if not path.exists():
        return None
    invitation = read_invitation(path)
    received = _read_received_key(state_dir, invitation)
    return invitation if received is None else replace(invitation, fleet_key=received.key)


def keep_received_key(state_dir: Path, invitation: Invitation, received: ReceivedKey) -> None:
    """Record a key as the only sealing key of the fleet that the node trusts while it has this invitation.

    Atomic. Blocks. Raises OSError, and ValueError if a later key is known.
    """
    before = _read_received_key(state_dir, invitation)
    if before is not None and before.number > received.number:
        raise ValueError("the node already has a later key")
    document = {"invitation": _digest(invitation), "number": received.number, "key": received.key}
    replace_file(state_dir / RECEIVED_FILE_NAME, json.dumps(document) + "\n", durable=True)


def _read_received_key(state_dir: Path, invitation: Invitation) -> ReceivedKey | None:
    """Return the key that the fleet has sent to the node under this invitation; None if it has sent none."""
    try:
        found = json.loads((state_dir / RECEIVED_FILE_NAME).read_text())
        digest, key = found["invitation"], ReceivedKey(number=int(found["number"]), key=str(found["key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingsInvalid(f"{state_dir / RECEIVED_FILE_NAME}: cannot be read: join with a new invitation") from None
    return key if digest == _digest(invitation) else None


def _digest(invitation: Invitation) -> str:
    return hashlib.sha256(invitation.certificate.encode()).hexdigest()


def keep_membership(state_dir: Path, invitation: Invitation) -> None:
    """Record the invitation by which the node belongs to a fleet. Atomic. Blocks. Raises OSError.

    The keys of an earlier invitation to the same fleet are kept too: the list of the fleet's objects on the node's disk
    is sealed with them. A key that the fleet sent under another invitation is removed.
    """
    try:
        before = read_membership(state_dir)
    except SettingsInvalid:
        before = None
    if before is None or (before.fleet, before.node) != (invitation.fleet, invitation.node):
        forget_earlier_keys(state_dir)
    else:
        _keep_earlier(state_dir / EARLIER_FILE_NAME, before.key, invitation.key)
        _keep_earlier(state_dir / EARLIER_FLEET_FILE_NAME, before.fleet_key, invitation.fleet_key)
    write_invitation(membership_file(state_dir), invitation)
    try:
        is_received = _read_received_key(state_dir, invitation) is not None
    except SettingsInvalid:
        is_received = False
    if not is_received:
        (state_dir / RECEIVED_FILE_NAME).unlink(missing_ok=True)


def _keep_earlier(path: Path, before: str, now: str) -> None:
    if before != now:
        keys = [each for each in (before, *_read_keys(path)) if each != now]
        replace_file(path, json.dumps(list(dict.fromkeys(keys))[:_EARLIER]) + "\n", durable=True)


def read_earlier_keys(state_dir: Path) -> tuple[str, ...]:
    """Return the private keys of earlier invitations that may still be needed, PEM, the newest first. Blocks.

    A file that cannot be read counts as none: the node then waits for its fleet to seal anew.
    """
    return _read_keys(state_dir / EARLIER_FILE_NAME)


def read_earlier_fleet_keys(state_dir: Path) -> tuple[str, ...]:
    """Return the fleet's public keys in earlier invitations, PEM, the newest first; none if unreadable. Blocks.

    They only open the list of objects on the node's disk: a message that is sealed with one of them is refused.
    """
    return _read_keys(state_dir / EARLIER_FLEET_FILE_NAME)


def _read_keys(path: Path) -> tuple[str, ...]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return ()
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def forget_earlier_keys(state_dir: Path) -> None:
    """Remove the keys of earlier invitations. Blocks. Raises OSError."""
    for name in (EARLIER_FILE_NAME, EARLIER_FLEET_FILE_NAME):
        (state_dir / name).unlink(missing_ok=True)


def read_listening(state_dir: Path) -> str:
    """Return the address at which the node accepts connections of its fleet, ``host:port``; "" = it accepts none.

    Blocks. The text of a damaged file is returned as it is: no node can listen there. Raises OSError.
    """
    try:
        return (state_dir / LISTEN_FILE_NAME).read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""


def keep_listening(state_dir: Path, address: str) -> None:
    """Record the address at which the node listens; "" removes the record. Atomic. Blocks. Raises OSError."""
    if address:
        replace_file(state_dir / LISTEN_FILE_NAME, address + "\n", durable=True)
    else:
        (state_dir / LISTEN_FILE_NAME).unlink(missing_ok=True)


def machine_proof(state_dir: Path, invitation: Invitation) -> str:
    """Return the proof that the same state directory has used this invitation before: 64 hexadecimal digits.

    It is an HMAC of the invitation's certificate with a secret of the state directory, which `syncpod leave` keeps. If
    the secret is damaged, the gate refuses the node as another machine. Blocks. Raises OSError.
    """
    path = state_dir / MACHINE_FILE_NAME
    try:
        secret = path.read_bytes().strip()
    except FileNotFoundError:
        secret = b""
    if not secret:
        secret = secrets.token_hex(32).encode()
        replace_file(path, secret + b"\n", durable=True)
    return hmac.digest(secret, _digest(invitation).encode(), "sha256").hex()


def forget_membership(state_dir: Path) -> None:
    """Remove all records of the node's membership of a fleet. Blocks. Raises OSError."""
    keep_listening(state_dir, "")
    forget_earlier_keys(state_dir)
    (state_dir / RECEIVED_FILE_NAME).unlink(missing_ok=True)
    membership_file(state_dir).unlink(missing_ok=True)
