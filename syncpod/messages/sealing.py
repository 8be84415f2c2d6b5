"""Sealing of payloads between a fleet and one node: nobody else can read or make such a payload. Pure.

The fleet's database holds the messages to a node and the answers. Both sides have an elliptic curve key (P-256): the
node uses that of its certificate, and the fleet has its own, whose public part is in the invitation. Each payload is
encrypted as a whole with a new content key (AES-256-GCM). The content key is wrapped once for each key of the receiver,
since a node that is invited anew has two keys for a while. The wrapping key is derived (HKDF-SHA256) from two key
agreements (ECDH) with the receiver's key: one by a key that is made for this payload, and one by the sender's key. So
only the receiver can open the payload, and the receiver knows who has sealed it.

A sealed payload is bound to its workflow, to the type of its activity and to one direction. It may still be a copy of
an earlier one of the same kind. The receiver has to notice that: an intent has a generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.messages.signature import PayloadPlace

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

ENCODING: Final = "encoding"
SEALED: Final = b"binary/sealed"
"""The encoding of a sealed payload."""
SENDER: Final = "syncpod-sealed-by"
"""Metadata: the id of the sender's key."""
NONCE_BYTES: Final = 12
CONTENT_KEY_BYTES: Final = 32
_VERSION: Final = b"syncpod sealing 1"
_POINT_BYTES: Final = 65
_ID_BYTES: Final = 8
_WRAPPED_BYTES: Final = CONTENT_KEY_BYTES + 16
_HEAD_BYTES: Final = _POINT_BYTES + NONCE_BYTES + 1
_MOST_KEYS: Final = 255


class Unsealable(ValueError):
    """A sealed payload cannot be opened. The text is a clause that says why."""


@dataclass(frozen=True)
class Fresh:
    """The random values of one sealed payload, which must never be used again."""

    key: EllipticCurvePrivateKey
    content_key: bytes
    """CONTENT_KEY_BYTES."""
    nonce: bytes
    """NONCE_BYTES."""


def is_sealed(metadata: Mapping[str, bytes]) -> bool:
    """Say whether a payload with this metadata is sealed."""
    return metadata.get(ENCODING) == SEALED


def public_key_id(key: EllipticCurvePublicKey) -> str:
    """Return the id of a public key: 16 hexadecimal digits."""
    import hashlib

    return hashlib.sha256(_point(key)).hexdigest()[: 2 * _ID_BYTES]


def seal(
    sender: EllipticCurvePrivateKey,
    receivers: Sequence[EllipticCurvePublicKey],
    place: PayloadPlace,
    payload: bytes,
    fresh: Fresh,
) -> tuple[dict[str, bytes], bytes]:
    """Return metadata and data of a sealed payload that holds `payload`. Each of `receivers` can open it.

    Without receivers nobody can. The payload is bound to all of its place except the activity's id.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    by, point = public_key_id(sender.public_key()), _point(fresh.key.public_key())
    wrapped = []
    for each in receivers[:_MOST_KEYS]:
        to = public_key_id(each)
        key = _wrapping(_agreed(fresh.key, each) + _agreed(sender, each), place, by, to, point)
        wrapped.append(bytes.fromhex(to) + AESGCM(key).encrypt(bytes(NONCE_BYTES), fresh.content_key, None))
    head = point + fresh.nonce + bytes([len(wrapped)]) + b"".join(wrapped)
    sealed = AESGCM(fresh.content_key).encrypt(fresh.nonce, payload, _bound(place, by.encode(), head))
    return {ENCODING: SEALED, SENDER: by.encode()}, head + sealed


def open_sealed(
    receivers: Sequence[EllipticCurvePrivateKey],
    senders: Iterable[EllipticCurvePublicKey],
    place: PayloadPlace,
    metadata: Mapping[str, bytes],
    data: bytes,
) -> bytes:
    """Return the serialized payload in a sealed one, if one of `senders` has sealed it. Raises Unsealable."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    by = metadata.get(SENDER, b"").decode(errors="replace")
    sender = next((each for each in senders if public_key_id(each) == by), None)
    if sender is None:
        raise Unsealable("it was sealed by somebody else")
    if len(data) < _HEAD_BYTES:
        raise Unsealable("it is too short")
    count, entry = data[_HEAD_BYTES - 1], _ID_BYTES + _WRAPPED_BYTES
    head, sealed = data[: _HEAD_BYTES + count * entry], data[_HEAD_BYTES + count * entry :]
    point, nonce = head[:_POINT_BYTES], head[_POINT_BYTES : _HEAD_BYTES - 1]
    entries = [head[at : at + entry] for at in range(_HEAD_BYTES, len(head), entry)]
    wrapped = {each[:_ID_BYTES].hex(): each[_ID_BYTES:] for each in entries}
    ours = {public_key_id(each.public_key()): each for each in receivers}
    to = next((each for each in wrapped if each in ours), None)
    if to is None:
        raise Unsealable("it was sealed for another key")
    try:
        fresh = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        key = _wrapping(_agreed(ours[to], fresh) + _agreed(ours[to], sender), place, by, to, point)
        content_key = AESGCM(key).decrypt(bytes(NONCE_BYTES), wrapped[to], None)
        return AESGCM(content_key).decrypt(nonce, sealed, _bound(place, by.encode(), head))
    except (InvalidTag, ValueError):  # ValueError: not a point of the curve, or a key or a nonce that is too short
        raise Unsealable("it was sealed for another workflow or activity, or altered") from None


def _agreed(own: EllipticCurvePrivateKey, other: EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH

    return own.exchange(ECDH(), other)


def _wrapping(agreed: bytes, place: PayloadPlace, by: str, to: str, point: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    bound = _bound(place, by.encode(), to.encode(), point)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=bound).derive(agreed)


def _bound(place: PayloadPlace, *more: bytes) -> bytes:
    """Return the bytes that a sealed payload is bound to: each part, preceded by its length."""
    parts = (_VERSION, *(each.encode() for each in (place.namespace, place.workflow_id, place.activity_type)), *more)
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _point(key: EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
