"""What a container's root is made of: private layers over directories, the host's own directories, and its devices.

A layer's writes stay in the container's own directory. Everything here happens in the mount namespace of a container,
before the root is its own.
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
"""Top-level directories that are the kernel's, and the host's own in any root."""
_HOST_DEVICES = ".machine"
_CONSOLE = "console"
_USUAL_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Those that runc makes (OCI's default devices)."""


class RootLayers:
    """The root directory of one container while it is put together."""

    def __init__(self, directory: Path, *, user_namespace: bool) -> None:
        """Make it under the container's `directory`; with a `user_namespace` overlays keep their marks as users do."""
        self.path = directory / ROOT
        self.mount_points = tuple(mount.mount_point for mount in read_mounts())
        self.hidden = os.path.realpath(directory.parents[1])
        """Where the containers' own directories are: not shown, since this root is in one of them."""
        self.shared: list[str] = []
        """Entries that are the host's own: nothing is made in them."""
        self.overlays: list[str] = []
        """Entries that lie under a private layer, or are private files."""
        self._layers = directory / LAYERS
        self._user_namespace = user_namespace
        self._attributes = ",userxattr" if user_namespace else ""

    def begin(self) -> None:
        """Make the root's directory, and that of the layers."""
        self.path.mkdir(mode=0o755)
        self.path.chmod(0o755)
        self._layers.mkdir(mode=0o700)

    def share(self, path: str, target: Path) -> None:
        """Show a directory of the host's as it is."""
        target.mkdir(exist_ok=True)
        libc.bind_recursively(path, str(target))
        self.shared.append(path)

    def lay(self, lower: str, target: Path, like: os.stat_result, *, without_state: bool = False) -> bool:
        """Lay a private layer over a directory; False where that cannot be.

        What holds the containers' own state is shown `without_state`.
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
            # Volatile: nothing of it need survive a crash of the machine, and nothing waits for a disk.
            for more in (",volatile", ""):
                with contextlib.suppress(OSError):
                    libc.mount("overlay", str(target), "overlay", 0, options + more)
                    self.overlays.append(f"/{target.relative_to(self.path)}")
                    return True
        return False

    def _without_state(self, path: str, layer: Path) -> str:
        """Return where a directory of the host's is shown without the containers' own; raises OSError.

        It is an overlay of nothing but a whiteout, so the private layer over it has a lower one that it is not in.
        """
        mask, shown = layer / "mask", layer / "shown"
        mask.mkdir(exist_ok=True)
        shown.mkdir(exist_ok=True)
        libc.mount("tmpfs", str(mask), "tmpfs", 0, "mode=755")
        hidden = Path(self.hidden).relative_to(path)
        (mask / hidden.parent).mkdir(parents=True, exist_ok=True)
        os.mknod(mask / hidden, stat.S_IFCHR)
        for above in hidden.parents:  # From the bottom up: we may not be let into what is like the host's.
            liken(mask / above, (path / above).stat())
        options = f"lowerdir={_escaped(mask)}:{_escaped(path)}{self._attributes}"
        libc.mount("overlay", str(shown), "overlay", libc.MS_RDONLY, options)
        return str(shown)

    def show_devices(self, target: Path) -> None:
        """Show the host's devices in a directory of our own: a mount point made in `/dev` would be made on the host.

        In a user namespace a device works only through a mount from outside. There the usual ones are bound, and others
        are links into the host's `/dev`, which lies read-only beneath; so is ptmx, which looks for `pts` beside it.
        """
        target.mkdir(mode=0o755, exist_ok=True)
        linked = self._user_namespace or not self.lay("/dev", target, Path("/dev").stat())
        if linked:
            beneath = target / _HOST_DEVICES
            beneath.mkdir()
            libc.bind_recursively("/dev", str(beneath))
            with contextlib.suppress(OSError):  # Before Linux 5.12 only the modes of what is there protect it.
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
        """Have the container's terminal, if it has one, in the place of the machine's console."""
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
        with contextlib.suppress(OSError):  # Not a terminal.
            terminal = os.ttyname(0)
            place.touch()
            libc.bind_recursively(terminal, str(place))


def is_beneath(path: str, directory: str) -> bool:
    """Say whether a path lies in a directory, by their names alone."""
    return path.startswith(f"{directory}/")


def liken(path: Path, like: os.stat_result) -> None:
    """Give a directory the owner and mode of another."""
    with contextlib.suppress(OSError):  # Without root it is ours, as is everybody who sees it.
        os.chown(path, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


def _escaped(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    for special in "\\,:":
        text = text.replace(special, "\\" + special)
    return text
