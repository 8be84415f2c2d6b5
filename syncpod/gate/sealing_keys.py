"""The keys that a fleet seals with: its own, and those of the certificates that it has issued to nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from syncpod.gate.authority import Fleet
from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.errors import SettingsInvalid

KEY_FILE: Final = "sealing.key"
"""The file of the fleet's own key, in the fleet's directory. Without it histories with sealed payloads cannot be
replayed."""


class FleetSealingKeys:
    """The keys of one fleet, including those of nodes that it invites while this process runs."""

    def __init__(self, fleet: Fleet, clock: Callable[[], datetime]) -> None:
        """Read the fleet's own key, which is made at the first use. Blocks. Raises SettingsInvalid, OSError."""
        self._fleet, self._clock = fleet, clock
        self._own = _own_key(fleet.directory / KEY_FILE)
        self._seen: object = None
        self._nodes: dict[str, list[tuple[EllipticCurvePublicKey, datetime, bool]]] = {}

    @property
    def own(self) -> EllipticCurvePrivateKey:
        """The fleet's own key."""
        return self._own

    def public_pem(self) -> str:
        """Return the public part of the fleet's key, PEM, as it is in an invitation."""
        return self._own.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def receiving(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of a node's valid certificates, the one that expires last first. Blocks briefly."""
        now = self._clock()
        return [key for key, not_after, revoked in self._of(node) if not revoked and not_after > now]

    def known(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of all certificates that a node has ever had. Blocks briefly."""
        return [key for key, _, _ in self._of(node)]

    def _of(self, node: str) -> list[tuple[EllipticCurvePublicKey, datetime, bool]]:
        """Return a node's keys, reading the certificates again if one was issued or revoked."""
        seen = self._fleet.changed(), self._fleet.issued_changed()
        if seen != self._seen:
            found: dict[str, list[tuple[EllipticCurvePublicKey, datetime, bool]]] = {}
            for each in reversed(self._fleet.issued()):
                key = x509.load_pem_x509_certificate(self._fleet.record(each.serial)).public_key()
                if isinstance(key, EllipticCurvePublicKey):
                    found.setdefault(each.node, []).append((key, each.not_after, each.revoked))
            self._nodes, self._seen = found, seen
        return self._nodes.get(node, [])


def _own_key(path: Path) -> EllipticCurvePrivateKey:
    if not path.exists():
        made = generate_private_key(SECP256R1())
        pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_file(path, pem, durable=True)
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except ValueError:
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise SettingsInvalid(f"{path}: is not a private key: restore it")
    return key
