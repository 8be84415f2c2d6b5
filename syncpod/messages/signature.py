"""Signatures of payloads: an HMAC-SHA256 in the payload's metadata, over the whole payload and its place.

The payload's data is left as it is, so that its JSON stays readable. A signature holds for one namespace, one workflow
(for a step's payload: one activity of it, and its type), and one purpose. Values in, values out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

KEY: Final = "syncpod-key"
"""Metadata: the id of the key."""
PURPOSE: Final = "syncpod-for"
"""Metadata: the purpose of the signature: ``start``, ``signal/NAME``, ``update/NAME``, ``any``, ``input``,
``result``."""
NUMBER: Final = "syncpod-number"
"""Metadata: the command's number, decimal: microseconds since 1970, or the last number plus one if that is larger."""
SIGNATURE: Final = "syncpod-signature"
"""Metadata: the HMAC, hexadecimal."""
FIELDS: Final = (KEY, PURPOSE, NUMBER, SIGNATURE)

_VERSION: Final = b"syncpod payload 1"
_LONGEST_NUMBER: Final = 18


class Keys(Protocol):
    """The keys of a node, as signing and verifying need them."""

    @property
    def current(self) -> bytes:
        """The key that signs."""

    @property
    def by_id(self) -> Mapping[str, bytes]:
        """All keys that verify, by id."""

    @property
    def encrypts(self) -> bool:
        """Whether payloads are also encrypted, with the current key."""

    def number(self) -> int:
        """Return the next number of a command: higher than all before. Raises OSError."""


@dataclass(frozen=True)
class PayloadPlace:
    """The place that a payload belongs to: a workflow, or one of its activities."""

    namespace: str
    workflow_id: str
    activity_id: str = ""
    """The activity's id; "" = the payload belongs to the workflow itself."""
    activity_type: str = ""


NAMELESS: Final = "syncpod-nameless"
"""Metadata of a payload that the codec server could not sign: the command that starts a run names no workflow."""
_NAMES_NO_WORKFLOW: Final = "the command names no workflow (`--workflow-id pod/<namespace>/<name>` does)"


@dataclass(frozen=True)
class SignatureCheck:
    """The content of a payload's signature."""

    purpose: str = ""
    number: int = 0
    refusal: str = ""
    """Why the signature is not accepted, as a clause; then `purpose` and `number` have their defaults."""


@lru_cache(maxsize=16)
def key_id(key: bytes) -> str:
    """Return the public name of a key."""
    return hashlib.sha256(b"syncpod key id\0" + key).hexdigest()[:16]


def signed_metadata(
    key: bytes, place: PayloadPlace, metadata: Mapping[str, bytes], data: bytes, *, purpose: str, number: int = 0
) -> dict[str, bytes]:
    """Return a payload's metadata with a signature, in place of any that it has."""
    said = {name: value for name, value in metadata.items() if name not in FIELDS}
    said |= {KEY: key_id(key).encode(), PURPOSE: purpose.encode(), NUMBER: str(number).encode()}
    return {**said, SIGNATURE: _mac(key, place, said, data).encode()}


def verify(
    keys: Mapping[str, bytes], place: PayloadPlace, metadata: Mapping[str, bytes], data: bytes
) -> SignatureCheck:
    """Judge a payload's signature at a place by the keys that are known there, by id. Never raises."""
    if SIGNATURE not in metadata:
        return SignatureCheck(refusal=_NAMES_NO_WORKFLOW if NAMELESS in metadata else "it is not signed")
    named = metadata.get(KEY, b"").decode(errors="replace")
    key = keys.get(named)
    if key is None:
        return SignatureCheck(refusal="it is signed with a key that this node does not have")
    said = {name: value for name, value in metadata.items() if name != SIGNATURE}
    if not hmac.compare_digest(_mac(key, place, said, data).encode(), metadata[SIGNATURE]):
        return SignatureCheck(refusal="its signature is of another payload or another workflow")
    number = metadata.get(NUMBER, b"")
    if not number.isdigit() or len(number) > _LONGEST_NUMBER:
        return SignatureCheck(refusal="its signature has no number")
    return SignatureCheck(metadata.get(PURPOSE, b"").decode(errors="replace"), int(number))


def _mac(key: bytes, place: PayloadPlace, metadata: Mapping[str, bytes], data: bytes) -> str:
    """Return the HMAC over a place, metadata and data."""
    parts = [str(len(metadata)).encode()]
    for name in sorted(metadata):
        parts += (name.encode(), metadata[name])
    parts.append(data)
    mac = _begun(key).copy()
    mac.update(_at(place) + framed(parts))
    return mac.hexdigest()


@lru_cache(maxsize=16)
def _begun(key: bytes) -> hmac.HMAC:
    """Return an HMAC with this key, to be copied: OpenSSL copies an HMAC faster than it makes one."""
    return hmac.new(key, digestmod="sha256")


@lru_cache(maxsize=4096)
def _at(place: PayloadPlace) -> bytes:
    """Return the first parts of the signed bytes: the same for all of a workflow's payloads."""
    texts = (place.namespace, place.workflow_id, place.activity_id, place.activity_type)
    return framed([_VERSION, *(text.encode() for text in texts)])


def framed(parts: Iterable[bytes]) -> bytes:
    """Join parts for a MAC or a cipher, each after its length, so that no other parts give the same bytes."""
    return b"".join([each for part in parts for each in (len(part).to_bytes(8, "big"), part)])
