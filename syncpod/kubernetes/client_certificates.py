"""Certificates by which clients of a node identify themselves: whose one is, and who may issue them.

A kubelet has no client CA unless its configuration names one. Here the kubeconfig's authority is one too, but only if
it has issued the node's own client certificate, which the API server accepts: then it is an authority for clients of
this cluster. If it only vouches for the API server's address, as a company's own authority may, or k3s' `server-ca`,
whoever has a certificate from it could call themselves an administrator of the cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.kubernetes.reviews import User, known_user

_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


def issuer_of_node(config: Kubeconfig) -> str:
    """Return those authorities of a kubeconfig, in PEM, that have issued its client certificate; "" = none.

    Blocks. Raises OSError, ValueError.
    """
    if not config.certificate or not config.authorities:
        return ""
    own = x509.load_pem_x509_certificates(config.certificate.read())
    known = x509.load_pem_x509_certificates(config.authorities.read())
    last = _end_of_chain(own)
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in known if _is_issued_by(last, each))


def _end_of_chain(chain: Sequence[x509.Certificate]) -> x509.Certificate:
    """Return the last certificate of a chain whose each one is issued by the next; it begins with the node's own."""
    last = chain[0]
    for each in chain[1:]:
        if not _is_issued_by(last, each):
            break
        last = each
    return last


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def user_of_certificate(der: bytes, now: datetime) -> User | None:
    """Return whose a client certificate is that TLS has verified; None if it names nobody, or is not valid any more.

    As in x509.CommonNameUserConversion, the common name is the user's and each organization a group.
    """
    certificate = x509.load_der_x509_certificate(der)
    subject = certificate.subject
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[0] or now.astimezone(UTC) > certificate.not_valid_after_utc:
        return None
    groups = tuple(str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    print_ = hashlib.sha256(der).hexdigest()
    return known_user(names[0], groups=groups, extra=((_CREDENTIAL_ID, (f"X509SHA256={print_}",)),))
