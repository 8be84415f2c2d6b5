"""Selects the credentials to try for an image, from docker's configuration of registries.

Mirrors credentialprovider/keyring.go, config.go and secrets/secrets.go, v1.36. Pure. No error's text and no record's
`repr` shows a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from syncpod.pod.go_text import go_json

SECRET_KEYS: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
"""Types of Secrets that hold credentials for registries, and the key under which each holds them."""

DEFAULT_REGISTRY: Final = "index.docker.io"
"""The key of docker's credentials for images whose names have no registry."""


class DockerConfigInvalid(ValueError):
    """The text is not a valid docker configuration. The error names the fault without showing the text."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The Secret that credentials come from."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials for one registry: user name and password, and where they come from."""

    username: str
    password: str = field(repr=False)
    email: str = field(default="", repr=False)
    source: SecretSource | None = None
    """The Secret that holds the credentials; None if they are the node's own, which every pod on it may use."""

    @property
    def hash(self) -> str:
        """Identifies the credentials without showing them: SHA-256 in hex, as in the kubelet's records."""
        said = {"username": self.username, "password": self.password, "email": self.email}
        return hashlib.sha256(go_json({name: word for name, word in said.items() if word}).encode()).hexdigest()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error may show: the password, and its form in an HTTP header."""
        encoded = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return (self.password, encoded) if self.password else ()


class Keyring:
    """Credentials by registry, the most specific first."""

    def __init__(self, credentials: Iterable[tuple[str, Credential]] = ()) -> None:
        """Take pairs of a registry, in the spelling of docker's configuration, and its credentials.

        As in the kubelet, a registry that is not an address is left out. Two entries for one registry keep their order,
        which is random in the kubelet.
        """
        found: dict[str, list[Credential]] = {}
        for registry, credential in credentials:
            key = _index_key(registry)
            if key is not None:
                found.setdefault(key, []).append(credential)
        # The order is reversed, so that `quay.io/coreos` stands before `quay.io`.
        self._credentials = {key: tuple(found[key]) for key in sorted(found, reverse=True)}

    def lookup(self, repository: str) -> tuple[Credential, ...]:
        """Return the credentials to try for a repository (`docker.io/library/nginx`), in order; there may be none.

        The credentials of docker's default registry are tried if no other entry matches.
        """
        fitting = [
            each for key, credentials in self._credentials.items() if _matches(key, repository) for each in credentials
        ]
        if not fitting and _is_default_registry(repository):
            return self._credentials.get(DEFAULT_REGISTRY, ())
        return tuple(fitting)


def credentials_in(
    text: bytes, *, legacy: bool = False, source: SecretSource | None = None
) -> list[tuple[str, Credential]]:
    """Return the registries and credentials in a docker configuration, in its order.

    The text is a `config.json`, of which only `auths` is read. With `legacy` it is a `.dockercfg`, which has just the
    content of `auths`. Credential helpers and stores are not used. Raises DockerConfigInvalid.
    """
    document = _object(_parsed(text), "it")
    auths = document if legacy else _object(_member(document, "auths"), "auths")
    return [(registry, _credential(entry, source)) for registry, entry in auths.items()]


def credentials_in_secret(
    secret_type: str, values: Mapping[str, bytes], source: SecretSource
) -> list[tuple[str, Credential]]:
    """Return the registries and credentials in a Secret. Raises DockerConfigInvalid, also for a Secret of another type.

    Difference: a Secret of another type, or without its key, is reported in an event; the kubelet ignores the Secret.
    """
    key = SECRET_KEYS.get(secret_type)
    if key is None:
        raise DockerConfigInvalid(f"its type is {secret_type}, not {' or '.join(SECRET_KEYS)}")
    if not values.get(key):
        raise DockerConfigInvalid(f"it has no {key}")
    return credentials_in(values[key], legacy=key == ".dockercfg", source=source)


# --- docker's configuration -------------------------------------------------------------------------------------------


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DockerConfigInvalid("it is not JSON") from None


def _object(value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object; null is an empty one, as Go reads it."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DockerConfigInvalid(f"{what} must be an object")
    return value


def _member(document: dict[str, Any], name: str) -> Any:
    """Return a member of an object. Its name is compared without case, as in Go; the last of several counts."""
    return next((document[key] for key in reversed(document) if key.lower() == name), None)


def _credential(entry: Any, source: SecretSource | None) -> Credential:
    said = _object(entry, "an entry")
    words = {name: _member(said, name) or "" for name in ("username", "password", "email", "auth")}
    for name, word in words.items():
        if not isinstance(word, str):
            raise DockerConfigInvalid(f"{name} of an entry must be a string")
    if words["auth"]:
        words["username"], words["password"] = _decoded(words["auth"])
    return Credential(words["username"], words["password"], words["email"], source)


def _decoded(auth: str) -> tuple[str, str]:
    """Return user name and password from an `auth` field, which is base64 with or without padding."""
    encoded = auth.translate({ord("\r"): None, ord("\n"): None})
    if not encoded.endswith("="):
        encoded += "=" * (-len(encoded) % 4)
    try:
        username, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise DockerConfigInvalid("auth of an entry must be base64 of name:password") from None
    if not colon:
        raise DockerConfigInvalid("auth of an entry must be base64 of name:password")
    return username, password


# --- matching ---------------------------------------------------------------------------------------------------------


def _index_key(registry: str) -> str | None:
    """Return host, port and path of a registry: without its scheme, and without docker's `/v1/` or `/v2/`."""
    address = _address(registry if registry.startswith(("https://", "http://")) else f"https://{registry}")
    if address is None:
        return None
    path = unquote(address.path)
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    return _host(address) + (path if path != "/" else "")


