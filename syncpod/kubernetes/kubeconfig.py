"""Reads a kubeconfig: the address of an API server, and the credentials by which a node identifies itself.

One file is read, as client-go's clientcmd (v0.36) does. A node has a certificate or a token: a kubeconfig that would
run a program for its credentials is refused, with the field's name.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from syncpod.kernel.memory_file import memory_file
from syncpod.kubernetes.json_documents import mapping

_REFUSED = ("exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
"""Fields of a user that are not supported."""
_REFUSED_OF_CLUSTER = ("proxy-url",)
_INSECURE = "insecure-skip-tls-verify"
_NODE_USER = "system:node:"
LARGEST = 1 << 20
"""Maximum bytes of a kubeconfig. With its certificates it has some ten thousand."""


class KubeconfigInvalid(ValueError):
    """A kubeconfig cannot be used; the text is one sentence with the file and the field."""


@dataclass(frozen=True)
class KubeconfigPart:
    """A part of a kubeconfig: text in it, or a file that it names, which may be replaced while the node runs."""

    text: str = ""
    path: Path | None = None

    def __bool__(self) -> bool:
        """Return whether the kubeconfig has this part."""
        return bool(self.text) or self.path is not None

    def read(self) -> bytes:
        """Return its present content. Blocks. Raises OSError."""
        return self.path.read_bytes() if self.path is not None else self.text.encode()


@dataclass(frozen=True)
class Kubeconfig:
    """An API server's address, and the credentials for it."""

    path: Path
    server: str
    """``https://host:port``, without a slash at its end."""
    authorities: KubeconfigPart
    """Certificates, in PEM, of the authorities that may issue the server's certificate; none = those of the system."""
    tls_server_name: str = ""
    """The name that the server's certificate must have; "" = that of `server`."""
    certificate: KubeconfigPart = KubeconfigPart()
    key: KubeconfigPart = field(default=KubeconfigPart(), repr=False)
    token: KubeconfigPart = field(default=KubeconfigPart(), repr=False)
    insecure: bool = False
    """True if the server's certificate is not verified: then anybody on the network path can pose as the server."""


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Return the current context of a kubeconfig. Blocks. Raises KubeconfigInvalid."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise KubeconfigInvalid(f"{path}: {error.strerror}") from None
    if len(text) > LARGEST:
        raise KubeconfigInvalid(f"{path}: larger than {LARGEST >> 20} MiB: not a kubeconfig")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise KubeconfigInvalid(f"{path}: not YAML: must be a kubeconfig") from None
    return _Reading(path, document).kubeconfig()


def read_credentials(config: Kubeconfig) -> tuple[ssl.SSLContext, str]:
    """Return a TLS context with the node's certificate, and the node's token; "" = it has none.

    Blocks. Raises KubeconfigInvalid.
    """
    try:
        authorities = _text_of(config, "certificate-authority", config.authorities) or None
        context = ssl.create_default_context(cadata=authorities)
        if config.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    except (ssl.SSLError, ValueError):
        raise KubeconfigInvalid(f"{config.path}: certificate-authority: must be certificates in PEM") from None
    if config.certificate:
        certificate = _text_of(config, "client-certificate", config.certificate)
        pair = f"{certificate}\n{_text_of(config, 'client-key', config.key)}"
        try:
            # The TLS library reads only files. This one is in memory, and no other process can open it.
            with memory_file(pair) as path:
                context.load_cert_chain(path, password=lambda: "")  # otherwise OpenSSL prompts at the terminal
        except (OSError, ValueError):  # an SSLError is an OSError
            raise KubeconfigInvalid(
                f"{config.path}: client-certificate, client-key: must be a certificate in PEM and its key, unencrypted"
            ) from None
    return context, _text_of(config, "token", config.token).strip()


