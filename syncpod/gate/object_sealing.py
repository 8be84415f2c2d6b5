"""Seals a fleet's ConfigMaps and Secrets: first for the fleet, which keeps them, and then for the nodes that need them.

The fleet's sealing key and the keys of the nodes' certificates are used for this. So neither the database nor the key
that encrypts a fleet's histories reveals an object's content.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet_objects import FLEET_KEY, GIVEN, KEPT
from syncpod.messages.sealing import Fresh, open_sealed, receiver_ids, seal
from syncpod.messages.signature import PayloadPlace


class ObjectSealing:
    """Seals the objects of one fleet. Pure, apart from randomness and the keys of certificates."""

    def __init__(self, keys: FleetSealingKeys) -> None:
        self._keys = keys

    def version(self, content: bytes) -> str:
        """Return a digest that is equal for equal content. Without the fleet's key it reveals nothing else."""
        own = self._keys.own[0].private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return hmac.digest(hashlib.sha256(b"syncpod object version\0" + own).digest(), content, hashlib.sha256).hex()[
            :32
        ]

    def keep(self, key: str, content: bytes) -> tuple[dict[str, str], bytes]:
        """Seal an object for the fleet; return metadata and data. `key` is its kind, namespace and name."""
        return self._seal([self._keys.own[0].public_key()], PayloadPlace("", key, "", KEPT), content)

    def give(self, key: str, node: str, metadata: Mapping[str, str], kept: bytes) -> tuple[dict[str, str], bytes]:
        """Seal an object for a node. `kept` is the object as `keep` has sealed it. Raises Unsealable."""
        content = self._opened(key, metadata, kept)
        return self._seal(self._keys.receiving(node), PayloadPlace(node, key, "", GIVEN), content)

    def keep_anew(self, key: str, metadata: Mapping[str, str], kept: bytes) -> tuple[str, dict[str, str], bytes] | None:
        """Seal an object of the fleet again, for the key in use; return its version, metadata and data.

        Returns None if the object is sealed for that key already. Raises Unsealable.
        """
        if receiver_ids(_bytes(metadata)) == [self._keys.current]:
            return None
        content = self._opened(key, metadata, kept)
        return self.version(content), *self.keep(key, content)

    @property
    def current(self) -> str:
        """The id of the fleet's key in use."""
        return self._keys.current

    def seal_key(self, node: str) -> tuple[dict[str, str], bytes]:
        """Seal a message that names the fleet's key in use to a node.

        All of the fleet's keys seal it, since the node trusts only one of them. A later message has a higher number, so
        that nobody can take a node back to an earlier key. Raises OSError.
        """
        document = json.dumps({"number": self._keys.files.number(), "key": self._keys.public_pem()})
        return self._seal(self._keys.receiving(node), PayloadPlace(node, "", "", FLEET_KEY), document.encode())

    def _opened(self, key: str, metadata: Mapping[str, str], kept: bytes) -> bytes:
        said = _bytes(metadata)
        own = self._keys.opening(receiver_ids(said))
        return open_sealed(own, [each.public_key() for each in own], PayloadPlace("", key, "", KEPT), said, kept)

    def _seal(
        self, receivers: Sequence[EllipticCurvePublicKey], place: PayloadPlace, content: bytes
    ) -> tuple[dict[str, str], bytes]:
        metadata, data = seal(self._keys.own, receivers, place, content, Fresh.made())
        return {name: text.decode() for name, text in metadata.items()}, data


def _bytes(metadata: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in metadata.items()}
