"""Packs and unpacks files as a tar stream, which ``cp`` sends into a container or reads from one.

An archive from a container may be malicious. Every entry is placed relative to an open directory beneath the
destination, and never by its whole path. So no `..`, absolute path or symlink leads out of the destination, even if
another process creates the symlink.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Self

from syncpod.kernel.beneath import LeadsOut, make_beneath, open_beneath, open_directory

_BLOCK: Final = 256 * 1024
_KEPT_MODE: Final = 0o755
"""Mask for the mode of an entry: no set-uid, and write permission only for the owner."""

_DIRECTORY_MODE: Final = 0o755

_NOWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a path to a missing file, or into a loop."""

_LONGEST_HEADER: Final = 1 << 20
"""Maximum size in bytes of a header that extends another, such as a long name. Go's archive/tar has the same limit."""

_EXTENDING: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)

_Identity = tuple[int, int]
"""A device and an inode on it."""

Tell = Callable[[str], None]
"""Receives a message about each entry that is left out."""


class NotWhatWasAsked(Exception):
    """The stream is not an archive of the one requested file or directory; the text says why."""


def pack(source: Path, name: str, stream: IO[bytes], tell: Tell) -> None:
    """Write an archive of a file or a directory to `stream`, under the name `name`. Raises OSError.

    If `source` is a symlink, its target is archived; symlinks below it are archived as symlinks. Sockets, pipes and
    devices are left out. The format is GNU's, which busybox reads too.
    """
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_BLOCK) as archive:
        _add(archive, source.resolve(strict=True), name, tell)


def _add(archive: tarfile.TarFile, path: Path, name: str, tell: Tell) -> None:
    entry = archive.gettarinfo(path, name)
    if entry is None or not (entry.isreg() or entry.islnk() or entry.isdir() or entry.issym()):
        tell(f"{path}: neither a file, a directory nor a symlink; left out")
    elif entry.isreg():
        with path.open("rb") as content:
            archive.addfile(entry, content)
    else:
        archive.addfile(entry)
        for child in sorted(path.iterdir()) if entry.isdir() else ():
            _add(archive, child, f"{name}/{child.name}", tell)


def unpack(stream: IO[bytes], root: str, destination: Path, name: str, tell: Tell) -> None:
    """Place the archive's entry `root`, with everything beneath it, at `destination`; read the stream to its end.

    A file replaces the file `destination`, or goes into the directory `destination` as `name`. The contents of a
    directory go into `destination`, which is created if it is missing. Symlinks that lead out of it, and entries that
    are neither file, directory nor link, are left out.

    Raises NotWhatWasAsked, tarfile.ReadError if the stream ends early, and OSError.
    """
    with _opened(stream) as archive:
        first = _next(archive)
        if first is None:
            raise NotWhatWasAsked("the archive is empty")
        if _beneath(first.name, root) != "":
            raise NotWhatWasAsked(f"the archive begins with {first.name!r}, and not with {root!r}")
        if first.isdir():
            destination.mkdir(parents=True, exist_ok=True)
            _Placing(archive, destination, tell).place_all(root)
        elif first.isreg():
            _write_file(archive, first, destination / name if destination.is_dir() else destination)
        elif first.issym():
            raise NotWhatWasAsked(f"it is a symlink to {first.linkname!r}: copy what that names")
        else:
            raise NotWhatWasAsked("it is neither a file nor a directory")
    while stream.read(_BLOCK):
        pass  # read the bytes after the archive, so that its writer does not fail


class _Header(tarfile.TarInfo):
    """A header of an archive. Long and sparse ones are refused, so that no archive fills the memory or the disk.

    The map of a sparse entry may be endless, and a few bytes of it stand for terabytes. tar writes such an entry only
    on request.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        """Read one header. Raises NotWhatWasAsked for a sparse or too long one, and the errors of TarInfo."""
        header = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]  # typeshed: never None
        if header.type in _EXTENDING and header.size > _LONGEST_HEADER:
            raise NotWhatWasAsked(f"a header of the archive has {header.size} bytes; {_LONGEST_HEADER} are the most")
        if header.type == tarfile.GNUTYPE_SPARSE:
            _refuse_sparse()
        return header

    def _refuse(self, *_: object) -> None:
        _refuse_sparse()

    # TarInfo._proc_pax calls these to read the map of a sparse entry in each PAX format.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse


def _refuse_sparse() -> None:
    raise NotWhatWasAsked("the archive has a sparse entry, which is not read")


def _opened(stream: IO[bytes]) -> tarfile.TarFile:
    """Open an archive, and read its first header. Raises the errors of `_next`."""
    with _readable_headers():
        return tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK, tarinfo=_Header)


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    """Return the next entry, None at the end. Raises NotWhatWasAsked, tarfile.TarError and OSError."""
    with _readable_headers():
        return archive.next()


@contextlib.contextmanager
def _readable_headers() -> Iterator[None]:
    """Raise NotWhatWasAsked if tarfile fails on an invalid number, or on thousands of headers for one entry."""
    try:
        yield
    except (ValueError, RecursionError):
        raise NotWhatWasAsked("a header of the archive cannot be read") from None


def _write_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    """Write the one requested file to the requested path, following symlinks: that path is the user's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _mode(entry))
    _fill(archive, entry, written)


