"""Reads an image's layers in one pass: decompresses them and verifies their digests."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from syncpod.runtime.images.archive import DAMAGE, ArchiveInvalid, Descriptor, Source, Tar

_LONGEST_HEADER: Final = 1024 * 1024
"""Maximum bytes of one header in a layer's tar, with its extensions, and of a single read."""
_CHUNK: Final = 1024 * 1024


@contextmanager
def layer_tar(source: Source, layer: Descriptor, diff_id: str) -> Iterator[tarfile.TarFile]:
    """Open a layer's tar for one read from the beginning; its digests are verified at the end of the block.

    Raises ArchiveInvalid if it is damaged or does not match its digests.
    """
    try:
        with source.open(layer.name) as file:
            packed = _Hashed(file, layer.digest)
            head = packed.peek(4)
            if head == b"\x28\xb5\x2f\xfd":
                raise ArchiveInvalid(f"{layer.name}: is compressed by zstd, which cannot be read here: use gzip")
            unpacked = _Hashed(gzip.GzipFile(fileobj=packed) if head[:2] == b"\x1f\x8b" else packed, diff_id)
            with Tar(fileobj=_Forwards(unpacked), encoding="utf-8", errors="surrogateescape") as tar:
                yield tar
            unpacked.check(layer.name)
            packed.check(layer.name)
            if layer.size not in (-1, packed.size):
                raise ArchiveInvalid(f"{layer.name}: has {packed.size} bytes, not the {layer.size} of its descriptor")
    except FileNotFoundError as error:
        if error.args != (layer.name,):
            raise
        raise ArchiveInvalid(f"has no {layer.name}, a layer of its image") from error
    except (*DAMAGE, gzip.BadGzipFile) as error:
        raise ArchiveInvalid(f"{layer.name}: is damaged: {error}") from error


class _Hashed(io.RawIOBase):
    """A stream that is hashed as it is read."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile | _Hashed, digest: str) -> None:
        super().__init__()
        self._file = file
        self._digest = digest
        self._hash = hashlib.new(digest.partition(":")[0] or "sha256")
        self._ahead = b""
        self.size = 0

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def peek(self, size: int) -> bytes:
        """Return its first bytes without consuming them."""
        self._ahead = self._file.read(size) or b""
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes, and at least one; none at the end."""
        if size < 0:
            raise io.UnsupportedOperation("a layer may be of any length, so it cannot be read at once")
        data = self._ahead[:size] or self._file.read(size) or b""
        self._ahead = self._ahead[len(data) :] if self._ahead else b""
        self._hash.update(data)
        self.size += len(data)
        return data

    def check(self, name: str) -> None:
        """Read to the end, and verify the digest. Raises ArchiveInvalid."""
        while self.read(_CHUNK):
            pass
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if self._digest not in ("", found):
            raise ArchiveInvalid(f"{name}: is not what it should be: its digest is {found}, not {self._digest}")


class _Forwards(io.RawIOBase):
    """A forward-only stream for `tarfile`. It limits the length of a tar's headers."""

    def __init__(self, stream: _Hashed) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def tell(self) -> int:
        """Return the number of bytes read so far."""
        return self._stream.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip to a later position."""
        if whence != io.SEEK_SET or offset < self._stream.size:
            raise tarfile.ReadError("its parts overlap")
        while offset > self._stream.size and self._stream.read(min(_CHUNK, offset - self._stream.size)):
            pass
        return self._stream.size

    def read(self, size: int = -1) -> bytes:
        """Read this many bytes, fewer only at the end. Raises tarfile.ReadError for more than a header may have."""
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        parts = []
        while size > 0 and (part := self._stream.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
