"""Checks that the parts of an invitation fit together: a damaged invitation must not replace one that works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from syncpod.gate.authority import gate_name, node_of
from syncpod.settings.invitation import Invitation
from syncpod.settings.values import SettingsInvalid

_DAMAGED = "take the file that `syncpod fleet invite` has written again, unchanged"


def require_fitting(invitation: Invitation) -> int:
    """Check that an invitation's certificate, keys, authorities and names belong together; return the serial number.

    The serial number is the certificate's. The certificate may have expired. Raises SettingsInvalid with one sentence,
    which begins with the field that is wrong.
    """
    authorities = _authorities(invitation.authorities)
    certificate = _certificate(invitation.certificate)
    if not any(_has_issued(authority, certificate) for authority in authorities):
        raise SettingsInvalid(f"certificate: it was not issued by an authority of the invitation: {_DAMAGED}")
    if node_of(certificate, invitation.fleet) is None:
        raise SettingsInvalid(f"fleet: the certificate is not that of a node of fleet {invitation.fleet}: {_DAMAGED}")
    if node_of(certificate, invitation.fleet) != invitation.node:
        raise SettingsInvalid(f"node: the certificate is not that of node {invitation.node}: {_DAMAGED}")
    if _key(invitation.key).public_key() != certificate.public_key():
        raise SettingsInvalid(f"key: is not that of the certificate: {_DAMAGED}")
    _require_fleet_key(invitation.fleet_key)
    if invitation.server_name != gate_name(invitation.fleet):
        raise SettingsInvalid(f"server_name: must be {gate_name(invitation.fleet)}, the name of the fleet's gate")
    return certificate.serial_number


def require_not_expired(invitation: Invitation, now: datetime) -> None:
    """Check that the certificate of an invitation has not expired. The invitation has passed `require_fitting`.

    Raises SettingsInvalid.
    """
    ends = _certificate(invitation.certificate).not_valid_after_utc
    if ends <= now:
        raise SettingsInvalid(
            f"certificate: has expired at {ends:%Y-%m-%dT%H:%M:%SZ}, and it is {now:%Y-%m-%dT%H:%M:%SZ} on this "
            "machine: invite the node anew"
        )


def _authorities(pem: str) -> Sequence[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        found = []
    _require_same("authorities", pem, "".join(_pem(each) for each in found))
    if not all(_has_issued(each, each) for each in found):
        raise SettingsInvalid(f"authorities: one is damaged: {_DAMAGED}")
    return found


def _certificate(pem: str) -> x509.Certificate:
    try:
        found = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise SettingsInvalid(f"certificate: is damaged: {_DAMAGED}") from None
    _require_same("certificate", pem, _pem(found))
    return found


def _key(pem: str) -> EllipticCurvePrivateKey:
    try:
        found = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError):  # TypeError: the key is encrypted
        found = None
    if not isinstance(found, EllipticCurvePrivateKey):
        raise SettingsInvalid(f"key: is damaged: {_DAMAGED}")
    _require_same("key", pem, found.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    return found


def _require_fleet_key(pem: str) -> None:
    try:
        found = load_pem_public_key(pem.encode())
    except ValueError:
        found = None
    if not isinstance(found, EllipticCurvePublicKey) or not isinstance(found.curve, SECP256R1):
        raise SettingsInvalid(f"fleet_key: is damaged: {_DAMAGED}")
    _require_same("fleet_key", pem, found.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def _require_same(field: str, pem: str, read: str) -> None:
    """Check that a field is exactly the PEM of the object read from it: parsers of PEM skip damage differently."""
    if not read or pem.strip() != read.strip():
        raise SettingsInvalid(f"{field}: is damaged: {_DAMAGED}")


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
