"""Images, of which there is nothing but the name: it stands for the host's own programs.

A small store remembers which names were pulled, so that pulling, listing and removing work as everywhere. An image's
id is the SHA-256 of its full name, so it is the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.runtime.store import replace

_DOMAIN: Final = re.compile(
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
    r"|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PATH: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_MAX_NAME: Final = 255
_DEFAULT_DOMAIN: Final = "docker.io"


class ReferenceInvalid(ValueError):
    """Not the name of an image; the text says why, without the name."""


@dataclass(frozen=True)
class Reference:
    """An image's name in full: with its registry, and with a tag or a digest."""

    repository: str
    """docker.io/library/busybox"""
    tag: str = ""
    digest: str = ""
    """sha256:…; where there is one, the tag was dropped, as containerd does."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    @property
    def short_name(self) -> str:
        """The last part of the repository: what the host's program would be called."""
        return self.repository.rpartition("/")[2]


def parse_reference(text: str) -> Reference:
    """Read an image's name as Docker and containerd do (distribution's reference grammar). Raises ReferenceInvalid."""
    if re.fullmatch(r"[a-f0-9]{64}", text):
        raise ReferenceInvalid("64 hexadecimal digits are an id, not a name")
    rest, at, digest = text.partition("@")
    if at and not _valid_digest(digest):
        raise ReferenceInvalid("invalid reference format: the digest is none")
    slash = rest.rfind("/")
    name, colon, tag = rest.rpartition(":") if ":" in rest[slash + 1 :] else (rest, "", "")
    if colon and not _TAG.fullmatch(tag):
        raise ReferenceInvalid("invalid reference format: the tag is none")
    domain, path = _split_domain(name)
    if path != path.lower():
        raise ReferenceInvalid("invalid reference format: repository name must be lowercase")
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path):
        raise ReferenceInvalid("invalid reference format")
    repository = f"{domain}/{path}"
    if len(repository) > _MAX_NAME:
        raise ReferenceInvalid(f"repository name must not be more than {_MAX_NAME} characters")
    return Reference(repository, digest=digest) if digest else Reference(repository, tag=tag or "latest")


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    is_domain = slash and (any(mark in first for mark in ".:") or first == "localhost" or first != first.lower())
    domain, path = (first, rest) if is_domain else (_DEFAULT_DOMAIN, name)
    if domain == "index.docker.io":
        domain = _DEFAULT_DOMAIN
    return domain, f"library/{path}" if domain == _DEFAULT_DOMAIN and "/" not in path else path


def _valid_digest(digest: str) -> bool:
    if not _DIGEST.fullmatch(digest):
        return False
    algorithm, _, encoded = digest.partition(":")
    return algorithm not in _DIGEST_LENGTHS or len(encoded) == _DIGEST_LENGTHS[algorithm]


@dataclass(frozen=True)
class Image:
    """An image that was pulled."""

    reference: Reference
    pulled_at: int
    """Nanoseconds since the epoch."""
    size: int
    """Bytes that its record takes on disk."""

    @property
    def id(self) -> str:
        """sha256:…, made of the full name."""
        return f"sha256:{_hexdigest(self.reference)}"

    @property
    def repo_tags(self) -> tuple[str, ...]:
        """Its name, if that has a tag."""
        return () if self.reference.digest else (str(self.reference),)

    @property
    def repo_digest(self) -> str:
        """Its name by digest: the one it was pulled by, or its id."""
        return f"{self.reference.repository}@{self.reference.digest or self.id}"


class ImageStore:
    """The images that were pulled, each a file in `directory`, which is made if it is not there.

    A file that cannot be read counts for nothing: its image has to be pulled again, which writes it anew.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._images: dict[str, Image] = {}
        unreadable = []
        for file in sorted(directory.glob("*.json")):
            try:
                image = _read(file)
            except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
                unreadable.append(f"{file}: is no record of an image, so that has to be pulled again: {error!r}")
                continue
            self._images[image.id] = image
        self.unreadable = tuple(unreadable)
        """What was left out when the store was read: a sentence each."""

    def __iter__(self) -> Iterator[Image]:
        return iter(tuple(self._images.values()))

    def pull(self, reference: Reference) -> Image:
        """Record the image, if it is not there yet."""
        known = self._images.get(f"sha256:{_hexdigest(reference)}")
        if known is not None:
            return known
        file = self._file(reference)
        record = {"repository": reference.repository, "tag": reference.tag, "digest": reference.digest}
        replace(file, json.dumps(record | {"pulled_at": time.time_ns()}).encode() + b"\n")
        image = _read(file)
        self._images[image.id] = image
        return image

    def find(self, name: str) -> Image | None:
        """Return the image of that id, name with tag (`latest` if none), name with digest, or beginning of an id."""
        return self._images.get(name) or self._named(name) or self._begins(name.removeprefix("sha256:"))

    def _named(self, name: str) -> Image | None:
        try:
            reference = parse_reference(name)
        except ReferenceInvalid:
            return None
        known = self._images.get(f"sha256:{_hexdigest(reference)}")
        if known is not None or not reference.digest:
            return known
        return next((image for image in self if image.repo_digest == str(reference)), None)

    def _begins(self, digits: str) -> Image | None:
        """Return the only image whose id begins with the digits."""
        if not re.fullmatch(r"[a-f0-9]+", digits):
            return None
        found = [image for id, image in self._images.items() if id.startswith(f"sha256:{digits}")]
        return found[0] if len(found) == 1 else None

    def remove(self, image: Image) -> None:
        """Forget the image; containers made of it stay as they are."""
        self._file(image.reference).unlink(missing_ok=True)
        self._images.pop(image.id, None)

    def _file(self, reference: Reference) -> Path:
        return self._directory / f"{_hexdigest(reference)}.json"


def _hexdigest(reference: Reference) -> str:
    return hashlib.sha256(str(reference).encode()).hexdigest()


def _read(file: Path) -> Image:
    record = json.loads(file.read_bytes())
    parts = [record[part] for part in ("repository", "tag", "digest")]
    if not all(isinstance(part, str) for part in parts) or not isinstance(record["pulled_at"], int):
        raise TypeError("repository, tag and digest must be strings, and pulled_at a number")
    return Image(Reference(*parts), record["pulled_at"], file.stat().st_size)
