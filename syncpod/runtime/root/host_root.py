"""A root with the host's files, each directory under a private layer.

Each entry of the host's `/` appears in the new root. Symbolic links are recreated; `/tmp` and `/run` are new and empty;
files are copied. A directory, and each directory mounted beneath it, gets an overlay whose writes stay in the
container's own directory. The runtime's own state in a directory is first hidden, because an upper layer must not be
inside its lower one. If a directory with mounts beneath it cannot be a lower layer, as in a user namespace, it is
recreated and its entries are shown in the same way. A directory without mounts that cannot be a lower layer is shared
with the host. A directory that this user may not read, such as another user's FUSE mount, is shared too, since a
container may not read it either. So no single directory of the host keeps a container from starting.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from syncpod.kernel import libc
from syncpod.runtime.root.layers import KERNEL, RootLayers, is_beneath, liken

HOSTNAME = "etc/hostname"
_FRESH = {"tmp": 0o1777, "run": 0o755}
_COPY_BYTES = 1 << 20
_COPIES = 256


def compose_from_host(root: RootLayers, directory: Path, hostname: str) -> None:
    """Show the host's top-level entries in the new root, which becomes a mount.

    With `hostname`, `/etc/hostname` is a file with that name, and lies in the container's `directory`. Raises OSError.
    """
    _HostRoot(root).compose()
    if hostname:
        _write_hostname(root, directory, hostname)


class _HostRoot:
    """Assembles a root from the host's entries."""

    def __init__(self, root: RootLayers) -> None:
        self._root = root
        self._copies = 0

    def compose(self) -> None:
        self._root.begin()
        libc.bind_recursively(str(self._root.path), str(self._root.path))
        with os.scandir("/") as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # the entry has gone meanwhile
                    self._show(entry)
        for name, mode in _FRESH.items():
            made = self._root.path / name
            made.mkdir(exist_ok=True)
            made.chmod(mode)
        _keep_resolver(self._root)

    def _show(self, entry: os.DirEntry[str], parent: Path | None = None) -> None:
        """Show one entry of the host in the new root or in a recreated directory."""
        target = (parent or self._root.path) / entry.name
        top = parent is None
        if (top and entry.name in _FRESH) or entry.path == self._root.hidden:
            return
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
        elif not entry.is_dir():
            self._show_file(entry, target)
        elif top and entry.name == "dev":
            self._root.show_devices(target)
        elif top and entry.name in KERNEL:
            self._root.share(entry.path, target)
        else:
            self._show_directory(entry.path, target)

    def _show_file(self, entry: os.DirEntry[str], target: Path) -> None:
        """Copy a small file of the host; mount a larger one, or a special one such as a socket, read-only."""
        with contextlib.suppress(OSError):
            if entry.is_file() and entry.stat().st_size <= _COPY_BYTES and self._copies < _COPIES:
                shutil.copyfile(entry.path, target)
                liken(target, entry.stat())
                self._copies += 1
                return
        with contextlib.suppress(OSError):  # A file that cannot be shown is missing.
            target.touch()
            libc.bind_recursively(entry.path, str(target))
            self._root.shared.append(entry.path)
            libc.make_read_only(str(target), recursive=False)

    def _show_directory(self, path: str, target: Path) -> None:
        """Show a host directory, and the mounts beneath it; under a private layer if possible."""
        points = self._mounted_beneath(path)
        # An upper layer must not be inside its own lower one.
        holds_state = is_beneath(self._root.hidden, path) and not any(
            is_beneath(self._root.hidden, point) for point in points
        )
        target.mkdir(mode=0o755, exist_ok=True)
        try:
            like = Path(path).stat()
        except OSError:
            with contextlib.suppress(OSError):  # A directory that cannot even be shared is empty.
                self._root.share(path, target)
            return
        if self._root.lay(path, target, like, without_state=holds_state):
            for point in points:
                self._show_mounted(point, target / os.path.relpath(point, path))
        elif points or holds_state:
            self._make_again(path, target)
        else:
            self._root.share(path, target)

    def _mounted_beneath(self, path: str) -> list[str]:
        """Return the mount points in a directory, without those beneath others."""
        found: list[str] = []
        for point in sorted(set(self._root.mount_points)):
            if is_beneath(point, path) and not any(is_beneath(point, above) for above in found):
                found.append(point)
        return found

    def _show_mounted(self, point: str, target: Path) -> None:
        if point == self._root.hidden or is_beneath(point, self._root.hidden):
            return
        if os.path.isdir(point):  # noqa: PTH112
            self._show_directory(point, target)
            return
        with contextlib.suppress(OSError):
            libc.bind_recursively(point, str(target))
            self._root.shared.append(f"/{target.relative_to(self._root.path)}")

    def _make_again(self, path: str, target: Path) -> None:
        """Show a directory's entries one by one; share the directory if we may not read it."""
        try:
            children = list(os.scandir(path))
        except OSError:
            self._root.share(path, target)
            return
        for child in children:
            self._show(child, target)
        liken(target, Path(path).stat())


def _write_hostname(root: RootLayers, directory: Path, hostname: str) -> None:
    """Make `/etc/hostname` contain `hostname`, if `/etc` is private or has this file."""
    place = root.path / HOSTNAME
    own = directory / "hostname"
    own.write_text(f"{hostname}\n")
    own.chmod(0o644)
    if place.is_symlink():
        return
    if not place.exists():
        if "/etc" in root.shared:
            return
        place.touch()
    libc.bind_recursively(str(own), str(place))
    root.overlays.append(f"/{HOSTNAME}")


def _keep_resolver(root: RootLayers) -> None:
    """Keep the host's name resolution if `/etc/resolv.conf` is a link into `/run`, which is new and empty."""
    real = os.path.realpath("/etc/resolv.conf")
    if real.startswith("/run/") and Path(real).is_file():
        place = root.path / real[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        libc.bind_recursively(real, str(place))
