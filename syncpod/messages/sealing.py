"""Sealing of payloads between a fleet and one node: nobody else can read or make such a payload.

Pure, except that `Fresh.made` takes random bytes.

The fleet's database holds the messages to a node and the answers. Both sides have an elliptic curve key (P-256): the
node uses that of its certificate, and the fleet has its own, whose public part is in the invitation. Each payload is
encrypted as a whole with a new content key (AES-256-GCM). The content key is wrapped once for each key of the receiver
and each key of the sender: a node that is invited anew has two keys for a while, and so has a fleet that changes its
own. The wrapping key is derived (HKDF-SHA256) from two key agreements (ECDH) with the receiver's key: one by a key that
is made for this payload, and one by the sender's key. So only the receiver can open the payload, and one of the senders
that the receiver trusts has sealed it.

A sealed payload is bound to its workflow, to the type of its activity and to one direction. The payload may still be a
copy of an earlier one of the same kind. The receiver must detect that itself: an intent has a generation for this
purpose.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.messages.signature import PayloadPlace, framed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

ENCODING: Final = "encoding"
SEALED: Final = b"binary/sealed"
"""The encoding of a sealed payload."""
RECEIVERS: Final = "syncpod-sealed-for"
"""Metadata: the ids of the receiver's keys, separated by commas. A search for payloads by their key reads it."""
NONCE_BYTES: Final = 12
CONTENT_KEY_BYTES: Final = 32
_VERSION: Final = b"syncpod sealing 1"
_POINT_BYTES: Final = 65
_ID_BYTES: Final = 8
_WRAPPED_BYTES: Final = CONTENT_KEY_BYTES + 16
_HEAD_BYTES: Final = _POINT_BYTES + NONCE_BYTES + 1
_ENTRY_BYTES: Final = 2 * _ID_BYTES + _WRAPPED_BYTES
_MOST_KEYS: Final = 255


FOR_ANOTHER_KEY: Final = "it was sealed for another key"
SEALED_BY_ANOTHER: Final = "it was sealed by somebody else"
"""Why a payload cannot be opened if its receiver or its sender is not among the given keys."""


class Unsealable(ValueError):
    """A sealed payload cannot be opened. The text is a clause that says why."""


@dataclass(frozen=True)
class Fresh:
    """The random values of one sealed payload, which must never be used again."""

    key: EllipticCurvePrivateKey
    content_key: bytes
    """The key that encrypts the payload, of :data:`CONTENT_KEY_BYTES` bytes."""
    nonce: bytes
    """The nonce of the payload's encryption, of :data:`NONCE_BYTES` bytes."""

    @classmethod
    def made(cls) -> Fresh:
        """Return new random values from the system's source of randomness."""
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

        key = generate_private_key(SECP256R1())
        return cls(key, secrets.token_bytes(CONTENT_KEY_BYTES), secrets.token_bytes(NONCE_BYTES))


def is_sealed(metadata: Mapping[str, bytes]) -> bool:
    """Say whether a payload with this metadata is sealed."""
    return metadata.get(ENCODING) == SEALED


def receiver_ids(metadata: Mapping[str, bytes]) -> list[str]:
    """Return the ids of the keys for which a payload with this metadata claims to be sealed."""
    return [each for each in metadata.get(RECEIVERS, b"").decode(errors="replace").split(",") if each]


def public_key_id(key: EllipticCurvePublicKey) -> str:
    """Return the id of a public key: 16 hexadecimal digits."""
    import hashlib

    return hashlib.sha256(_point(key)).hexdigest()[: 2 * _ID_BYTES]


