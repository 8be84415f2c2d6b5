"""A root directory of one's own, made of the host's or an image's: what a container writes outside mounts is private.

First the root is put together (`host_root.py`, `image_root.py`, on `root_layers.py`), then it becomes the process's and
the container's mounts are laid over it (`root_mounts.py`). All of this happens in a mount namespace that ends with the
container's last process, so there is nothing to unmount.
"""

from __future__ import annotations

import os
from pathlib import Path

from syncpod.kernel import libc
from syncpod.runtime.port import Mount
from syncpod.runtime.root.host_root import compose_from_host
from syncpod.runtime.root.image_root import compose_from_image, own_files
from syncpod.runtime.root.layers import LAYERS, ROOT, RootLayers
from syncpod.runtime.root.mounts import RootMounts, in_order, opened_source


def enter(
    directory: Path,
    mounts: tuple[Mount, ...],
    *,
    image: str,
    read_only: bool,
    hostname: str,
    user_namespace: bool,
    cwd: str,
) -> None:
    """Move this process, which has one thread, into namespaces and a root of its own, made under `directory`.

    It is made of the files in `image`, of the host's where that is empty. The working directory `cwd` is made there if
    it is missing, as runc does. Raises StartFailed for a mount that cannot be made, OSError where the kernel refuses
    the rest.
    """
    uid, gid = os.geteuid(), os.getegid()
    libc.unshare(
        libc.CLONE_NEWNS | (libc.CLONE_NEWUTS if hostname else 0) | (libc.CLONE_NEWUSER if user_namespace else 0)
    )
    if user_namespace:
        _map_own_user(uid, gid)
    if hostname:
        libc.sethostname(hostname)
    libc.mount("", "/", "", libc.MS_REC | libc.MS_PRIVATE)
    if image:
        mounts = (*own_files(directory, mounts, hostname, read_only=read_only), *mounts)
    mounts = in_order(mounts)
    sources = [opened_source(mount) for mount in mounts]
    root = RootLayers(directory, user_namespace=user_namespace)
    if image:
        compose_from_image(root, image)
    else:
        compose_from_host(root, directory, hostname)
    old = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir(root.path)
    libc.pivot_root()
    # The old root now lies over the new one, unseen by absolute paths; the sources still belong to this namespace.
    laid = RootMounts(root)
    if read_only:
        laid.freeze_shared()
    for mount, source in zip(mounts, sources, strict=True):
        laid.add(mount, source)
    if cwd:
        laid.make_directory(cwd)
    if read_only:
        laid.freeze_private()
    os.fchdir(old)
    libc.unmount(".", libc.MNT_DETACH)
    os.close(old)
    os.chdir("/")


def written_to(directory: Path) -> tuple[Path, ...]:
    """Return where what the container writes to its own root lands, given its directory; none if it has no root.

    As seen from outside, where nothing is mounted: the root is what was made in it, such as /tmp.
    """
    return tuple(path for path in (directory / ROOT, *(directory / LAYERS).glob("*/upper")) if path.is_dir())


def _map_own_user(uid: int, gid: int) -> None:
    """Map our user and group to themselves, the only ones an unprivileged process may map."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
