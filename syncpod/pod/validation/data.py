"""Checks of ConfigMaps and Secrets."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping

from syncpod.pod.config import ConfigMap, Secret
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax
from syncpod.pod.validation.metadata import check_metadata

_LARGEST = 1024 * 1024


def validate_config_map(config_map: ConfigMap) -> tuple[Problem, ...]:
    """Return what the API server would refuse in a ConfigMap."""
    return tuple(
        (
            *check_metadata(config_map.metadata, "metadata"),
            *_check_keys(config_map.data, "data"),
            *_check_keys(config_map.binary_data, "binaryData"),
            *_check_base64(config_map.binary_data, "binaryData"),
            *(
                Problem(f"binaryData[{key}]", "must not be a key of data too")
                for key in config_map.binary_data
                if key in config_map.data
            ),
            *_check_size(config_map.data.values(), config_map.binary_data.values()),
        )
    )


def validate_secret(secret: Secret) -> tuple[Problem, ...]:
    """Return what the API server would refuse in a Secret; no message shows a value."""
    return tuple(
        (
            *check_metadata(secret.metadata, "metadata"),
            *_check_keys(secret.data, "data"),
            *_check_keys(secret.string_data, "stringData"),
            *_check_base64(secret.data, "data"),
            *_check_size(secret.string_data.values(), secret.data.values()),
        )
    )


def _check_keys(data: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key in data:
        if wrong := syntax.config_key(key):
            yield Problem(f"{path}[{key[:80]}]", wrong)


def _check_base64(data: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key, value in data.items():
        try:
            base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            yield Problem(f"{path}[{key}]", "must be base64")


def _check_size(texts: Iterable[str], encoded: Iterable[str]) -> Iterator[Problem]:
    if sum(len(text.encode()) for text in texts) + sum(len(text) * 3 // 4 for text in encoded) > _LARGEST:
        yield Problem("data", "must be no more than 1 MiB in all")
