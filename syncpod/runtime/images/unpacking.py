"""Unpacks an image's layers over one another into a directory, which then has the files that a container sees.

A whiteout removes the files that it hides, and is not unpacked itself. Every entry stays in that directory: symbolic
links on its path are resolved relative to the directory, as in containerd, and `..` is refused. The caller must keep
other writers out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from syncpod.kernel.tree_removal import remove_tree

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_AUFS: Final = ".wh..wh."
"""Names with this prefix are AUFS's metadata. They are ignored, except the name of an opaque directory's whiteout."""
_MOST_LINKS: Final = 40
_XATTR: Final = "SCHILY.xattr."
_NOBODY_AT_ALL: Final = 2**32 - 1
"""The kernel's value for no user or group; ids are below it."""
_COPIED_AT_ONCE: Final = 256 * 1024


class EntryInvalid(ValueError):
    """An entry cannot be unpacked. The text is one sentence that begins with its name."""


@dataclass
class _Directory:
    """A directory's final metadata, if an entry sets them, and its subdirectories."""

    like: tarfile.TarInfo | None = None
    inside: dict[str, _Directory] = field(default_factory=dict)


class Unpacking:
    """The root directory of an image while it is unpacked: `lay` for each layer, and `finish` at the end.

    As root, owners, devices and file capabilities are the image's. Otherwise all files belong to the server's user,
    setuid and setgid bits are dropped, and devices are left out and counted in `left_out`.
    """

    def __init__(self, root: Path, *, privileged: bool) -> None:
        """Begin with `root`, an empty directory."""
        self._root = root
        self._privileged = privileged
        self._directories = _Directory()
        """The root and the directories below it: their metadata are applied at the end, since directories may be
        read-only."""
        self._laid: set[str] = set()
        """The paths that this layer has added: an opaque directory hides only earlier content."""
        self.left_out = 0

    def lay(self, tar: tarfile.TarFile) -> None:
        """Unpack a layer. Raises EntryInvalid, OSError and the errors of reading the tar."""
        self._laid.clear()
        while (entry := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined] # otherwise the tar would keep all members
            try:
                self._lay(tar, entry)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM):
                    raise
                raise EntryInvalid(f"{entry.name}: {os.strerror(error.errno or 0).lower()}") from error
            except EntryInvalid:
                raise
            except (OverflowError, ValueError) as error:  # An invalid device number, or a NUL in a link.
                raise EntryInvalid(f"{entry.name}: cannot be made: {error}") from error

    def finish(self) -> None:
        """Set the owners and modes of directories.

        Raises EntryInvalid for an invalid owner. Raises OSError, also if a directory has been removed or replaced by a
        link: links are not followed.
        """
        from_the_top = [(Path(), self._directories)]
        for path, directory in from_the_top:  # The loop adds to this list.
            from_the_top += [(path / name, below) for name, below in directory.inside.items()]
        for path, directory in reversed(from_the_top):  # A directory comes after its content.
            if directory.like is not None:
                with opened_beneath(self._root, path, os.O_DIRECTORY) as descriptor:
                    self._liken(descriptor, directory.like)

    def _lay(self, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        parts = _parts(entry.name, entry.name)
        if not parts:
            if not entry.isdir():
                raise EntryInvalid(f"{entry.name}: stands for the root, and is not a directory")
            self._directories.like = entry
            return
        parent = self._resolve(parts[:-1], entry.name)
        name = parts[-1]
        if name.startswith(_WHITEOUT):
            self._white_out(parent, name, entry.name)
            return
        path = parent / name
        self._laid.add(str(path))
        with contextlib.suppress(FileNotFoundError):
            there = os.lstat(path)
            if not (stat.S_ISDIR(there.st_mode) and entry.isdir()):
                self._remove(path)
        self._make(tar, entry, path)

    def _white_out(self, parent: Path, name: str, entry: str) -> None:
        if name == _OPAQUE:
            for child in list(parent.iterdir()):
                self._hide(child)
        elif not name.startswith(_AUFS):
            hidden = name.removeprefix(_WHITEOUT)
            if hidden in ("", ".", ".."):
                raise EntryInvalid(f"{entry}: hides nothing that has a name")
            self._remove(parent / hidden)

    def _hide(self, path: Path) -> None:
        """Remove a path and everything below it, except entries that this layer has added."""
        if not any(laid == str(path) or laid.startswith(f"{path}/") for laid in self._laid):
            self._remove(path)
        elif stat.S_ISDIR(os.lstat(path).st_mode):
            for child in list(path.iterdir()):
                self._hide(child)

    def _remove(self, path: Path) -> None:
        """Remove a path and everything below it, with its noted metadata: another entry may take its place."""
        *above, name = path.relative_to(self._root).parts
        directory: _Directory | None = self._directories
        for part in above:
            directory = directory and directory.inside.get(part)
        if directory is not None:
            directory.inside.pop(name, None)
        remove_tree(path)

    def _make(self, tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
        if entry.isdir():
            with contextlib.suppress(FileExistsError):
                path.mkdir(0o700)
            directory = self._directories
            for part in path.relative_to(self._root).parts:
                directory = directory.inside.setdefault(part, _Directory())
            directory.like = entry
            return
        if entry.isreg():  # This includes sparse and contiguous files.
            self._write(tar, entry, path)
        elif entry.issym():
            path.symlink_to(entry.linkname)
        elif entry.islnk():
            self._link(entry, path)
            return
        elif entry.isfifo():
            os.mkfifo(path, 0o600)
        elif entry.ischr() or entry.isblk():
            device = os.makedev(entry.devmajor, entry.devminor)
            if not self._privileged or device == 0:  # Device 0, 0 is an overlay's whiteout.
                self.left_out += 1
                return
            os.mknod(path, 0o600 | (stat.S_IFCHR if entry.ischr() else stat.S_IFBLK), device)
        else:
            raise EntryInvalid(f"{entry.name}: is of an unknown type, {entry.type!r}")
        self._liken(path, entry)

    def _write(self, tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            content = tar.extractfile(entry)
            assert content is not None
            shutil.copyfileobj(content, file, _COPIED_AT_ONCE)

    def _link(self, entry: tarfile.TarInfo, path: Path) -> None:
        parts = _parts(entry.linkname, entry.name)
        if not parts:
            raise EntryInvalid(f"{entry.name}: is a link to the root")
        target = self._resolve(parts[:-1], entry.name, make=False) / parts[-1]
        if not os.path.lexists(target):
            raise EntryInvalid(f"{entry.name}: is a link to {entry.linkname}, which does not exist")
        os.link(target, path, follow_symlinks=False)

    def _resolve(self, parts: Iterable[str], entry: str, *, make: bool = True) -> Path:
        """Return the directory of an entry; make its missing parents."""
        try:
            found = resolve(self._root, parts, make=make)
            if not found.is_dir():
                raise NotADirectoryError(f"/{found.relative_to(self._root)}")
            return found
        except (NotADirectoryError, RecursionError) as error:
            raise EntryInvalid(f"{entry}: would lie in what is not a directory: {error}") from error

    def _liken(self, made: Path | int, entry: tarfile.TarInfo) -> None:
        """Set owner, mode, attributes and time of a file, given by its path or descriptor."""
        follow = isinstance(made, int)  # some calls take a descriptor only so; a link is not followed
        mode = entry.mode & 0o7777
        if not (0 <= entry.uid < _NOBODY_AT_ALL and 0 <= entry.gid < _NOBODY_AT_ALL):
            raise EntryInvalid(f"{entry.name}: belongs to {entry.uid}:{entry.gid}, which is not a valid user and group")
        if self._privileged:
            os.chown(made, entry.uid, entry.gid, follow_symlinks=follow)
        else:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
        if not entry.issym():
            os.chmod(made, mode)  # noqa: PTH101 - or by descriptor
            self._set_attributes(made, entry)
        with contextlib.suppress(OverflowError, ValueError):  # An invalid time.
            os.utime(made, (entry.mtime, entry.mtime), follow_symlinks=follow)

    def _set_attributes(self, made: Path | int, entry: tarfile.TarInfo) -> None:
        """Set file capabilities and user attributes, but not those that an overlay would interpret."""
        for key, value in entry.pax_headers.items():
            name = key.removeprefix(_XATTR)
            users = name.startswith("user.") and not name.startswith("user.overlay.")
            if name == key or not (users or (name == "security.capability" and self._privileged)):
                continue
            try:
                os.setxattr(made, name, value.encode("utf-8", "surrogateescape"))
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise


def resolve(root: Path, parts: Iterable[str], *, make: bool = False) -> Path:
    """Resolve a path with `root` as its `/`, following symbolic links inside it.

    Raises NotADirectoryError, RecursionError for too many links, and FileNotFoundError unless `make`, which makes
    missing directories. Not safe against concurrent writers.
    """
    waiting = deque(parts)
    real = root
    links = 0
    while waiting:
        part = waiting.popleft()
        if part == "..":
            real = real if real == root else real.parent
        if part in ("", ".", ".."):
            continue
        place = real / part
        try:
            found = os.lstat(place).st_mode
        except FileNotFoundError:
            if not make:
                raise
            place.mkdir(0o755)
            found = stat.S_IFDIR
        if stat.S_ISLNK(found):
            links += 1
            if links > _MOST_LINKS:
                raise RecursionError("too many symbolic links")
            target = os.readlink(place)  # noqa: PTH115 - as it is written
            real = root if target.startswith("/") else real
            waiting.extendleft(reversed(target.split("/")))
        elif not stat.S_ISDIR(found) and waiting:
            raise NotADirectoryError(f"/{place.relative_to(root)}")
        else:
            real = place
    return real


@contextlib.contextmanager
def opened_beneath(root: Path, path: Path, flags: int = 0) -> Iterator[int]:
    """Open a path relative to `root` for reading; links are not followed.

    Opening a FIFO does not block. Raises OSError: NotADirectoryError for a link on the way, ELOOP for one at the end.
    """
    ours = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    *above, last = path.parts or (".",)
    descriptor = os.open(root, ours | os.O_DIRECTORY)
    try:
        for part, wanted in [*((each, os.O_DIRECTORY) for each in above), (last, os.O_NONBLOCK | flags)]:
            below = os.open(part, ours | wanted, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _parts(name: str, entry: str) -> tuple[str, ...]:
    """Return the parts of a name in a tar. Raises EntryInvalid for one that leads out."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name:
        raise EntryInvalid(f"{entry}: leads out of the image")
    return parts
