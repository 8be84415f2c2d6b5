"""Images in files: OCI layouts, which are directories or tars, and the archives of `docker save` and `podman save`.

The size and digest of each blob are verified: those of documents here, those of layers in `layers.py`.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from syncpod.kernel.machine import architecture
from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime.images.config import ConfigInvalid, ImageConfig, parse_config

_LONGEST_DOCUMENT: Final = 4 * 1024 * 1024
"""Maximum bytes of an index, manifest or configuration; registries have the same limit."""
_DEEPEST_INDEX: Final = 4
_MOST_LAYERS: Final = 500
_DIGEST: Final = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
_INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_NAME: Final = "io.containerd.image.name"
_REF_NAME: Final = "org.opencontainers.image.ref.name"
DAMAGE: Final = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)
"""The errors of reading a damaged archive. A failed check of bzip2 or gzip raises an OSError without errno."""


class ArchiveInvalid(ValueError):
    """The file has no usable image. The text is one sentence without the file's name."""


@dataclass(frozen=True)
class Descriptor:
    """A blob: its place in the file, and its expected size and digest."""

    name: str
    """Path of the file, or of the archive's member."""
    digest: str = ""
    """sha256:… or sha512:…; empty if only the unpacked layer's digest is known, as in archives of `docker save`."""
    size: int = -1


@dataclass(frozen=True)
class FoundImage:
    """An image in a file. Its layers have not been checked."""

    names: tuple[str, ...]
    """Full names or only tags, as in the file; possibly none."""
    id: str
    """Digest of its configuration."""
    manifest_digest: str
    """Digest of its manifest, or of its configuration if it has no manifest."""
    config: ImageConfig
    layers: tuple[Descriptor, ...]
    diff_ids: tuple[str, ...]
    """Digests of the layers' uncompressed tars, from the bottom up."""


class Source(Protocol):
    """The files of a layout, in a directory or an archive."""

    def open(self, name: str) -> IO[bytes]:
        """Open one of the files. Raises FileNotFoundError."""


class Tar(tarfile.TarFile):
    """A tar that raises tarfile.TarError for every invalid header.

    tarfile itself may raise ValueError for an invalid number, and RecursionError for an endless chain of extended
    headers.
    """

    def next(self) -> tarfile.TarInfo | None:
        """Read the next header. Raises tarfile.TarError, and the errors of reading the file."""
        try:
            return super().next()
        except (ValueError, OverflowError, RecursionError) as error:
            raise tarfile.ReadError(f"an invalid header: {error}") from error


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open a layout, which is a directory or a tar, plain or compressed by gzip, bzip2 or xz.

    Raises ArchiveInvalid and OSError.
    """
    if path.is_dir():
        yield _Directory(path)
        return
    try:
        archive = Tar.open(path, encoding="utf-8")
    except DAMAGE as error:
        raise ArchiveInvalid("is neither an OCI layout nor a tar archive of one") from error
    with archive:
        yield _Archive(archive)


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the layout; a symbolic link must not lead out of it."""
        try:
            place = (self._path / name).resolve()
        except ValueError:  # No file has a name with a NUL, or one that cannot be encoded.
            raise FileNotFoundError(name) from None
        if not place.is_relative_to(self._path) or not place.is_file():
            raise FileNotFoundError(name)
        return place.open("rb")


class _Archive:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        try:
            self._members = {os.path.normpath(member.name): member for member in archive.getmembers()}
        except (*DAMAGE, OSError) as error:
            raise ArchiveInvalid(f"is a damaged archive: {where_and_why(error)}") from error

    def open(self, name: str) -> IO[bytes]:
        """Open a member, which may be a link to another."""
        member = self._members.get(os.path.normpath(name))
        try:
            file = None if member is None else self._archive.extractfile(member)
        except (KeyError, RecursionError):  # A dangling link.
            file = None
        if file is None:
            raise FileNotFoundError(name)
        return file


