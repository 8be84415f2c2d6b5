"""The keys that a fleet seals with: its own, and those of the certificates that it has issued to nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from syncpod.gate.authority import Fleet
from syncpod.gate.sealing_key_files import SealingKeyFiles
from syncpod.messages.sealing import public_key_id
from syncpod.settings.values import SettingsInvalid

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds for which a process may still use the earlier key after another one was put in use. A new key that opens an
object is read at once."""
SETTLED_NANOSECONDS: Final = 100_000_000
"""A directory that has changed more recently than this is read again the next time: a file system's clock has ticks of
milliseconds, and one more certificate in the same tick would be missed."""


class FleetSealingKeys:
    """The keys of one fleet, and of its nodes; also those that are made while this process runs."""

    def __init__(self, fleet: Fleet, clock: Callable[[], datetime]) -> None:
        """Read the fleet's own keys; the first one is made at the first use. Blocks. Raises SettingsInvalid, OSError.

        If the keys cannot be read later, the keys that were read last stay in use.
        """
        self._fleet, self._clock = fleet, clock
        self.files = SealingKeyFiles(fleet)
        self._own = self.files.read()
        self._changed, self._next_look = self.files.changed(), time.monotonic() + LOOK_SECONDS
        self._seen: object = None
        self._nodes: dict[str, list[tuple[EllipticCurvePublicKey, datetime, bool]]] = {}

    @property
    def fleet(self) -> str:
        """The fleet's id."""
        return self._fleet.id

    @property
    def own(self) -> Sequence[EllipticCurvePrivateKey]:
        """The fleet's own keys, first the one in use: nodes trust that one, or still an earlier one. Blocks briefly."""
        if time.monotonic() >= self._next_look:
            self._look()
        return tuple(self._own.values())

    @property
    def current(self) -> str:
        """The id of the key in use. Blocks briefly."""
        return public_key_id(self.own[0].public_key())

    def opening(self, ids: Sequence[str]) -> Sequence[EllipticCurvePrivateKey]:
        """Return the fleet's own keys; read them again first if none of them has one of these ids. Blocks briefly."""
        if not self._own.keys() & set(ids):
            self._look()
        return self.own

    def public_pem(self) -> str:
        """Return the public part of the fleet's key in use, PEM, as it is in an invitation."""
        return self.own[0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def _look(self) -> None:
        """Read the own keys again if they have changed."""
        try:
            # Compared before the keys are read: a change in between is found the next time.
            if (changed := self.files.changed()) != self._changed:
                self._own, self._changed = self.files.read(), changed
        except (SettingsInvalid, OSError) as error:
            where = self.files.directory
            log.warning("the keys in %s cannot be read again, those that are known go on: %s", where, error)
        self._next_look = time.monotonic() + LOOK_SECONDS

    def receiving(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of a node's valid certificates, the one that expires last first. Blocks briefly."""
        now = self._clock()
        return [key for key, not_after, revoked in self._of(node) if not revoked and not_after > now]

    def known(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of all certificates that a node has ever had. Blocks briefly."""
        return [key for key, _, _ in self._of(node)]

    def _of(self, node: str) -> list[tuple[EllipticCurvePublicKey, datetime, bool]]:
        """Return a node's keys, each with its certificate's expiry and whether it is revoked.

        The certificates are read again if one was issued or revoked.
        """
        issued = self._fleet.issued_changed()
        seen = self._fleet.changed(), issued
        if seen != self._seen:
            found: dict[str, list[tuple[EllipticCurvePublicKey, datetime, bool]]] = {}
            for each in reversed(self._fleet.issued()):
                key = x509.load_pem_x509_certificate(self._fleet.record(each.serial)).public_key()
                if isinstance(key, EllipticCurvePublicKey):
                    found.setdefault(each.node, []).append((key, each.not_after, each.revoked))
            is_settled = abs(time.time_ns() - issued) > SETTLED_NANOSECONDS
            self._nodes, self._seen = found, seen if is_settled else None
        return self._nodes.get(node, [])
