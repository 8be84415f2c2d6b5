"""Seals a fleet's ConfigMaps and Secrets: first for the fleet, which keeps them, and then for the nodes that need them.

The fleet's sealing key and the keys of the nodes' certificates are used for this. So neither the database nor the key
that encrypts a fleet's histories reveals an object's content.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet_objects import GIVEN, KEPT
from syncpod.messages.sealing import CONTENT_KEY_BYTES, NONCE_BYTES, Fresh, open_sealed, seal
from syncpod.messages.signature import PayloadPlace


class ObjectSealing:
    """Seals the objects of one fleet. Pure, apart from randomness and the keys of certificates."""

    def __init__(self, keys: FleetSealingKeys) -> None:
        self._keys = keys

    def version(self, content: bytes) -> str:
        """Return a digest that is equal for equal content. Without the fleet's key it reveals nothing else."""
        own = self._keys.own.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return hmac.digest(hashlib.sha256(b"syncpod object version\0" + own).digest(), content, hashlib.sha256).hex()[
            :32
        ]

    def keep(self, key: str, content: bytes) -> tuple[dict[str, str], bytes]:
        """Seal an object for the fleet; return metadata and data. `key` is its kind, namespace and name."""
        return self._seal([self._keys.own.public_key()], PayloadPlace("", key, "", KEPT), content)

    def give(self, key: str, node: str, metadata: Mapping[str, str], kept: bytes) -> tuple[dict[str, str], bytes]:
        """Seal an object for a node. `kept` is the object as `keep` has sealed it. Raises Unsealable."""
        own = self._keys.own
        said = {name: text.encode() for name, text in metadata.items()}
        content = open_sealed([own], [own.public_key()], PayloadPlace("", key, "", KEPT), said, kept)
        return self._seal(list(self._keys.receiving(node)), PayloadPlace(node, key, "", GIVEN), content)

    def _seal(
        self, receivers: list[EllipticCurvePublicKey], place: PayloadPlace, content: bytes
    ) -> tuple[dict[str, str], bytes]:
        fresh = Fresh(
            generate_private_key(SECP256R1()), secrets.token_bytes(CONTENT_KEY_BYTES), secrets.token_bytes(NONCE_BYTES)
        )
        metadata, data = seal(self._keys.own, receivers, place, content, fresh)
        return {name: text.decode() for name, text in metadata.items()}, data
