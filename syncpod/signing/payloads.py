"""Payloads of clients that are not ours, as the node takes them."""

from __future__ import annotations

from temporalio.api.common.v1 import Payload

from syncpod.messages.encryption import is_encrypted
from syncpod.messages.signature import Keys, PayloadPlace, signed_metadata
from syncpod.temporal.encryption import encrypted


def signed_payload(keys: Keys, place: PayloadPlace, payload: Payload, purpose: str) -> Payload:
    """Return a payload signed as a command with the next number, and encrypted if the keys encrypt.

    One that is encrypted already is returned as it is. Raises OSError if there is no number.
    """
    if is_encrypted(payload.metadata):
        return payload
    key = keys.current
    metadata = signed_metadata(key, place, payload.metadata, payload.data, purpose=purpose, number=keys.number())
    signed = Payload(metadata=metadata, data=payload.data)
    return encrypted(key, place, signed) if keys.encrypts else signed
