"""A private root directory, made from the host's or an image's files. Only writes to mounts have an effect outside.

First the root is assembled (`host_root.py`, `image_root.py`, with `layers.py`), then it becomes the process's root, and
the container's mounts are made over it (`mounts.py`). All this happens in a mount namespace that ends with the
container's last process, so nothing needs to be unmounted.
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
    """Move this single-threaded process into its own namespaces and root, made under `directory`.

    The root has the files in `image`, or the host's if `image` is empty. The working directory `cwd` is made if
    missing, as in runc. Raises StartFailed for a mount that cannot be made, OSError for other failures.
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
    # The old root is now mounted over the new one, and absolute paths do not reach it; but the mounts' sources are
    # still in this namespace.
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
    """Return the directories that receive a container's writes to its own root; none without such a root.

    The paths are for processes outside its mount namespace. There the root directory only has entries that were made in
    it, such as /tmp.
    """
    return tuple(path for path in (directory / ROOT, *(directory / LAYERS).glob("*/upper")) if path.is_dir())


def _map_own_user(uid: int, gid: int) -> None:
    """Map our user and group to themselves; an unprivileged process may map no others."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
