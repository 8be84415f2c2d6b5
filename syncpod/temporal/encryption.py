"""Encrypts and decrypts Temporal's payloads; the encryption itself is `syncpod.messages.encryption`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from temporalio.api.common.v1 import Payload

from syncpod.messages.encryption import NONCE_BYTES, Undecipherable, decrypt, encrypt, is_encrypted
from syncpod.messages.signature import PayloadPlace


def encrypted(key: bytes, place: PayloadPlace, payload: Payload) -> Payload:
    """Return a payload encrypted for a workflow; unchanged if it is encrypted already."""
    if is_encrypted(payload.metadata):
        return payload
    metadata, data = encrypt(key, place, payload.SerializeToString(), secrets.token_bytes(NONCE_BYTES))
    return Payload(metadata=metadata, data=data)


def decrypted(keys: Mapping[str, bytes], place: PayloadPlace | None, payload: Payload) -> Payload:
    """Return the content of an encrypted payload; `place` is as in :func:`decrypt`. Raises Undecipherable."""
    inner = decrypt(keys, place, payload.metadata, payload.data)
    try:
        return Payload.FromString(inner)
    except Exception:  # noqa: BLE001  # protobuf's own errors: whoever has the key may have encrypted anything
        raise Undecipherable("it holds no payload") from None


def readable(keys: Mapping[str, bytes], payload: Payload, place: PayloadPlace | None = None) -> Payload:
    """Return a payload for display: decrypted, or unchanged if it cannot be decrypted."""
    if not is_encrypted(payload.metadata):
        return payload
    try:
        return decrypted(keys, place, payload)
    except Undecipherable:
        return payload
