"""Makes a container's mounts over its new root, and makes the root read-only."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from syncpod.kernel import libc
from syncpod.runtime.port import Mount, StartFailed
from syncpod.runtime.root.layers import KERNEL, RootLayers, is_beneath

_REPLACEABLE = frozenset(
    f"/proc/{name}"
    for name in ("cpuinfo", "diskstats", "loadavg", "meminfo", "net/dev", "slabinfo", "stat", "swaps", "uptime")
)
"""Files of /proc over which runc allows mounts, for LXCFS."""


class RootMounts:
    """The mounts of one container, whose root is `/` already."""

    def __init__(self, root: RootLayers) -> None:
        """Make the mounts over `root`."""
        self._shared = root.shared
        self._overlays = root.overlays
        self._volumes: list[str] = []
        """The paths of the container's mounts."""

    def add(self, mount: Mount, source: int) -> None:
        """Mount the open `source`; its mount point is made in a private layer, or inside another volume."""
        target = os.path.normpath(mount.container_path)
        if not target.startswith("/") or target.lstrip("/") == "":
            raise StartFailed(f'mount {mount.container_path}: must be an absolute path other than "/"')
        if _hides_proc(os.path.realpath(target), source):
            raise StartFailed(
                f"mount {mount.container_path}: /proc is the kernel's: nothing may be mounted over or in it"
            )
        origin = f"/proc/self/fd/{source}"
        if stat.S_ISDIR(os.stat(source).st_mode):
            self.make_directory(target)
        else:
            self._make_file(target)
        target = os.path.realpath(target)
        try:
            libc.bind_recursively(origin, target)
            if mount.recursive_read_only:
                libc.make_read_only(target, recursive=True)
            elif mount.read_only:
                libc.make_read_only(target, recursive=False)
        except OSError as error:
            if error.errno == errno.ENOSYS:
                why = "recursive read-only mounts need Linux 5.12"
                raise StartFailed(f"mount {mount.container_path}: {why}") from error
            raise StartFailed(f"mount {mount.host_path} at {mount.container_path}: {error.strerror}") from error
        os.close(source)
        self._volumes.append(target)

    def make_directory(self, path: str) -> None:
        """Make a directory if nothing is there."""
        real = os.path.realpath(path)
        if not os.path.isdir(real):  # noqa: PTH112
            self._may_make(real)
            try:
                os.makedirs(real, exist_ok=True)  # noqa: PTH103
            except OSError as error:
                raise StartFailed(f"mkdir {path}: {error.strerror}") from error

    def _make_file(self, path: str) -> None:
        real = os.path.realpath(path)
        if os.path.isdir(real):  # noqa: PTH112
            raise StartFailed(f"mount {path}: a file cannot be mounted over a directory")
        if not os.path.exists(real):  # noqa: PTH110
            self.make_directory(os.path.dirname(real))  # noqa: PTH120
            self._may_make(real)
            try:
                Path(real).touch()
            except OSError as error:
                raise StartFailed(f"create {path}: {error.strerror}") from error

    def _may_make(self, path: str) -> None:
        """Refuse to make anything in the host's own directories, except inside a volume."""
        if any(path.startswith(volume + "/") for volume in self._volumes):
            return
        for shared in self._shared:
            if path.startswith(shared + "/"):
                raise StartFailed(f"{path}: would have to be made on the host, whose {shared} the container shares")

    def freeze_shared(self) -> None:
        """Make the host's directories read-only, before volumes are mounted in them."""
        for path in self._shared:
            if path[1:] not in KERNEL:
                libc.make_read_only(path, recursive=True)

    def freeze_private(self) -> None:
        """Make the private layers read-only, but not the volumes in them."""
        for path in ("/", *self._overlays):
            volume = any(path == each or is_beneath(path, each) for each in self._volumes)
            if not volume and path != "/dev":
                libc.make_read_only(path, recursive=False)


def in_order(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts ordered so that parents come first, as containerd does (orderedMounts)."""
    return tuple(sorted(mounts, key=lambda mount: os.path.normpath(mount.container_path).count("/")))


def opened_source(mount: Mount) -> int:
    """Open the source of a mount with O_PATH. Raises StartFailed."""
    try:
        return os.open(mount.host_path, os.O_PATH)
    except OSError as error:
        raise StartFailed(f"mount {mount.host_path}: {error.strerror}") from error


def _hides_proc(path: str, source: int) -> bool:
    """Return whether a mount would hide parts of `/proc`, which mounting needs; a mount of another proc hides none."""
    if path == "/proc":
        return not os.path.samestat(os.fstat(source), os.stat("/proc"))  # noqa: PTH116
    return is_beneath(path, "/proc") and path not in _REPLACEABLE
