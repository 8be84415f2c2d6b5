"""Makes or requests the serving certificate of the kubelet's port, and makes its TLS context.

Like a kubelet without TLS bootstrap, the node makes a self-signed certificate. An API server verifies it only with
`--kubelet-certificate-authority`. The certificate is kept on disk for the next worker. With serverTLSBootstrap, the
node requests a certificate from the cluster, and rotates it (pkg/kubelet/certificate/kubelet.go, v1.36,
NewKubeletServerCertificateManager). Difference: until the first request is approved, the port has the node's
self-signed certificate, while a kubelet refuses every connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncpod.agent.node_workflow.status import engine_version
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.memory_file import memory_file
from syncpod.kubernetes.certificate_files import serving_file
from syncpod.kubernetes.certificate_rotation import Rotation
from syncpod.kubernetes.certificates import SERVING_SIGNER, WantedCertificate
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import Kubeconfig

FILE_NAME: Final = "kubelet-serving.pem"
_VALID: Final = timedelta(days=365)
_RENEWED_BEFORE: Final = timedelta(days=30)
_COMMON_NAME_BYTES: Final = 64


def own_pair(state_dir: Path, node: str, addresses: Sequence[str], now: datetime) -> str:
    """Return the node's own certificate and its key in PEM, from its state directory.

    A new one is made if there is none, if it expires within 30 days, or if name or addresses have changed.
    Blocks. Raises OSError.
    """
    path = state_dir / FILE_NAME
    try:
        text = path.read_text()
        if not path.stat().st_mode & 0o077 and _is_good(text, node, addresses, now):
            return text
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    text = _made(node, addresses, now)
    replace_file(path, text, durable=True)
    return text


def _is_good(text: str, node: str, addresses: Sequence[str], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(text.encode())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    same = set(names) == set(_names(node, addresses))
    return same and "PRIVATE KEY" in text and now + _RENEWED_BEFORE < certificate.not_valid_after_utc


def _names(node: str, addresses: Sequence[str]) -> list[x509.GeneralName]:
    return [x509.DNSName(node), *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses)]


def _made(node: str, addresses: Sequence[str], now: datetime) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = f"{node}@{int(now.timestamp())}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[-_COMMON_NAME_BYTES:])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - timedelta(hours=1))
        .not_valid_after(now.astimezone(UTC) + _VALID)
        .add_extension(x509.SubjectAlternativeName(_names(node, addresses)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode() + private.decode()


def tls(pair: str, client_authorities: str) -> ssl.SSLContext:
    """Return the TLS context of a server with this certificate and key in PEM.

    Clients may present a certificate of `client_authorities`, in PEM; "" = none is requested. Raises ssl.SSLError,
    OSError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would reuse its client certificate, even if that has expired.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    with memory_file(pair) as path:
        context.load_cert_chain(path, password=lambda: "")  # else OpenSSL prompts at the terminal
    if client_authorities:
        context.load_verify_locations(cadata=client_authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class ServingRotation:
    """Requests and rotates the certificate of one node's port."""

    def __init__(
        self, config: Kubeconfig, node: str, addresses: Sequence[str], state_dir: Path, context: ssl.SSLContext
    ) -> None:
        """Request a certificate for name and addresses from the cluster of `config`, and put it into `context`."""
        self._config, self._context = config, context
        self._certificate = WantedCertificate(node, SERVING_SIGNER, (node,), tuple(addresses))
        self._file = serving_file(state_dir)

    async def run(self) -> None:
        """Keep the certificate valid until cancelled."""
        async with ApiClient(self._config, user_agent=f"syncpod/{engine_version()}") as client:
            await Rotation(client, self._file, self._wanted, replaced=self._use).run()

    async def _wanted(self) -> WantedCertificate:
        return self._certificate

    async def _use(self) -> None:
        """Use the certificate in the file for new connections."""
        pair = (await asyncio.to_thread(self._file.read)).decode()
        with memory_file(pair) as path:
            self._context.load_cert_chain(path, password=lambda: "")  # else OpenSSL prompts at the terminal
