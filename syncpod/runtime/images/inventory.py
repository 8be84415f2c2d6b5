"""The inventory of images: images that were loaded from files, and pulled names without files.

A pulled name stands for the host's own programs. The names are stored, so that pulling, listing and removing work as in
any runtime. The id of an image that is only a name is the SHA-256 of its full name, and so the same on every machine. A
loaded image's id is the digest of its configuration, as usual.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime.images.config import ImageConfig, read_config
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
_PARTS: Final = ("repository", "tag", "digest")
ROOTS: Final = "roots"
_CLOCK_NANOSECONDS: Final = 100_000_000
"""Nanoseconds, more than the granularity of the kernel's clock for file times."""


class ReferenceInvalid(ValueError):
    """The image name is invalid; the text says why, without the name."""


@dataclass(frozen=True)
class Reference:
    """An image's full name: with its registry, and with a tag or a digest."""

    repository: str
    """Such as docker.io/library/busybox."""
    tag: str = ""
    digest: str = ""
    """sha256:…; if there is one, the tag is dropped, as in containerd."""

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    @property
    def short_name(self) -> str:
        """The last part of the repository: the name of the host's program."""
        return self.repository.rpartition("/")[2]


def parse_reference(text: str) -> Reference:
    """Parse an image's name as Docker and containerd do (distribution's reference grammar). Raises ReferenceInvalid."""
    if re.fullmatch(r"[a-f0-9]{64}", text):
        raise ReferenceInvalid("64 hexadecimal digits are an id, not a name")
    rest, at, digest = text.partition("@")
    if at and not _valid_digest(digest):
        raise ReferenceInvalid("invalid reference format: the digest is invalid")
    slash = rest.rfind("/")
    name, colon, tag = rest.rpartition(":") if ":" in rest[slash + 1 :] else (rest, "", "")
    if colon and not _TAG.fullmatch(tag):
        raise ReferenceInvalid("invalid reference format: the tag is invalid")
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
class Content:
    """The content of a loaded image. An image without content stands for the machine's own programs."""

    id: str
    """Digest of its configuration."""
    manifest_digest: str
    root: str
    """The directory of its files, a name in the store's `roots`; images with the same layers share it."""
    size: int
    """Bytes of its files."""
    config: ImageConfig


@dataclass(frozen=True)
class Image:
    """An image that was pulled or loaded, under one of its names."""

    reference: Reference
    pulled_at: int
    """Nanoseconds since the epoch."""
    size: int
    """Bytes on disk: its files, or only its record."""
    content: Content | None = None

    @property
    def id(self) -> str:
        """sha256:…, the digest of its configuration; without a configuration, of its full name."""
        return self.content.id if self.content else f"sha256:{_hexdigest(self.reference)}"

    @property
    def repo_tags(self) -> tuple[str, ...]:
        """Its name if it has a tag."""
        return () if self.reference.digest else (str(self.reference),)

    @property
    def repo_digest(self) -> str:
        """The image's name with a digest: the digest that it was pulled by, its manifest's, or its id."""
        digest = self.reference.digest or (self.content.manifest_digest if self.content else self.id)
        return f"{self.reference.repository}@{digest}"