def _fill(archive: tarfile.TarFile, entry: tarfile.TarInfo, descriptor: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        content = archive.extractfile(entry)
        assert content is not None, "a file has content"
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            with contextlib.suppress(ValueError, OverflowError):  # not a number, or a time that no file can have
                os.utime(descriptor, (entry.mtime, entry.mtime))


def _mode(entry: tarfile.TarInfo) -> int:
    return (entry.mode & _KEPT_MODE) | stat.S_IRUSR | stat.S_IWUSR


def _beneath(name: str, root: str) -> str | None:
    """Return an entry's name relative to `root`: "" for the root itself, None if the entry is not beneath it."""
    clean = posixpath.normpath(name)
    root = posixpath.normpath(root)
    if clean.startswith(("/", "../")) or clean == "..":
        return None
    if root == "." or clean == root:
        return "" if clean == root else clean
    return clean[len(root) + 1 :] if clean.startswith(f"{root}/") else None


class _Placing:
    """Places the entries of a directory beneath another directory."""

    def __init__(self, archive: tarfile.TarFile, destination: Path, tell: Tell) -> None:
        self._archive = archive
        self._destination = destination
        self._tell = tell
        self._top = -1
        self._symlinks: dict[tuple[str, str], _Identity] = {}
        """The symlinks that this copy has created, by directory relative to the top, and name."""

    def place_all(self, root: str) -> None:
        """Place all entries after the first, which has been read.

        Symlinks that lead out are removed at the end, even if this raises.
        """
        with contextlib.ExitStack() as last:
            self._top = open_directory(self._destination)
            last.callback(os.close, self._top)
            last.callback(self._remove_leading_out)
            for entry in iter(lambda: _next(self._archive), None):
                relative = _beneath(entry.name, root)
                if relative is None:
                    self._tell(f"{entry.name!r}: outside of what was asked for; left out")
                elif relative:
                    self._place(entry, relative, root)

    def _place(self, entry: tarfile.TarInfo, relative: str, root: str) -> None:
        if "\0" in relative or "\0" in entry.linkname:
            self._tell(f"{relative!r}: no file can have this name or target; left out")
            return
        try:
            if entry.isdir():
                os.close(make_beneath(self._top, relative, _DIRECTORY_MODE))
                return
            directory, name = posixpath.split(relative)
            parent = make_beneath(self._top, directory, _DIRECTORY_MODE)
            try:
                self._place_in(parent, name, entry, relative, root)
            finally:
                os.close(parent)
        except LeadsOut:
            self._tell(f"{relative!r}: leads out of {self._destination}; left out")

    def _place_in(self, parent: int, name: str, entry: tarfile.TarInfo, relative: str, root: str) -> None:
        if entry.isreg():
            self._make_room(parent, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            _fill(self._archive, entry, os.open(name, flags, _mode(entry), dir_fd=parent))
        elif entry.issym():
            where = self._where(parent, relative)
            self._make_room(parent, name)
            os.symlink(entry.linkname, name, dir_fd=parent)
            self._remember(parent, where, name)
        elif entry.islnk() and (target := _beneath(entry.linkname, root)):
            self._link(parent, name, target, relative)
        else:
            self._tell(f"{relative!r}: neither a file, a directory nor a link in what was asked for; left out")

    def _link(self, parent: int, name: str, target: str, relative: str) -> None:
        """Create a hard link to an earlier entry."""
        directory, other = posixpath.split(target)
        try:
            holder = open_beneath(self._top, directory or ".")
            try:
                where = self._where(parent, relative)
                self._make_room(parent, name)
                os.link(other, name, src_dir_fd=holder, dst_dir_fd=parent, follow_symlinks=False)
                self._remember(parent, where, name)
            finally:
                os.close(holder)
        except FileNotFoundError:
            self._tell(f"{relative!r}: another name of {target!r}, which does not exist; left out")

    @staticmethod
    def _make_room(parent: int, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)

    def _where(self, directory: int, relative: str) -> str:
        """Return the path of an open directory relative to the top, "" for the top itself, without symlinks.

        The entry's name would not do: a later entry may replace a symlink in it, whereas directories are never moved.
        Raises LeadsOut if another process has moved the directory, and OSError if its path is too long.
        """
        top, path = (Path(f"/proc/self/fd/{opened}").readlink() for opened in (self._top, directory))
        if not path.is_relative_to(top):
            raise LeadsOut(errno.EXDEV, "is being moved", relative)
        return "" if path == top else str(path.relative_to(top))

    def _remember(self, parent: int, where: str, name: str) -> None:
        """Remember the new entry if it is a symlink, or a hard link to one."""
        made = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(made.st_mode):
            self._symlinks[where, name] = (made.st_dev, made.st_ino)

    def _remove_leading_out(self) -> None:
        """Remove the symlinks that lead out. This comes last: the end of a symlink depends on the other entries."""
        leading = [(where, name, how) for where, name in self._symlinks if (how := self._leads_out(where, name))]
        for where, name, how in leading:
            try:
                target = self._remove(where, name)
            except OSError as error:
                self._tell(f"{posixpath.join(where, name)!r}: a symlink that {how}, and stays: {error.strerror}")
                continue
            if target is not None:
                self._tell(f"{posixpath.join(where, name)!r}: a symlink to {target!r}, which {how}; left out")

    def _leads_out(self, where: str, name: str) -> str:
        """Return a clause if a symlink leads out or cannot be followed; "" if it stays inside or has no target."""
        try:
            os.close(open_beneath(self._top, posixpath.join(where, name)))
        except LeadsOut:
            return f"leads out of {self._destination}"
        except OSError as error:
            if error.errno not in _NOWHERE:
                return f"cannot be followed in {self._destination} ({os.strerror(error.errno or errno.EIO)})"
        return ""

    def _remove(self, where: str, name: str) -> str | None:
        """Remove a symlink that this copy has created, and return its target; None if it is no longer there."""
        try:
            parent = open_beneath(self._top, where or ".")
        except FileNotFoundError:
            return None
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if (found.st_dev, found.st_ino) != self._symlinks[where, name]:
                return None
            target = os.readlink(name, dir_fd=parent)
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            return None
        finally:
            os.close(parent)
        return target
