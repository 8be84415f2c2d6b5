"""Gives a volume to the pod's group (securityContext.fsGroup)."""

import os
import stat
from pathlib import Path

_READ_WRITE = 0o660
_READ_ONLY = 0o440
_ENTER = stat.S_ISGID | 0o110


def give_to_group(volume: Path, group: int, *, read_only: bool) -> None:
    """Give everything in a volume to a group, with permission to read and, unless `read_only`, to write.

    New files in its directories will belong to the group, too. Symlinks are changed themselves and never followed.
    Nobody else may change the tree meanwhile. Mirrors volume_linux.go, v1.36, SetVolumeOwnership. Difference: the
    kubelet only logs a file that it cannot change; this raises OSError, because the pod would not get the access that
    it requests.
    """
    _give(os.fspath(volume), group, read_only, None)
    for _, directories, files, here in os.fwalk(volume, follow_symlinks=False):
        for name in (*directories, *files):
            _give(name, group, read_only, here)


def give_volume(volume: Path, group: int, *, only_if_root_differs: bool) -> None:
    """Give a volume that outlives its pods to a group, with permission to write.

    With `only_if_root_differs`, do nothing if its directory belongs to the group already, with these permissions
    (fsGroupChangePolicy OnRootMismatch). Raises OSError.
    """
    if not (only_if_root_differs and _is_given_to(volume, group)):
        give_to_group(volume, group, read_only=False)


def _is_given_to(volume: Path, group: int) -> bool:
    """Return whether a volume's directory belongs to a group that may read and write (requiresPermissionChange)."""
    found = volume.stat()
    wanted = _READ_WRITE | _ENTER
    return found.st_gid == group and stat.S_IMODE(found.st_mode) & wanted == wanted


def change_group(path: str | Path, group: int, directory: int | None = None) -> None:
    """Give one file, directory or symlink to a group. Raises OSError; its text names fsGroup if permission is lacking.

    Only root may choose any group; other users may choose only their own groups.
    """
    try:
        os.chown(path, -1, group, dir_fd=directory, follow_symlinks=False)
    except PermissionError as error:
        why = (
            f"spec.securityContext.fsGroup: must be a group of the worker's user, since it may not give files to "
            f"others (it lacks CAP_CHOWN): group {group}: {error.strerror}"
        )
        raise PermissionError(error.errno, why, os.fspath(path)) from error


def _give(name: str, group: int, read_only: bool, directory: int | None) -> None:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if found.st_gid != group:
        change_group(name, group, directory)
    if stat.S_ISLNK(found.st_mode):
        return
    more = _READ_ONLY if read_only else _READ_WRITE
    if stat.S_ISDIR(found.st_mode):
        more |= _ENTER
    # This must follow the change of group, which clears the setgid bit.
    os.chmod(name, stat.S_IMODE(found.st_mode) | more, dir_fd=directory)
