"""The files of a node's certificates from its cluster, in its state directory: mode 0600, in a directory of mode 0700.

::

    kubernetes/kubelet.conf          a kubeconfig with the node's identity, also for kubectl
    kubernetes/ca.crt                the authorities of the server's certificate
    kubernetes/client-current.pem    the node's certificate and key
    kubernetes/serving-current.pem   certificate and key of the kubelet's port, if the cluster has issued a certificate
    kubernetes/*-next.key            the key of a request that is not answered yet: a restart continues the request
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kubernetes.certificates import new_key
from syncpod.kubernetes.kubeconfig import Kubeconfig
from syncpod.yaml_text import yaml_text

DIRECTORY: Final = "kubernetes"
_KUBECONFIG, _AUTHORITIES = "kubelet.conf", "ca.crt"


@dataclass(frozen=True)
class CertificateFile:
    """The place of one certificate with its key. All methods block, and raise OSError."""

    path: Path

    @property
    def _next(self) -> Path:
        return self.path.with_name(f"{self.path.name.removesuffix('-current.pem')}-next.key")

    def read(self) -> bytes:
        """Return certificate and key in PEM; b"" if there are none."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def key_of_request(self) -> bytes:
        """Return the key of the request that is under way; a new one if there is none."""
        try:
            return self._next.read_bytes()
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            key = new_key()
            replace_file(self._next, key, durable=True)
            return key

    def keep(self, certificate: bytes, key: bytes) -> None:
        """Replace the certificate and its key, and remove the key of the request, which is over."""
        replace_file(self.path, certificate.rstrip() + b"\n" + key, durable=True)
        self.give_up()

    def give_up(self) -> None:
        """Remove the key of a request that was refused."""
        with contextlib.suppress(FileNotFoundError):
            self._next.unlink()


def client_file(state_dir: Path) -> CertificateFile:
    """Return the place of the node's client certificate."""
    return CertificateFile(state_dir / DIRECTORY / "client-current.pem")


def serving_file(state_dir: Path) -> CertificateFile:
    """Return the place of the node's serving certificate."""
    return CertificateFile(state_dir / DIRECTORY / "serving-current.pem")


def kubeconfig_path(state_dir: Path) -> Path:
    """Return the place of the kubeconfig that a node writes for itself."""
    return state_dir / DIRECTORY / _KUBECONFIG


def write_kubeconfig(state_dir: Path, path: Path, bootstrap: Kubeconfig, authorities: bytes) -> None:
    """Write the node's kubeconfig to `path`. Blocks. Raises OSError.

    `bootstrap` is the kubeconfig that the node has joined with; `authorities` are those of its server, in PEM, or b"".
    """
    directory = state_dir / DIRECTORY
    file, trusted = (
        name if path.parent == directory else str(directory / name)
        for name in (client_file(state_dir).path.name, _AUTHORITIES)
    )
    cluster = {
        "server": bootstrap.server,
        **({"certificate-authority": trusted} if authorities else {}),
        **({"tls-server-name": bootstrap.tls_server_name} if bootstrap.tls_server_name else {}),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "contexts": [{"name": "node", "context": {"cluster": "cluster", "user": "node"}}],
        "users": [{"name": "node", "user": {"client-certificate": file, "client-key": file}}],
    }
    if authorities:
        replace_file(directory / _AUTHORITIES, authorities, durable=True)
    replace_file(path, yaml_text(document), durable=True)
