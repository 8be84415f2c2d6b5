"""Encryption of payloads: AES-256-GCM, bound to one namespace and one workflow. Values in, values out.

A payload is encrypted as a whole, with its metadata, and so with the signature that is in it: encryption hides the
content, and the signature inside vouches for it. Each workflow has a key of its own, derived from the node's key
(HKDF-SHA256). So no key is used with so many random nonces that two of them might be equal. The workflow's id is in
plain text beside the ciphertext, for readers that do not know the workflow. A reader that knows the workflow ignores
this id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from syncpod.messages.signature import PayloadPlace, framed, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ENCODING: Final = "encoding"
ENCRYPTED: Final = b"binary/encrypted"
"""The encoding of an encrypted payload, as in Temporal's own examples."""
KEY: Final = "encryption-key-id"
"""Metadata: the id of the node's key."""
NAMESPACE: Final = "syncpod-namespace"
WORKFLOW: Final = "syncpod-workflow"
"""Metadata: the workflow to which the payload belongs, and its namespace."""
FLEET: Final = "syncpod-fleet"
"""Metadata: the id of the fleet that has encrypted the payload, as its sender claims: nothing authenticates the id."""
NONCE_BYTES: Final = 12
UNKNOWN_KEY: Final = "it is encrypted with a key that this node does not have"
"""Why a payload cannot be decrypted if its key is not among the given ones."""

_VERSION: Final = b"syncpod encryption 1"
_KEY_ID: Final = re.compile(r"[0-9a-f]{16}")
"""The form of the ids that `syncpod.messages.signature.key_id` returns."""


class Undecipherable(ValueError):
    """A payload cannot be decrypted; the text is a clause that says why."""


def is_encrypted(metadata: Mapping[str, bytes]) -> bool:
    """Say whether a payload with this metadata is encrypted."""
    return metadata.get(ENCODING) == ENCRYPTED


def is_key_missing(keys: Mapping[str, bytes], metadata: Mapping[str, bytes]) -> bool:
    """Say whether a payload with this metadata is encrypted with a key that is missing here, and may be added later.

    A payload that names no key, or names something that is no key's id, can never be decrypted.
    """
    named = metadata.get(KEY, b"").decode(errors="replace")
    return is_encrypted(metadata) and named not in keys and _KEY_ID.fullmatch(named) is not None


def is_of_another_fleet(fleet: str, metadata: Mapping[str, bytes]) -> bool:
    """Say whether a payload with this metadata is encrypted, and names another fleet than the one with this id."""
    return is_encrypted(metadata) and metadata.get(FLEET, fleet.encode()) != fleet.encode()


def encrypt(key: bytes, place: PayloadPlace, payload: bytes, nonce: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the metadata and the data of an encrypted payload. `payload` is the payload to encrypt, serialized.

    `nonce` has `NONCE_BYTES` random bytes that were never used before. The payload is bound to the namespace and the
    workflow of its place.
    """
    namespace, workflow = place.namespace.encode(), place.workflow_id.encode()
    sealed = _cipher(key, namespace, workflow).encrypt(nonce, payload, _bound(namespace, workflow))
    said = {ENCODING: ENCRYPTED, KEY: key_id(key).encode(), NAMESPACE: namespace, WORKFLOW: workflow}
    return said, nonce + sealed


def decrypt(keys: Mapping[str, bytes], place: PayloadPlace | None, metadata: Mapping[str, bytes], data: bytes) -> bytes:
    """Return the serialized payload inside an encrypted payload. Raises Undecipherable.

    `place` None = the place that the metadata names: enough to show a payload, not to act on it.
    """
    from cryptography.exceptions import InvalidTag

    key = keys.get(metadata.get(KEY, b"").decode(errors="replace"))
    if key is None:
        raise Undecipherable(UNKNOWN_KEY)
    if place is None:
        namespace, workflow = metadata.get(NAMESPACE, b""), metadata.get(WORKFLOW, b"")
    else:
        namespace, workflow = place.namespace.encode(), place.workflow_id.encode()
    nonce, sealed = data[:NONCE_BYTES], data[NONCE_BYTES:]
    try:
        return _cipher(key, namespace, workflow).decrypt(nonce, sealed, _bound(namespace, workflow))
    except (InvalidTag, ValueError):  # ValueError: the nonce is too short
        raise Undecipherable("it was encrypted for another workflow, or altered") from None


def _bound(namespace: bytes, workflow: bytes) -> bytes:
    """Return the bytes that a ciphertext is bound to, in addition to its key."""
    return framed((_VERSION, namespace, workflow))


@lru_cache(maxsize=2048)
def _cipher(key: bytes, namespace: bytes, workflow: bytes) -> AESGCM:
    # Imported here, for nodes that encrypt: this import takes as long as all imports for signing together.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=_bound(namespace, workflow)).derive(key))
