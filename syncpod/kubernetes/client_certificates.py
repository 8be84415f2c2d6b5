"""Client certificates at a node's kubelet port: the users that they name, and the authorities that may issue them.

A kubelet has no client CA unless its configuration names one. Here the kubeconfig's authority is a client CA too, but
only if it has issued the node's own client certificate, which the API server accepts: then it is an authority for
clients of this cluster. Other authorities, such as a company's own or k3s' `server-ca`, only vouch for the API server's
address: anybody with a certificate from one of them could otherwise claim to be an administrator of the cluster.
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
    """Return the authorities of a kubeconfig that have issued its client certificate, in PEM; "" = none.

    Blocks. Raises OSError, ValueError.
    """
    if not config.certificate or not config.authorities:
        return ""
    own = x509.load_pem_x509_certificates(config.certificate.read())
    known = x509.load_pem_x509_certificates(config.authorities.read())
    last = _end_of_chain(own)
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in known if _is_issued_by(last, each))


def _end_of_chain(chain: Sequence[x509.Certificate]) -> x509.Certificate:
    """Return the last certificate of a chain that begins with the node's own, each issued by the next."""
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
    """Return the user of a client certificate that TLS has verified; None if it names no user, or has expired.

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