class ImageStore:
    """The images that were pulled or loaded; each name is a file in `directory`, which is made if missing.

    An unreadable file is ignored; pulling its image again rewrites it. Another process may load images meanwhile
    (`load.py`), so files are read again when the directory has changed.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._images: dict[str, Image] = {}
        """The images, by the name of the record's file."""
        self._seen = -1
        """The directory's modification time when it was read."""
        self.unreadable: tuple[str, ...] = ()
        """A sentence for each file that could not be read."""
        self._look()

    def __iter__(self) -> Iterator[Image]:
        """Iterate over all names; the names of one image share its id."""
        self._look()
        return iter(tuple(self._images.values()))

    def root_directory(self, root: str) -> Path:
        """Return the directory of a loaded image's files."""
        return self._directory / ROOTS / root

    def roots(self) -> frozenset[str]:
        """Return the roots that images use."""
        return frozenset(image.content.root for image in self if image.content)

    def _look(self) -> None:
        """Read all records again if the directory has changed."""
        changed = self._directory.stat().st_mtime_ns
        # Two changes in quick succession may have the same time.
        if changed == self._seen and abs(time.time_ns() - changed) > _CLOCK_NANOSECONDS:
            return
        self._seen = changed
        images, unreadable = {}, []
        for file in sorted(self._directory.glob("*.json")):
            try:
                images[file.name] = _read(file)
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
                why = where_and_why(error) if isinstance(error, OSError) else repr(error)
                unreadable.append(f"{file}: is not a record of an image, so that has to be pulled again: {why}")
        self._images, self.unreadable = images, tuple(unreadable)

    def pull(self, reference: Reference) -> Image:
        """Record an image as pulled, unless it exists."""
        return self._known(reference) or self._write(reference, None)

    def load(self, reference: Reference, content: Content) -> Image:
        """Record a name for a loaded image; an earlier image loses the name."""
        return self._write(reference, content)

    def _write(self, reference: Reference, content: Content | None) -> Image:
        file = self._file(reference)
        record: dict[str, Any] = {part: getattr(reference, part) for part in _PARTS} | {"pulled_at": time.time_ns()}
        if content is not None:
            record["content"] = asdict(content)
        replace(file, json.dumps(record).encode() + b"\n")
        image = self._images[file.name] = _read(file)
        return image

    def _known(self, reference: Reference) -> Image | None:
        self._look()
        return self._images.get(self._file(reference).name)

    def find(self, name: str) -> Image | None:
        """Return the image with this id, prefix of an id, name with tag (default `latest`), or name with digest."""
        return self._of_id(name) or self._named(name) or self._begins(name.removeprefix("sha256:"))

    def names_of(self, image: Image) -> tuple[Image, ...]:
        """Return the image under each of its names."""
        return tuple(each for each in self if each.id == image.id)

    def _of_id(self, id: str) -> Image | None:
        return next((image for image in self if image.id == id), None)

    def _named(self, name: str) -> Image | None:
        try:
            reference = parse_reference(name)
        except ReferenceInvalid:
            return None
        known = self._known(reference)
        if known is not None or not reference.digest:
            return known
        return next((image for image in self if image.repo_digest == str(reference)), None)

    def _begins(self, digits: str) -> Image | None:
        """Return the only image whose id begins with the digits."""
        if not re.fullmatch(r"[a-f0-9]+", digits):
            return None
        found = {image.id: image for image in self if image.id.startswith(f"sha256:{digits}")}
        return next(iter(found.values())) if len(found) == 1 else None

    def remove(self, image: Image) -> None:
        """Remove all names of an image; containers made from it stay as they are."""
        for each in self.names_of(image):
            file = self._file(each.reference)
            file.unlink(missing_ok=True)
            self._images.pop(file.name, None)

    def _file(self, reference: Reference) -> Path:
        return self._directory / f"{_hexdigest(reference)}.json"


def _hexdigest(reference: Reference) -> str:
    return hashlib.sha256(str(reference).encode()).hexdigest()


def _read(file: Path) -> Image:
    record = json.loads(file.read_bytes())
    parts = [record[part] for part in _PARTS]
    if not all(isinstance(part, str) for part in parts) or not isinstance(record["pulled_at"], int):
        raise TypeError("repository, tag and digest must be strings, and pulled_at a number")
    fields = record.get("content")
    if fields is None:
        return Image(Reference(*parts), record["pulled_at"], file.stat().st_size)
    content = Content(**{**fields, "config": read_config(fields["config"])})
    if not re.fullmatch(r"[0-9a-f]{64}", content.root):
        raise ValueError("content.root must be 64 hexadecimal digits")
    return Image(Reference(*parts), record["pulled_at"], content.size, content)
