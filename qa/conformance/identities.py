"""The certificates of one cluster, and kubeconfigs that contain them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncpod.yaml_text import yaml_text

_LIFE: Final = datetime.timedelta(days=2)
_ADMINISTRATORS: Final = "system:masters"


@dataclass(frozen=True)
class Identity:
    """A certificate and its key as files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority of one run. Files are below `directory`, readable by their owner only."""

    def __init__(self, directory: Path, server: str) -> None:
        """`server` is the URL that kubeconfigs name."""
        self.directory = directory
        self._server = server
        directory.mkdir(mode=0o700, parents=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("syncpod-conformance-ca", ())
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.own = self._write("ca", certificate, self._key)
        self.service_accounts = self._write_key("service-accounts", rsa.generate_private_key(65537, 2048))

    def issue(self, name: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Identity:
        """Issue a client certificate of this user; with `hosts`, a server certificate for these hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(user, groups))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + _LIFE)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), False)
        return self._write(name, builder.sign(self._key, hashes.SHA256()), key)

    def kubeconfig(self, name: str, user: str, groups: Sequence[str] = (_ADMINISTRATORS,)) -> Path:
        """Write a kubeconfig with a new certificate of this user."""
        identity = self.issue(name, user, groups)
        authority = _base64(self.own.certificate)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "run",
            "clusters": [{"name": "run", "cluster": {"server": self._server, "certificate-authority-data": authority}}],
            "contexts": [{"name": "run", "context": {"cluster": "run", "user": name}}],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(identity.certificate),
                        "client-key-data": _base64(identity.key),
                    },
                }
            ],
        }
        path = self.directory / f"{name}.conf"
        _write_private(path, yaml_text(content).encode())
        return path

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
        path = self.directory / f"{name}.crt"
        _write_private(path, certificate.public_bytes(serialization.Encoding.PEM))
        return Identity(path, self._write_key(name, key))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self.directory / f"{name}.key"
        _write_private(path, encoded)
        return path


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
