"""A root of an image's files under one private layer, in which the kernel's directories and the devices are the host's.

What no image can say is the container's own: its hostname, and what the host says of names.
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
"""What the host says of names, also to programs of an image."""


def compose_from_image(root: RootLayers, image: str) -> None:
    """Lay a private layer over an image's files, and show the kernel's directories and the devices in it.

    Raises StartFailed where there can be no such layer, OSError.
    """
    root.begin()
    if not root.lay(image, root.path, Path(image).stat()):
        raise StartFailed("no private layer can be laid over the image's files, since overlayfs refuses one here")
    root.overlays.clear()  # The root itself is no entry of it.
    for name in (*KERNEL, "dev"):
        place = root.path / name
        if place.is_symlink() or not place.is_dir():  # A link would lead out of here, before this is the root.
            place.unlink(missing_ok=True)
            place.mkdir(mode=0o755)
    for name in KERNEL:
        root.share(f"/{name}", root.path / name)
    # What an image has there is hidden, as by the tmpfs that runc mounts.
    libc.mount("tmpfs", str(root.path / "dev"), "tmpfs", 0, "mode=755")
    root.show_devices(root.path / "dev")


def own_files(directory: Path, mounts: tuple[Mount, ...], hostname: str, *, read_only: bool) -> tuple[Mount, ...]:
    """Write what is no image's to say into the container's directory, and return it as mounts; no mount is doubled.

    These are copies, as containerd's are (sandbox_run_linux.go, setupSandboxFiles).
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
