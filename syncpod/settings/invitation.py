"""An invitation: the file that a node joins a fleet with. `syncpod fleet invite` writes it, and the node reads it.

It holds the node's private key, so only its owner may read it, on both machines.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.values import SettingsInvalid

VERSION: Final = 1
"""The version of the file. A reader refuses any other version."""
_VERSION_FIELD: Final = "version"
LARGEST_BYTES: Final = 2**18
"""A larger file is refused."""
_ADDRESS: Final = re.compile(r"\S+:[0-9]{1,5}")
_NODE: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PEM: Final = {
    "authorities": "-----BEGIN CERTIFICATE-----",
    "certificate": "-----BEGIN CERTIFICATE-----",
    "key": "-----BEGIN PRIVATE KEY-----",
    "fleet_key": "-----BEGIN PUBLIC KEY-----",
}


@dataclass(frozen=True)
class Invitation:
    """The address of a fleet's gate, and the certificate that identifies one node to it."""

    fleet: str
    """The fleet's id."""
    node: str
    """The name in the certificate, which the node must have."""
    address: str
    """The gate's address: ``host:port``."""
    server_name: str
    """The name in the gate's own certificate, at any address. TLS must check it (`TLSConfig.domain`)."""
    namespace: str
    """The fleet's Temporal namespace."""
    authorities: str
    """The fleet's certificate authorities, PEM: one, or two while the authority is being changed."""
    certificate: str
    """The node's certificate, PEM."""
    key: str = field(repr=False)
    """The node's private key, PEM (PKCS 8). It also opens payloads that the fleet has sealed for the node."""
    fleet_key: str
    """The public part of the fleet's sealing key, PEM: the one that the node trusts."""


def is_node_name(text: str) -> bool:
    """Say whether a text is a valid name of a node: a DNS subdomain of at most 253 characters."""
    return _NODE.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """Say whether a text is a host and a port."""
    return _ADDRESS.fullmatch(text) is not None and int(text.rpartition(":")[2]) <= 65535


def invitation_text(invitation: Invitation) -> str:
    """Return the content of an invitation's file: JSON."""
    return json.dumps({_VERSION_FIELD: VERSION, **asdict(invitation)}, indent=2) + "\n"


def write_invitation(path: Path, invitation: Invitation) -> None:
    """Write the file of an invitation, with mode 0600. Atomic. Raises OSError."""
    replace_file(path, invitation_text(invitation), durable=True)


def read_invitation(path: Path) -> Invitation:
    """Return the invitation in a file that only its user may read. Blocks.

    Raises SettingsInvalid with one sentence: which file, which field, and what would be right.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SettingsInvalid(f"invitation {path}: {error.strerror}") from None
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsInvalid(f"invitation {path}: is not a file")
        said = os.read(opened, LARGEST_BYTES + 1)
    finally:
        os.close(opened)
    try:
        invitation = parse_invitation(said)
    except SettingsInvalid as wrong:
        raise SettingsInvalid(f"invitation {path}: {wrong}") from None
    if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
        raise SettingsInvalid(
            f"invitation {path}: holds a private key, so it must be a file of its user alone, with mode 0600 "
            f"(chmod 600 {path})"
        )
    return invitation


def parse_invitation(said: bytes) -> Invitation:
    """Parse the content of an invitation's file. Raises SettingsInvalid, whose text begins with the field."""
    if len(said) > LARGEST_BYTES:
        raise SettingsInvalid(f"has more than {LARGEST_BYTES} bytes: it is not an invitation")
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        raise SettingsInvalid("is not JSON: it must be the file that `syncpod fleet invite` has written") from None
    if not isinstance(found, dict):
        raise SettingsInvalid("must be one object, as `syncpod fleet invite` writes it")
    names = [each.name for each in fields(Invitation)]
    if not found.keys() & {_VERSION_FIELD, *names}:
        raise SettingsInvalid(
            "has no field of an invitation: it must be the file that `syncpod fleet invite` has written"
        )
    if found.get(_VERSION_FIELD) != VERSION:
        raise SettingsInvalid(f"{_VERSION_FIELD}: must be {VERSION}, the one that this syncpod reads")
    for unknown in found.keys() - {_VERSION_FIELD, *names}:
        raise SettingsInvalid(f"{str(unknown)[:64]!r}: is not a field of an invitation")
    return Invitation(**{name: _text(found, name) for name in names})


def _text(found: dict[str, Any], name: str) -> str:
    text = found.get(name)
    if not isinstance(text, str) or not text.strip():
        raise SettingsInvalid(f"{name}: must be a non-empty text")
    if name == "node" and not is_node_name(text):
        raise SettingsInvalid("node: must be the name of a node, a DNS subdomain")
    if name == "address" and not is_address(text):
        raise SettingsInvalid("address: must be host:port")
    if name in _PEM and _PEM[name] not in text:
        raise SettingsInvalid(f"{name}: must be PEM, with {_PEM[name]}")
    return text
