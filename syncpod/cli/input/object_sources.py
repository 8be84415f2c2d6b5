"""Builds ConfigMaps and Secrets from literals, files and env files, by kubectl's rules.

Mirrors kubectl's pkg/cmd/create and pkg/util, v1.36: configmap.go, secret.go, env_file.go.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.pod import ConfigMap, ObjectMeta, Secret
from syncpod.pod.validation import syntax

DOCKER_CONFIG_TYPE: Final = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG: Final = ".dockerconfigjson"
TLS_TYPE: Final = "kubernetes.io/tls"


def collected(literals: Sequence[str], files: Sequence[str], env_files: Sequence[str]) -> dict[str, bytes]:
    """Return the values by key of ``--from-literal``, ``--from-file`` and ``--from-env-file``.

    Blocks. Raises BadInput, with no value in it.
    """
    if env_files and (literals or files):
        raise BadInput("--from-env-file does not go together with --from-file or --from-literal")
    found: dict[str, bytes] = {}
    for key, value in (
        *(_literal(text) for text in literals),
        *(pair for text in files for pair in _files(text)),
        *(pair for name in env_files for pair in _variables(name)),
    ):
        if wrong := syntax.config_key(key):
            raise BadInput(f"key {key[:80]!r}: {wrong}")
        if key in found:
            raise BadInput(f"key {key!r} is given twice")
        found[key] = value
    return found


def config_map_of(name: str, namespace: str, found: dict[str, bytes]) -> ConfigMap:
    """Return a ConfigMap with these values: UTF-8 text as ``data``, others as ``binaryData``."""
    data, binary = {}, {}
    for key, value in found.items():
        try:
            data[key] = value.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(value).decode()
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data, binary_data=binary)


def secret_of(name: str, namespace: str, kind: str, found: dict[str, bytes]) -> Secret:
    """Return a Secret with these values; `kind` is its type, "" = ``Opaque``."""
    data = {key: base64.b64encode(value).decode() for key, value in found.items()}
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=data, type=kind or "Opaque")


def docker_config(server: str, user: str, password: str, email: str) -> bytes:
    """Return the ``.dockerconfigjson`` for one registry."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    entry = {"username": user, "password": password, "email": email, "auth": auth}
    return json.dumps({"auths": {server: {key: text for key, text in entry.items() if text}}}).encode()


def require_pair(certificate: bytes, key: bytes) -> None:
    """Raise BadInput unless these are a PEM certificate and its private key without a pass phrase."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    held = []
    try:
        for content in (certificate, key):
            held.append(os.memfd_create("pem"))
            with os.fdopen(held[-1], "wb", closefd=False) as file:
                file.write(content)
        at, under = (f"/proc/self/fd/{number}" for number in held)
        context.load_cert_chain(at, under, password=lambda: "")
    except (ssl.SSLError, ValueError):
        raise BadInput("--cert and --key: must be a PEM certificate and the private key that belongs to it") from None
    finally:
        for number in held:
            os.close(number)


def read(path: str, flag: str) -> bytes:
    """Return a file's content. Raises BadInput."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{flag}: {path}: {error.strerror}") from None


def _literal(text: str) -> tuple[str, bytes]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise BadInput("--from-literal: must be KEY=VALUE")  # do not repeat it: it may be secret
    return key, value.strip("\"'").encode()


def _files(text: str) -> Iterator[tuple[str, bytes]]:
    """Read ``[KEY=]FILE``, or a directory: the name of each regular file is the key of its content."""
    key, sign, name = text.partition("=")
    if not sign:
        key, name = "", text
    elif not key or not name or "=" in name:
        raise BadInput(f"--from-file: {text!r} must be FILE, KEY=FILE or a directory, with no other '='")
    if not name:
        raise BadInput("--from-file: the name of a file is missing")
    path = Path(name)
    if not path.is_dir():
        yield key or path.name, read(name, "--from-file")
    elif key:
        raise BadInput(f"--from-file: {text!r}: a directory takes no key; the names of its files are keys")
    else:
        # Symlinks are skipped, as by kubectl: mounted ConfigMaps are full of them.
        for file in sorted(file for file in path.iterdir() if file.is_file() and not file.is_symlink()):
            yield file.name, read(str(file), "--from-file")


def _variables(name: str) -> Iterator[tuple[str, bytes]]:
    """Read lines of ``NAME=value``; a name alone takes its value from the environment."""
    try:
        text = read(name, "--from-env-file").decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise BadInput(f"--from-env-file: {name}: must be UTF-8 text") from None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r").lstrip()
        if not line or line.startswith("#"):
            continue
        key, sign, value = line.partition("=")
        if not key or syntax.env_name(key):
            raise BadInput(f"--from-env-file: {name}, line {number}: must begin with the name of a variable and '='")
        yield key, (value if sign else os.environ.get(key, "")).encode()
