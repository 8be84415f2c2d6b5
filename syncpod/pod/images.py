"""Image references: repository, tag and digest.

The grammar is that of `distribution/reference`, which the kubelet's ParseImageName (`pkg/util/parsers`, v1.36) uses.
"""

import re
from typing import NamedTuple

_DOMAIN_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_LONGEST_NAME = 255


class ImageName(NamedTuple):
    """A parsed reference; `tag` is `latest` if neither tag nor digest was written."""

    repository: str
    tag: str
    digest: str


def parse_image_name(image: str) -> ImageName | None:
    """Return the parts of an image reference, the repository with its registry (`docker.io/library/nginx`).

    None if it is invalid: the kubelet then reports InvalidImageName.
    """
    matched = _REFERENCE.fullmatch(image)
    if matched is None or _IDENTIFIER.fullmatch(image):
        return None
    domain, slash, remainder = matched["name"].partition("/")
    if not slash or not (domain == "localhost" or "." in domain or ":" in domain or domain != domain.lower()):
        domain, remainder = "docker.io", matched["name"]
    elif domain == "index.docker.io":
        domain = "docker.io"
    if domain == "docker.io" and "/" not in remainder:
        remainder = f"library/{remainder}"
    if remainder != remainder.lower() or len(remainder) > _LONGEST_NAME:
        return None
    tag, digest = matched["tag"] or "", matched["digest"] or ""
    return ImageName(f"{domain}/{remainder}", tag or ("" if digest else "latest"), digest)
