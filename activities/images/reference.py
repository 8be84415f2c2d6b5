"""Image names as in the kubelet: checked by the reference grammar, completed with a tag, never with a registry.

Mirrors images/image_manager.go, v1.36, applyDefaultImageTag; the grammar itself is `syncpod.pod.images`.
"""

from __future__ import annotations

import re
from typing import Final

from syncpod.pod import ImageName, parse_image_name

_NAME_LIMIT: Final = 255
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_HEX_ID = re.compile(r"[a-f0-9]{64}")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_LOWER_HEX = re.compile(r"[a-f0-9]+")


class InvalidImage(ValueError):
    """The text is not an image name. The message has the reason, in the words of the reference package."""


def with_default_tag(image: str) -> str:
    """Return `image`, with `:latest` if it has neither tag nor digest. Raises InvalidImage.

    The name itself stays as it was written: the runtime decides what `busybox` stands for.
    """
    name = _parsed(image)
    return image if name.digest or image.endswith(f":{name.tag}") else f"{image}:{name.tag}"


def repository_of(image: str) -> str:
    """Return the repository with its registry (`docker.io/library/busybox`). Raises InvalidImage."""
    return _parsed(image).repository


def _parsed(image: str) -> ImageName:
    name = parse_image_name(image)
    if name is None:
        raise InvalidImage(_objection(image))
    if name.digest:
        _check_digest(name.digest)
    return name


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise InvalidImage("unsupported digest algorithm")
    if len(value) != length:
        raise InvalidImage("invalid checksum digest length")
    if not _LOWER_HEX.fullmatch(value):
        raise InvalidImage("invalid checksum digest format")


def _objection(image: str) -> str:
    """Return why a text is not an image name."""
    if _HEX_ID.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    domain, path = _split_domain(image)
    remote = path.partition(":")[0]
    if remote != remote.lower():
        return f"invalid reference format: repository name ({remote}) must be lowercase"
    repository = remote.partition("@")[0]
    shortened = f"{domain}/a/a{path[len(repository) :]}"
    if len(repository) > _NAME_LIMIT and _REPOSITORY.fullmatch(repository) and parse_image_name(shortened) is not None:
        return f"repository name must not be more than {_NAME_LIMIT} characters"
    return "invalid reference format"


def _split_domain(image: str) -> tuple[str, str]:
    """Split off the registry: a first part without dot, port or capital is part of the path, except `localhost`."""
    first, slash, rest = image.partition("/")
    is_domain = slash and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    domain, path = (first, rest) if is_domain else ("docker.io", image)
    if domain in ("docker.io", "index.docker.io") and "/" not in path:
        path = f"library/{path}"
    return domain, path