def _matches(key: str, repository: str) -> bool:
    """Return whether a registry's key covers a repository (URLsMatch).

    The ports must be equal. The hosts must have the same number of labels, and each label must match; `*` stands for
    any characters within one label. The key's path must be a prefix of the repository's, even if it ends within a name.

    Difference: `[::1]` without a port matches itself; the kubelet treats its brackets as a set of characters.
    """
    wanted, found = _address(f"https://{key}"), _address(f"https://{repository}")
    if wanted is None or found is None or not unquote(found.path).startswith(unquote(wanted.path)):
        return False
    (wanted_labels, wanted_port), (found_labels, found_port) = (_labels(_host(each)) for each in (wanted, found))
    return (
        wanted_port == found_port
        and len(wanted_labels) == len(found_labels)
        and all(_fits(pattern, label) for pattern, label in zip(wanted_labels, found_labels, strict=True))
    )


def _fits(pattern: str, label: str) -> bool:
    """Return whether a label matches a pattern, without backtracking."""
    first, *between = pattern.split("*")
    if not between:
        return label == pattern
    last = between.pop()
    if not (label.startswith(first) and label.endswith(last) and len(label) >= len(first) + len(last)):
        return False
    here, end = len(first), len(label) - len(last)
    for part in between:
        found = label.find(part, here, end)
        if found < 0:
            return False
        here = found + len(part)
    return True


def _address(text: str) -> SplitResult | None:
    """Split an address; None if Go's net/url would refuse it."""
    try:
        address = urlsplit(text)
        address.port  # noqa: B018 # raises if the port is not a number
    except ValueError:
        return None
    return None if re.search(r"[\s\x00-\x1f\x7f\\^`{|}]", address.netloc) else address


def _host(address: SplitResult) -> str:
    return address.netloc.rpartition("@")[2]


def _labels(host: str) -> tuple[list[str], str]:
    """Return a host's labels, and its port or ""."""
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.strip("[]").split("."), port


def _is_default_registry(repository: str) -> bool:
    """Return whether an image of this name comes from docker's default registry (isDefaultRegistryMatch)."""
    first, slash, _ = repository.partition("/")
    if not first:
        return False
    return not slash or first in ("docker.io", DEFAULT_REGISTRY) or not ("." in first or ":" in first)
