"""Certificates that a node requests from its cluster: keys, requests, and when to replace one. Values in, values out.

Mirrors client-go's util/certificate (v0.36), certificate_manager.go and csr/csr.go, and the kubelet's
pkg/kubelet/certificate. Keys are ECDSA P-256, as there.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from syncpod.kubernetes.json_documents import mapping, mappings

NODES_GROUP: Final = "system:nodes"
NODE_USER: Final = "system:node:"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
_USAGES: Final = {
    CLIENT_SIGNER: ("digital signature", "client auth"),
    SERVING_SIGNER: ("digital signature", "server auth"),
}
"""The usages that a signer grants for an ECDSA key, which cannot encipher another key."""
_RSA_BITS: Final = {"RSA3072": 3072, "RSA4096": 4096}
_CURVES: Final[Mapping[str, ec.EllipticCurve]] = {
    "ECDSAP256": ec.SECP256R1(),
    "ECDSAP384": ec.SECP384R1(),
    "ECDSAP521": ec.SECP521R1(),
}
EARLIEST_ROTATION, LATEST_ROTATION = 0.7, 0.9
"""The fraction of its life after which a certificate is replaced: a random number between these two."""


class CertificateInvalid(ValueError):
    """A certificate cannot be used; the text is a clause that says why."""


@dataclass(frozen=True)
class WantedCertificate:
    """A certificate that a node requests."""

    node: str
    signer: str
    names: tuple[str, ...] = ()
    """Names of the machine, for a serving certificate."""
    addresses: tuple[str, ...] = ()


def new_key() -> bytes:
    """Return a new private key in PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_and_request(key_type: str) -> tuple[str, bytes]:
    """Return a new private key of a type that a pod names, in PEM, and an empty PKCS#10 request that proves it, in DER.

    Mirrors podcertificatemanager.go, v1.36, generateKeyAndProof. Raises ValueError for an unknown type.
    """
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
    if key_type in _RSA_BITS:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS[key_type])
    elif key_type in _CURVES:
        key = ec.generate_private_key(_CURVES[key_type])
    elif key_type == "ED25519":
        key = ed25519.Ed25519PrivateKey.generate()
    else:
        raise ValueError(f"unknown key type {key_type!r}")
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text, request.public_bytes(Encoding.DER)


def request_document(wanted: WantedCertificate, key: bytes) -> dict[str, Any]:
    """Return the CertificateSigningRequest for a key in PEM. Raises ValueError if `key` is no ECDSA key.

    The name is a hash of the public key and of the wanted certificate. So a repeated request has the same name.
    """
    private = _private(key)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODES_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{NODE_USER}{wanted.node}"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if wanted.names or wanted.addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(wanted)), critical=False)
    request = builder.sign(private, hashes.SHA256()).public_bytes(Encoding.PEM)
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    identity = "\0".join((wanted.node, wanted.signer, *wanted.names, *wanted.addresses)).encode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"node-csr-{hashlib.sha256(public + identity).hexdigest()[:43]}"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": wanted.signer,
            "usages": list(_USAGES[wanted.signer]),
        },
    }


def _alternatives(wanted: WantedCertificate) -> list[x509.GeneralName]:
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in wanted.addresses]
    return [*(x509.DNSName(each) for each in wanted.names), *addresses]


def answered(request: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the certificate that a request has received (b"" = none yet), and why it was refused ("" = it was not)."""
    status = mapping(request.get("status"))
    for each in mappings(status.get("conditions")):
        if each.get("type") in ("Denied", "Failed"):
            why = ": ".join(str(each[part]) for part in ("reason", "message") if each.get(part))
            return b"", f"{each['type'].lower()}{f' ({why})' if why else ''}"
    try:
        return base64.b64decode(str(status.get("certificate") or ""), validate=True), ""
    except ValueError:
        return b"", "the certificate is not in base64"


def require_ours(certificate: bytes, key: bytes, wanted: WantedCertificate) -> None:
    """Raise CertificateInvalid unless a certificate in PEM is for this key and matches `wanted`."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise CertificateInvalid("the issued certificate is not in PEM") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if found.public_key().public_bytes(*form) != _private(key).public_key().public_bytes(*form):
        raise CertificateInvalid("the certificate that was issued is for another key")
    if (node := node_of(certificate)) != wanted.node:
        raise CertificateInvalid(f"the certificate that was issued is for {f'node {node}' if node else 'no node'}")


def node_of(pair: bytes) -> str:
    """Return the node that the first certificate of a PEM identifies; "" if it is no node's. Raises ValueError."""
    subject = x509.load_pem_x509_certificate(pair).subject
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return next((name.removeprefix(NODE_USER) for name in names if name.startswith(NODE_USER)), "")


def life_of(pair: bytes) -> tuple[datetime, datetime]:
    """Return the begin and the end of the validity of a PEM's first certificate. Raises ValueError."""
    certificate = x509.load_pem_x509_certificate(pair)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def rotation_due(pair: bytes, chance: float) -> datetime:
    """Return when to replace the first certificate of a PEM; `chance` is from 0 to 1. Raises ValueError."""
    begins, ends = life_of(pair)
    return begins + (ends - begins) * (EARLIEST_ROTATION + (LATEST_ROTATION - EARLIEST_ROTATION) * chance)


def is_for(pair: bytes, names: Sequence[str], addresses: Sequence[str]) -> bool:
    """Return whether a certificate in PEM has exactly these names and addresses."""
    wanted = WantedCertificate(node="", signer="", names=tuple(names), addresses=tuple(addresses))
    try:
        extensions = x509.load_pem_x509_certificate(pair).extensions
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return set(found) == set(_alternatives(wanted))


def _private(key: bytes) -> ec.EllipticCurvePrivateKey:
    found = load_pem_private_key(key, password=None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("no key of ECDSA")
    return found
