"""The parts of a container's root: private layers over directories, the host's own directories, and devices.

A layer's writes stay in the container's own directory. Everything here happens in the container's mount namespace,
before the root is changed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from syncpod.kernel import libc
from syncpod.kernel.mountinfo import read_mounts

LAYERS = "layers"
"""The overlays' upper and work directories, under the container's directory."""
ROOT = "rootfs"
KERNEL = ("proc", "sys")
"""The kernel's top-level directories, which every root has from the host."""
_HOST_DEVICES = ".machine"
_CONSOLE = "console"
_USUAL_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""The devices that runc makes (OCI's default devices)."""


class RootLayers:
    """The root directory of one container while it is assembled."""

    def __init__(self, directory: Path, *, user_namespace: bool) -> None:
        """Plan the root in the container's `directory`; a `user_namespace` needs overlays with user attributes."""
        self.path = directory / ROOT
        self.mount_points = tuple(mount.mount_point for mount in read_mounts())
        self.hidden = os.path.realpath(directory.parents[1])
        """The directory of all containers. It is hidden, because this root is in it."""
        self.shared: list[str] = []
        """Entries of the host itself, in which nothing may be made."""
        self.overlays: list[str] = []
        """Entries under a private layer, and private files."""
        self._layers = directory / LAYERS
        self._user_namespace = user_namespace
        self._attributes = ",userxattr" if user_namespace else ""

    def begin(self) -> None:
        """Make the root's directory, and that of the layers."""
        self.path.mkdir(mode=0o755)
        self.path.chmod(0o755)
        self._layers.mkdir(mode=0o700)

    def share(self, path: str, target: Path) -> None:
        """Show a host directory without a layer."""
        target.mkdir(exist_ok=True)
        libc.bind_recursively(path, str(target))
        self.shared.append(path)

    def lay(self, lower: str, target: Path, like: os.stat_result, *, without_state: bool = False) -> bool:
        """Put a private layer over a directory; False if that is impossible.

        `without_state` hides the containers' own state in the directory.
        """
        layer = self._layers / f"{len(self.overlays)}-{target.name}"
        upper, work = layer / "upper", layer / "work"
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        liken(upper, like)
        options = ",".join(f"{key}={_escaped(path)}" for key, path in (("upperdir", upper), ("workdir", work)))
        with contextlib.suppress(OSError):
            shown = self._without_state(lower, layer) if without_state else lower
            options += f",lowerdir={_escaped(shown)}" + self._attributes
            # The overlay is volatile, so nothing is synced: nothing in it needs to survive a crash of the machine.
            for more in (",volatile", ""):
                with contextlib.suppress(OSError):
                    libc.mount("overlay", str(target), "overlay", 0, options + more)
                    self.overlays.append(f"/{target.relative_to(self.path)}")
                    return True
        return False

    def _without_state(self, path: str, layer: Path) -> str:
        """Mount a view of a host directory without the containers' state; return the view's path. Raises OSError.

        The view is an overlay with a single whiteout. So the private layer over the view is not inside its own lower
        layer.
        """
        mask, shown = layer / "mask", layer / "shown"
        mask.mkdir(exist_ok=True)
        shown.mkdir(exist_ok=True)
        libc.mount("tmpfs", str(mask), "tmpfs", 0, "mode=755")
        hidden = Path(self.hidden).relative_to(path)
        (mask / hidden.parent).mkdir(parents=True, exist_ok=True)
        os.mknod(mask / hidden, stat.S_IFCHR)
        for above in hidden.parents:  # from the bottom up, because the host's permissions may close a directory to us
            liken(mask / above, (path / above).stat())
        options = f"lowerdir={_escaped(mask)}:{_escaped(path)}{self._attributes}"
        libc.mount("overlay", str(shown), "overlay", libc.MS_RDONLY, options)
        return str(shown)

    def show_devices(self, target: Path) -> None:
        """Show the host's devices in a directory of ours, since new mount points in `/dev` would appear on the host.

        In a user namespace, a device works only through a mount from outside. So the usual devices are bind mounts, and
        the others are links into the host's `/dev`, which is mounted read-only in a subdirectory. One of the links is
        ptmx, which needs `pts` in the same directory.
        """
        target.mkdir(mode=0o755, exist_ok=True)
        linked = self._user_namespace or not self.lay("/dev", target, Path("/dev").stat())
        if linked:
            beneath = target / _HOST_DEVICES
            beneath.mkdir()
            libc.bind_recursively("/dev", str(beneath))
            with contextlib.suppress(OSError):  # before Linux 5.12, only file modes protect the directory
                libc.make_read_only(str(beneath), recursive=True)
        with os.scandir("/dev") as entries:
            for entry in entries:
                place = target / entry.name
                if entry.name == _CONSOLE:
                    continue
                if entry.path in self.mount_points or (linked and entry.name in _USUAL_DEVICES):
                    if entry.is_dir():
                        place.mkdir(exist_ok=True)
                    else:
                        place.touch()
                    libc.bind_recursively(entry.path, str(place))
                elif linked:
                    link = entry.is_symlink()
                    place.symlink_to(Path(entry.path).readlink() if link else f"{_HOST_DEVICES}/{entry.name}")
        self._show_console(target / _CONSOLE)

    def _show_console(self, place: Path) -> None:
        """Show the container's terminal, if it has one, in place of the machine's console."""
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
        with contextlib.suppress(OSError):  # Not a terminal.
            terminal = os.ttyname(0)
            place.touch()
            libc.bind_recursively(terminal, str(place))


def is_beneath(path: str, directory: str) -> bool:
    """Return whether a path lies in a directory. Only the names are compared."""
    return path.startswith(f"{directory}/")


def liken(path: Path, like: os.stat_result) -> None:
    """Copy the owner and mode of another file or directory."""
    with contextlib.suppress(OSError):  # without root, all files and all processes in the root are ours
        os.chown(path, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


def _escaped(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    for special in "\\,:":
        text = text.replace(special, "\\" + special)
    return text