def images_in(source: Source) -> tuple[FoundImage, ...]:
    """Return a file's images for this machine. Raises ArchiveInvalid and OSError."""
    try:
        found = _images(source)
    except DAMAGE as error:
        raise ArchiveInvalid(f"is a damaged archive: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise ArchiveInvalid(f"is a damaged archive: {where_and_why(error)}") from error
    if not found:
        raise ArchiveInvalid(f"has no image for linux/{architecture()}")
    return found


def _images(source: Source) -> tuple[FoundImage, ...]:
    try:
        return tuple(_images_of_layout(source))
    except FileNotFoundError as error:
        if error.args != ("index.json",):
            raise ArchiveInvalid(f"has no {where_and_why(error)}, which its index names") from error
    return tuple(_images_of_archive(source))


def _images_of_layout(source: Source) -> Iterator[FoundImage]:
    index = _json(_document(source, Descriptor("index.json")), "index.json")
    names: dict[str, list[str]] = {}
    for entry in _entries(index, "manifests", "index.json"):
        annotations = _object(entry, "annotations", "index.json")
        name = annotations.get(_NAME) or annotations.get(_REF_NAME)
        for manifest in _manifests(source, entry):
            names.setdefault(manifest, []).extend([name] if isinstance(name, str) else [])
    for digest, known_as in names.items():
        found = _image_of_manifest(source, digest, tuple(dict.fromkeys(known_as)))
        if found is not None:
            yield found


def _manifests(source: Source, entry: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the digests of the manifests for this machine to which an entry of an index leads."""
    platform = _object(entry, "platform", "an entry of an index")
    if platform and (platform.get("os"), platform.get("architecture")) != ("linux", architecture()):
        return
    digest = _digest(entry.get("digest"), "an entry of an index")
    if entry.get("mediaType") not in _INDEXES:
        _document(source, _blob(entry))
        yield digest
        return
    if depth == _DEEPEST_INDEX:
        raise ArchiveInvalid(f"has indexes nested more than {_DEEPEST_INDEX} deep")
    for below in _entries(_json(_document(source, _blob(entry)), digest), "manifests", digest):
        yield from _manifests(source, below, depth + 1)


def _image_of_manifest(source: Source, digest: str, names: tuple[str, ...]) -> FoundImage | None:
    manifest = _json(_document(source, _blob({"digest": digest})), digest)
    config = manifest.get("config")
    if not isinstance(config, dict):
        raise ArchiveInvalid(f"{digest}: is not a manifest of an image: it has no config")
    layers = tuple(_blob(entry) for entry in _entries(manifest, "layers", digest))
    return _image(_document(source, _blob(config)), str(config.get("digest")), digest, names, layers)


def _images_of_archive(source: Source) -> Iterator[FoundImage]:
    """Read the default format of `docker save` and `podman save`: a manifest.json, and the files that it names."""
    try:
        entries = _parsed(_document(source, Descriptor("manifest.json")), "manifest.json")
    except FileNotFoundError as error:
        raise ArchiveInvalid("is not an OCI layout, having no index.json, and not of `docker save` either") from error
    for entry in _entries({"entries": entries}, "entries", "manifest.json"):
        layers, names = (_names(entry, field) for field in ("Layers", "RepoTags"))
        if not isinstance(entry.get("Config"), str):
            raise ArchiveInvalid("manifest.json: Config: must be the name of a file")
        try:
            config = _document(source, Descriptor(entry["Config"]))
        except FileNotFoundError as error:
            raise ArchiveInvalid(f"has no {where_and_why(error)}, which its manifest.json names") from error
        id = f"sha256:{hashlib.sha256(config).hexdigest()}"
        found = _image(config, id, id, names, tuple(Descriptor(layer) for layer in layers))
        if found is not None:
            yield found


def _image(
    config: bytes, id: str, manifest: str, names: tuple[str, ...], layers: tuple[Descriptor, ...]
) -> FoundImage | None:
    """Return the image with this configuration; None if it is for another architecture."""
    document = _json(config, id)
    if (document.get("os", "linux"), document.get("architecture", architecture())) != ("linux", architecture()):
        return None
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or len(diff_ids) != len(layers) or len(layers) > _MOST_LAYERS:
        raise ArchiveInvalid(f"{id}: rootfs.diff_ids: must name each of the image's {len(layers)} layers")
    try:
        parsed = parse_config(_object(document, "config", id))
    except ConfigInvalid as problem:
        raise ArchiveInvalid(f"{id}: {problem}") from problem
    return FoundImage(names, id, manifest, parsed, layers, tuple(_digest(each, "rootfs.diff_ids") for each in diff_ids))


def _blob(entry: Mapping[str, Any]) -> Descriptor:
    digest = _digest(entry.get("digest"), "a descriptor")
    size = entry.get("size", -1)
    if not isinstance(size, int):
        raise ArchiveInvalid(f"{digest}: its size must be a number")
    return Descriptor(f"blobs/{digest.replace(':', '/')}", digest, size)


def _digest(value: object, where: str) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ArchiveInvalid(f"{where}: {value!r:.80} is not a digest by SHA-256 or SHA-512")
    return value


def _document(source: Source, blob: Descriptor) -> bytes:
    """Read a whole blob. Raises FileNotFoundError, and ArchiveInvalid if it does not match its descriptor."""
    with source.open(blob.name) as file:
        data = file.read(_LONGEST_DOCUMENT + 1)
    if len(data) > _LONGEST_DOCUMENT:
        raise ArchiveInvalid(f"{blob.name}: is longer than {_LONGEST_DOCUMENT} bytes")
    if blob.size not in (-1, len(data)):
        raise ArchiveInvalid(f"{blob.name}: has {len(data)} bytes, not the {blob.size} of its descriptor")
    if blob.digest:
        algorithm = blob.digest.partition(":")[0]
        found = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
        if found != blob.digest:
            raise ArchiveInvalid(f"{blob.name}: is not what it should be: its digest is {found}")
    return data


def _json(data: bytes, name: str) -> dict[str, Any]:
    document = _parsed(data, name)
    if not isinstance(document, dict):
        raise ArchiveInvalid(f"{name}: must be a JSON object")
    return document


def _parsed(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveInvalid(f"{name}: is not JSON: {error}") from error


def _object(document: Mapping[str, Any], field: str, name: str) -> dict[str, Any]:
    """Return an object; empty if it is missing or null."""
    value = document.get(field)
    if value is not None and not isinstance(value, dict):
        raise ArchiveInvalid(f"{name}: {field}: must be an object")
    return value or {}


def _names(entry: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return a list of names in a manifest.json; the list may be missing, or null."""
    value = entry.get(field)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise ArchiveInvalid(f"manifest.json: {field}: must be a list of strings")
    return tuple(value or ())


def _entries(document: Mapping[str, Any], field: str, name: str) -> list[dict[str, Any]]:
    entries = document.get(field) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ArchiveInvalid(f"{name}: {field} must be a list of objects")
    return entries
