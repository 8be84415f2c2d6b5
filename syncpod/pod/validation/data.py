"""Checks of ConfigMaps and Secrets."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping

from syncpod.pod.kinds import ConfigMap, Secret
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax
from syncpod.pod.validation.metadata import check_object_metadata

_LARGEST = 1024 * 1024
"""The most bytes of an object's values (MaxSecretSize); keys do not count."""

_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that a Secret must have, by type."""
_JSON = (".dockercfg", ".dockerconfigjson")
_BASIC_AUTH = "kubernetes.io/basic-auth"
_BASIC_AUTH_KEYS = ("username", "password")


def validate_config_map(config_map: ConfigMap) -> tuple[Problem, ...]:
    """Return the API server's objections to a ConfigMap (apis/core/validation.go, v1.36, ValidateConfigMap)."""
    decoded, encoding = _decoded(config_map.binary_data, "binaryData")
    return tuple(
        (
            *check_object_metadata(config_map.metadata, "metadata"),
            *_check_keys(config_map.data, "data"),
            *_check_keys(config_map.binary_data, "binaryData"),
            *encoding,
            *(
                Problem(f"data[{key}]", "must not be a key of binaryData too")
                for key in config_map.data
                if key in config_map.binary_data
            ),
            *_check_size([*(text.encode() for text in config_map.data.values()), *decoded.values()]),
        )
    )


def validate_secret(secret: Secret) -> tuple[Problem, ...]:
    """Return the mistakes that the API server would refuse in a Secret; no message shows a value.

    The check applies to the result, with ``stringData`` merged over ``data`` (apis/core/validation.go, v1.36,
    ValidateSecret).
    """
    decoded, encoding = _decoded(secret.data, "data")
    decoded |= {key: text.encode() for key, text in secret.string_data.items()}
    return tuple(
        (
            *check_object_metadata(secret.metadata, "metadata"),
            *_check_keys(secret.data, "data"),
            *_check_keys(secret.string_data, "stringData"),
            *encoding,
            *_check_size(decoded.values()),
            *(() if encoding else _check_type(secret, decoded)),
        )
    )


def _check_keys(data: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key in data:
        if wrong := syntax.config_key(key):
            yield Problem(f"{path}[{key[:80]}]", wrong)


def _decoded(data: Mapping[str, str], path: str) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the bytes by key, and a problem for each value that is not base64.

    As in Go's decoder, only line ends are ignored.
    """
    decoded: dict[str, bytes] = {}
    problems = []
    for key, value in data.items():
        text = value.replace("\n", "").replace("\r", "")
        try:
            if len(text) % 4:  # Python ignores an extra '='
                raise ValueError
            decoded[key] = base64.b64decode(text, validate=True)
        except ValueError:
            problems.append(Problem(f"{path}[{key[:80]}]", "must be base64"))
    return decoded, problems


def _check_size(values: Iterable[bytes]) -> Iterator[Problem]:
    if sum(map(len, values)) > _LARGEST:
        yield Problem("data", "must be no more than 1 MiB in all")


def _check_type(secret: Secret, values: Mapping[str, bytes]) -> Iterator[Problem]:
    """Check that a Secret of a known type has its required keys; other types may hold anything."""
    for key in _REQUIRED.get(secret.type, ()):
        # The API server accepts an empty certificate and an empty user name, but not an empty private key.
        if key not in values or (key == "ssh-privatekey" and not values[key]):
            yield Problem(f"data[{key}]", f"required with type {secret.type}")
        elif key in _JSON and not _is_json_object(values[key]):
            yield Problem(f"data[{key}]", "must be a JSON object")
    if secret.type == _BASIC_AUTH and not any(key in values for key in _BASIC_AUTH_KEYS):
        yield Problem("data", f"must have username or password with type {secret.type}")
    if secret.type == "kubernetes.io/service-account-token" and not secret.metadata.annotations.get(_SERVICE_ACCOUNT):
        yield Problem(f"metadata.annotations[{_SERVICE_ACCOUNT}]", f"required with type {secret.type}")


def _is_json_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
