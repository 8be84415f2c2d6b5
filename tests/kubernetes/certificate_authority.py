"""The certificate authority of the scripted cluster."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

_KEY = ec.generate_private_key(ec.SECP256R1())
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])


def _builder(subject: x509.Name, since: timedelta, life: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC) - since
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(_NAME)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now).not_valid_after(now + life)


def authority() -> bytes:
    """The authority's own certificate."""
    builder = _builder(_NAME, timedelta(hours=1), timedelta(days=30)).public_key(_KEY.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def issued(request: str, *, since: timedelta = timedelta(seconds=1), life: timedelta = timedelta(days=365)) -> bytes:
    """The certificate for a request, which is in PEM and base64."""
    asked = x509.load_pem_x509_csr(base64.b64decode(request))
    builder = _builder(asked.subject, since, life).public_key(asked.public_key())
    for extension in asked.extensions:
        builder = builder.add_extension(extension.value, critical=extension.critical)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.PEM)
