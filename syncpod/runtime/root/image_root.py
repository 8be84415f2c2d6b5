"""A root with an image's files under one private layer, and the host's kernel directories and devices.

Two things that are never in an image are added: the host name, and the host's name resolution.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from syncpod.kernel import libc
from syncpod.runtime.port import Mount, StartFailed
from syncpod.runtime.root.host_root import HOSTNAME
from syncpod.runtime.root.layers import KERNEL, RootLayers

_HOST_FILES = ("/etc/hosts", "/etc/resolv.conf")
"""The host's name resolution, which an image's programs use too."""


def compose_from_image(root: RootLayers, image: str) -> None:
    """Make a private layer over an image's files, and show kernel directories and devices in it.

    Raises StartFailed if such a layer is impossible, and OSError.
    """
    root.begin()
    if not root.lay(image, root.path, Path(image).stat()):
        raise StartFailed("no private layer can be laid over the image's files, since overlayfs refuses one here")
    root.overlays.clear()  # the root is not one of its own entries
    for name in (*KERNEL, "dev"):
        place = root.path / name
        if place.is_symlink() or not place.is_dir():  # a link would lead out, since this is not the root yet
            place.unlink(missing_ok=True)
            place.mkdir(mode=0o755)
    for name in KERNEL:
        root.share(f"/{name}", root.path / name)
    # The tmpfs hides an image's own files there, as in runc.
    libc.mount("tmpfs", str(root.path / "dev"), "tmpfs", 0, "mode=755")
    root.show_devices(root.path / "dev")


def own_files(directory: Path, mounts: tuple[Mount, ...], hostname: str, *, read_only: bool) -> tuple[Mount, ...]:
    """Write the host name and the host's name resolution into the container's directory, and return their mounts.

    A file is left out if the container has its own mount at that path. The files are copies, as in containerd
    (sandbox_run_linux.go, setupSandboxFiles).
    """
    taken = {os.path.normpath(mount.container_path) for mount in mounts}
    wanted: dict[str, bytes] = {f"/{HOSTNAME}": f"{hostname}\n".encode()} if hostname else {}
    for path in _HOST_FILES:
        with contextlib.suppress(OSError):
            wanted[path] = Path(path).read_bytes()
    made = []
    for path, content in wanted.items():
        if path not in taken:
            own = directory / os.path.basename(path)  # noqa: PTH119
            own.write_bytes(content)
            own.chmod(0o644)
            made.append(Mount(path, str(own), read_only=read_only))
    return tuple(made)