def require_usable(config: Kubeconfig, node: str) -> None:
    """Raise KubeconfigInvalid if the credentials cannot be read, or are another node's.

    A certificate that names no node, such as an administrator's, passes: the API server decides about it. Blocks.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    read_credentials(config)
    if not config.certificate:
        return
    subject = x509.load_pem_x509_certificate(config.certificate.read()).subject
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    of = next((name.removeprefix(_NODE_USER) for name in names if name.startswith(_NODE_USER)), node)
    if of != node:
        raise KubeconfigInvalid(
            f"{config.path}: client-certificate: is of node {of}, but this node is {node}: give --node={of}"
        )


def _text_of(config: Kubeconfig, name: str, credential: KubeconfigPart) -> str:
    """Return a credential as text. Raises KubeconfigInvalid."""
    try:
        return credential.read().decode()
    except OSError as error:
        raise KubeconfigInvalid(f"{config.path}: {name}: {credential.path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KubeconfigInvalid(f"{config.path}: {name}: {credential.path}: must be text") from None


class _Reading:
    def __init__(self, path: Path, document: Any) -> None:
        self._path = path
        self._document = mapping(document)

    def kubeconfig(self) -> Kubeconfig:
        if self._document.get("kind") != "Config":
            raise self._wrong("kind", "must be Config")
        context = self._named("contexts", "context", self._text(self._document, "", "current-context"))
        cluster_at, cluster = self._of(context, "clusters", "cluster")
        user_at, user = self._of(context, "users", "user")
        self._refuse(cluster_at, cluster, _REFUSED_OF_CLUSTER)
        self._refuse(user_at, user, _REFUSED)
        found = Kubeconfig(
            path=self._path,
            server=self._server(cluster_at, cluster),
            authorities=self._credential(cluster_at, cluster, "certificate-authority", is_base64=True),
            tls_server_name=self._text(cluster, cluster_at, "tls-server-name", required=False),
            certificate=self._credential(user_at, user, "client-certificate", is_base64=True),
            key=self._credential(user_at, user, "client-key", is_base64=True),
            token=self._token(user_at, user),
            insecure=self._insecure(cluster_at, cluster),
        )
        if found.insecure and found.authorities:
            raise self._wrong(f"{cluster_at}.{_INSECURE}", "no certificate-authority may stand beside it")
        if bool(found.certificate) != bool(found.key):
            missing = "client-key" if found.certificate else "client-certificate"
            raise self._wrong(f"{user_at}.{missing}", "required beside the other half of the pair")
        if not found.certificate and not found.token:
            raise self._wrong(user_at, "needs client-certificate and client-key, or a token")
        return found

    def _of(self, context: tuple[str, Mapping[str, Any]], names: str, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the cluster or the user that the context names, with its path."""
        at, content = context
        return self._named(names, name, self._text(content, at, name))

    def _named(self, names: str, name: str, wanted: str) -> tuple[str, Mapping[str, Any]]:
        """Return the path and content of a list's entry with this name."""
        entries = self._document.get(names)
        entries = entries if isinstance(entries, Sequence) and not isinstance(entries, str) else ()
        for at, entry in enumerate(entries):
            if isinstance(entry, Mapping) and entry.get("name") == wanted:
                return f"{names}[{at}].{name}", mapping(entry.get(name))
        raise self._wrong(names, f"must have one with the name {wanted!r}")

    def _refuse(self, at: str, content: Mapping[str, Any], names: Sequence[str]) -> None:
        if given := [name for name in names if content.get(name)]:
            raise self._wrong(f"{at}.{given[0]}", "not supported: a node identifies itself by a certificate or a token")

    def _insecure(self, at: str, content: Mapping[str, Any]) -> bool:
        value = content.get(_INSECURE) or False
        if not isinstance(value, bool):
            raise self._wrong(f"{at}.{_INSECURE}", "must be true or false")
        return value

    def _server(self, at: str, content: Mapping[str, Any]) -> str:
        server = self._text(content, at, "server").rstrip("/")
        parts = urlsplit(server)
        if parts.scheme != "https" or not parts.hostname:
            raise self._wrong(f"{at}.server", f"must be https://HOST[:PORT], not {server!r}")
        return server

    def _credential(self, at: str, content: Mapping[str, Any], name: str, *, is_base64: bool) -> KubeconfigPart:
        """Return a credential given as data, which has precedence, or as a file beside the kubeconfig."""
        data = self._text(content, at, f"{name}-data", required=False)
        if data:
            try:
                return KubeconfigPart(base64.b64decode(data, validate=True).decode() if is_base64 else data)
            except (binascii.Error, UnicodeDecodeError):
                raise self._wrong(f"{at}.{name}-data", "must be PEM in base64") from None
        file = self._text(content, at, name, required=False)
        return KubeconfigPart(path=self._path.parent / file) if file else KubeconfigPart()

    def _token(self, at: str, content: Mapping[str, Any]) -> KubeconfigPart:
        """Return the token; as in client-go, a file with a token has precedence."""
        if file := self._text(content, at, "tokenFile", required=False):
            return KubeconfigPart(path=self._path.parent / file)
        return KubeconfigPart(self._text(content, at, "token", required=False))

    def _text(self, content: Mapping[str, Any], at: str, name: str, *, required: bool = True) -> str:
        value = content.get(name) or ""
        path = f"{at}.{name}" if at else name
        if not isinstance(value, str):
            raise self._wrong(path, "must be a text")
        if required and not value:
            raise self._wrong(path, "required")
        return value

    def _wrong(self, path: str, why: str) -> KubeconfigInvalid:
        return KubeconfigInvalid(f"{self._path}: {path}: {why}")
