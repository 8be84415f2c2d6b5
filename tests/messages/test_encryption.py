"""Encrypted data can be decrypted only with its key and only for its workflow."""

from __future__ import annotations

import pytest

from syncpod.messages.encryption import (
    KEY,
    NONCE_BYTES,
    WORKFLOW,
    Undecipherable,
    decrypt,
    encrypt,
    is_encrypted,
)
from syncpod.messages.signature import PayloadPlace, key_id

OLD, NEW = b"o" * 32, b"n" * 32
KEYS = {key_id(key): key for key in (OLD, NEW)}
WEB = PayloadPlace("default", "pod/default/web")
NONCE = bytes(NONCE_BYTES)


def test_it_is_read_with_its_key_also_after_a_new_one() -> None:
    metadata, data = encrypt(OLD, WEB, b"said", NONCE)
    assert is_encrypted(metadata)
    assert metadata[KEY].decode() == key_id(OLD)
    assert b"said" not in data
    assert decrypt(KEYS, WEB, metadata, data) == b"said"
    assert decrypt(KEYS, PayloadPlace("default", WEB.workflow_id, "step-1", "start"), metadata, data) == b"said"
    with pytest.raises(Undecipherable, match="a key that this node does not have"):
        decrypt({key_id(NEW): NEW}, WEB, metadata, data)


@pytest.mark.parametrize(
    "other", [PayloadPlace("default", "pod/default/other"), PayloadPlace("other", WEB.workflow_id)]
)
def test_it_holds_for_one_workflow(other: PayloadPlace) -> None:
    metadata, data = encrypt(NEW, WEB, b"said", NONCE)
    assert decrypt(KEYS, None, metadata, data) == b"said", "who knows no workflow goes by the one that is named"
    with pytest.raises(Undecipherable, match="for another workflow, or altered"):
        decrypt(KEYS, other, metadata, data)
    with pytest.raises(Undecipherable, match="for another workflow, or altered"):
        decrypt(KEYS, None, {**metadata, WORKFLOW: b"pod/default/other"}, data)


@pytest.mark.parametrize("cut", [0, 1, NONCE_BYTES, -1])
def test_what_was_altered_or_cut_is_not_read(cut: int) -> None:
    metadata, data = encrypt(NEW, WEB, b"said", NONCE)
    with pytest.raises(Undecipherable):
        decrypt(KEYS, WEB, metadata, data[:cut])
    with pytest.raises(Undecipherable):
        decrypt(KEYS, WEB, metadata, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Undecipherable):
        decrypt(KEYS, WEB, {**metadata, KEY: key_id(OLD).encode()}, data)