def seal(
    senders: Sequence[EllipticCurvePrivateKey],
    receivers: Sequence[EllipticCurvePublicKey],
    place: PayloadPlace,
    payload: bytes,
    fresh: Fresh,
) -> tuple[dict[str, bytes], bytes]:
    """Return metadata and data of a sealed payload that holds `payload`. Each of `receivers` can open it.

    It is enough if a receiver trusts one of `senders`. Without receivers nobody can open it. The payload is bound to
    all of its place except the activity's id.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    point, ids, wrapped = _point(fresh.key.public_key()), [], []
    by_id = [(public_key_id(each.public_key()), each) for each in senders[:_MOST_KEYS]]
    for each in receivers[: _MOST_KEYS // max(1, len(by_id))]:
        ids.append(to := public_key_id(each))
        agreed = _agreed(fresh.key, each)
        for by, sender in by_id:
            key = _wrapping(agreed + _agreed(sender, each), place, by, to, point)
            entry = AESGCM(key).encrypt(bytes(NONCE_BYTES), fresh.content_key, None)
            wrapped.append(bytes.fromhex(by + to) + entry)
    head = point + fresh.nonce + bytes([len(wrapped)]) + b"".join(wrapped)
    sealed = AESGCM(fresh.content_key).encrypt(fresh.nonce, payload, _bound(place, head))
    return {ENCODING: SEALED, RECEIVERS: ",".join(ids).encode()}, head + sealed


def open_sealed(
    receivers: Sequence[EllipticCurvePrivateKey],
    senders: Iterable[EllipticCurvePublicKey],
    place: PayloadPlace,
    metadata: Mapping[str, bytes],
    data: bytes,
) -> bytes:
    """Return the serialized payload inside a sealed one, if one of `senders` has sealed it. Raises Unsealable."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(data) < _HEAD_BYTES:
        raise Unsealable("it is too short")
    end = _HEAD_BYTES + data[_HEAD_BYTES - 1] * _ENTRY_BYTES
    head, sealed = data[:end], data[end:]
    point, nonce = head[:_POINT_BYTES], head[_POINT_BYTES : _HEAD_BYTES - 1]
    found = [_Entry(head[at : at + _ENTRY_BYTES]) for at in range(_HEAD_BYTES, len(head), _ENTRY_BYTES)]
    trusted = {public_key_id(each): each for each in senders}
    ours = {public_key_id(each.public_key()): each for each in receivers}
    if not any(each.to in ours for each in found):
        raise Unsealable(FOR_ANOTHER_KEY)
    entry = next((each for each in found if each.to in ours and each.by in trusted), None)
    if entry is None:
        raise Unsealable(SEALED_BY_ANOTHER)
    # A search for payloads by their key trusts the metadata: a stolen node must not hide a key there.
    if receiver_ids(metadata) != list(dict.fromkeys(each.to for each in found)):
        raise Unsealable("it does not say for whom it is sealed")
    own = ours[entry.to]
    try:
        fresh = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        agreed = _agreed(own, fresh) + _agreed(own, trusted[entry.by])
        key = _wrapping(agreed, place, entry.by, entry.to, point)
        content_key = AESGCM(key).decrypt(bytes(NONCE_BYTES), entry.wrapped, None)
        return AESGCM(content_key).decrypt(nonce, sealed, _bound(place, head))
    except (InvalidTag, ValueError):  # ValueError: not a point of the curve, or a key or a nonce that is too short
        raise Unsealable("it was sealed for another workflow or activity, or altered") from None


class _Entry:
    """The content key, as one sender has wrapped it for one receiver."""

    def __init__(self, data: bytes) -> None:
        self.by, self.to = data[:_ID_BYTES].hex(), data[_ID_BYTES : 2 * _ID_BYTES].hex()
        self.wrapped = data[2 * _ID_BYTES :]


def _agreed(own: EllipticCurvePrivateKey, other: EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH

    return own.exchange(ECDH(), other)


def _wrapping(agreed: bytes, place: PayloadPlace, by: str, to: str, point: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    bound = _bound(place, by.encode(), to.encode(), point)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=bound).derive(agreed)


def _bound(place: PayloadPlace, *more: bytes) -> bytes:
    """Return the bytes that a sealed payload is bound to."""
    place_texts = (place.namespace, place.workflow_id, place.activity_type)
    return framed((_VERSION, *(text.encode() for text in place_texts), *more))


def _point(key: EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
