"""Image names as the kubelet takes them: checked by the reference grammar, completed with a tag, never qualified.

Mirrors images/image_manager.go, v1.36, applyDefaultImageTag, and the grammar of distribution's reference package.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_TAG: Final = "latest"

_NAME_LIMIT: Final = 255
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_HEX_ID = re.compile(r"[a-f0-9]{64}")


class InvalidImage(ValueError):
    """The text is no image's name; says why in the words of the reference package."""


def with_default_tag(image: str) -> str:
    """Return `image`, with `:latest` if it has neither tag nor digest. Raises InvalidImage.

    The name itself stays as it was written: what `busybox` stands for is the runtime's business.
    """
    if _HEX_ID.fullmatch(image):
        raise InvalidImage(f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings")
    domain, path = _split_domain(image)
    repository = re.split("[:@]", path, maxsplit=1)[0]
    if repository != repository.lower():
        raise InvalidImage(f"invalid reference format: repository name ({repository}) must be lowercase")
    found = _REFERENCE.fullmatch(f"{domain}/{path}")
    if found is None:
        raise InvalidImage("invalid reference format")
    if len(repository) > _NAME_LIMIT:
        raise InvalidImage(f"repository name must not be more than {_NAME_LIMIT} characters")
    return image if found["tag"] or found["digest"] else f"{image}:{DEFAULT_TAG}"


def _split_domain(image: str) -> tuple[str, str]:
    """Tell the registry from the path: a first part without dot, port or capital is none, `localhost` apart."""
    first, slash, rest = image.partition("/")
    is_domain = slash and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    domain, path = (first, rest) if is_domain else ("docker.io", image)
    if domain == "index.docker.io":
        domain = "docker.io"
    if domain == "docker.io" and "/" not in path:
        path = f"library/{path}"
    return domain, path
