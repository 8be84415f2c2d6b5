"""hostPath volumes: checks a path of the node against its type, and makes it if the type allows that."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from syncpod.pod.enums import HostPathType

_CHECKS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class HostPathUnfit(Exception):
    """The path does not have the type that the pod names; the text is the kubelet's."""


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path of the node, and the type it must have."""

    path: Path
    type: HostPathType


def check_host_path(place: HostPath) -> None:
    """Check a hostPath, and make it if it is missing and its type is `…OrCreate`. Blocks; safe to repeat.

    Raises HostPathUnfit if something else is there (hostpath/host_path.go, v1.37, checkTypeInternal), and OSError.
    """
    if place.type == "":
        return
    mode = _mode_of(place.path)
    if mode is None and place.type == "DirectoryOrCreate":
        place.path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif mode is None and place.type == "FileOrCreate":
        os.close(os.open(place.path, os.O_CREAT | os.O_CLOEXEC, 0o644))
    is_right, wanted = _CHECKS[place.type]
    mode = _mode_of(place.path)
    if mode is None or not is_right(mode):
        raise HostPathUnfit(_misfit(place.path, wanted))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _misfit(path: Path, wanted: str) -> str:
    """Return the kubelet's words for a path of a wrong type, with its type (typeMatchedOrError)."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        why = f'path "{path}" does not exist'
    except NotADirectoryError:
        why = f"stat {path}: not a directory"
    else:
        kind = next((kind for kind, (is_right, _) in _CHECKS.items() if is_right(mode)), "")
        if kind:
            return f"hostPath type check failed: {path} is not {wanted}, it's a {kind}"
        why = "only recognise file, directory, socket, block device and character device"
    return f"hostPath type check failed, {path} is not {wanted}, unable to determine its type: {why}"
