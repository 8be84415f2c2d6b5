"""Reads messages to a node about its fleet's new key. They must be sealed with the key that the node already trusts."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from syncpod.messages.fleet_objects import FLEET_KEY, SealedKey
from syncpod.messages.sealing import Unsealable, open_sealed, public_key_id
from syncpod.messages.signature import PayloadPlace
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import ReceivedKey

if TYPE_CHECKING:  # it takes 8 MiB of every worker's memory, and most workers belong to no fleet
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

WRONG_KEY = "a key of the invitation is not an elliptic curve key"


def received_key(invitation: Invitation, sealed: SealedKey) -> ReceivedKey:
    """Return the fleet's new key from a message. Raises ValueError, whose text is a clause with the reason."""
    own, fleet = private_key(invitation.key), public_key(invitation.fleet_key)
    said = {name: text.encode() for name, text in sealed.metadata.items()}
    place = PayloadPlace(invitation.node, "", "", FLEET_KEY)
    content = open_sealed([own], [fleet], place, said, decoded(sealed.sealed))
    try:
        document = json.loads(content)
        number, key = document["number"], document["key"]
        public_key(key)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unsealable("it holds no key") from None
    if not isinstance(number, int):
        raise Unsealable("it holds no number")
    return ReceivedKey(number=number, key=key)


def fleet_key_id(invitation: Invitation) -> str:
    """Return the id of the fleet's key that a node trusts; "" if the key is invalid."""
    try:
        return public_key_id(public_key(invitation.fleet_key))
    except ValueError:
        return ""


def private_key(pem: str) -> EllipticCurvePrivateKey:
    """Return a private key from PEM. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem.encode(), None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise Unsealable(WRONG_KEY)
    return key


def public_key(pem: str) -> EllipticCurvePublicKey:
    """Return a public key from PEM. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(pem.encode())
    if not isinstance(key, EllipticCurvePublicKey):
        raise Unsealable(WRONG_KEY)
    return key


def decoded(sealed: str) -> bytes:
    """Return the bytes of a sealed payload from base64. Raises Unsealable."""
    try:
        return base64.b64decode(sealed, validate=True)
    except binascii.Error:
        raise Unsealable("it is not sealed") from None
