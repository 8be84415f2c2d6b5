"""Files that change all at once: one rename replaces a volume's set of files, as in atomic_writer.go, v1.36.

::

    volume/
        ..2026_11_21_15_04_05.123456789/     one whole set of files, never changed once it is shown
            key
            directory/key
        ..data -> ..2026_11_21_15_04_05.123456789      replaced by rename: this is the change
        key -> ..data/key                              a path that readers open
        directory -> ..data/directory

Readers of the links see either the old set or the new one, even after a crash at any point. The next write removes the
leftovers of a crash.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from syncpod.volumes.payload import Payload, PayloadFile

DATA: Final = "..data"
_DATA_DRAFT: Final = "..data_tmp"
_SET: Final = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+")
"""The names of directories that each hold one set of files."""
_DIRECTORY = 0o755
_READABLE: Final = 0o444
_NANOSECONDS = 1_000_000_000


def write(volume: Path, payload: Payload, before_shown: Callable[[], None] = lambda: None) -> bool:
    """Make the volume, an existing directory, show exactly these files; return whether anything changed.

    Files get their mode independently of the umask. `before_shown` changes the files' owners; it is called after a new
    set is written and before it is shown. If the volume shows these bytes already, nothing is written, and modes stay,
    since they may have been widened for a group. Only one writer may work at a time. Blocks. Raises OSError; the old
    set is then still shown.
    """
    shown = _shown(volume)
    changed = shown is None or not _holds(volume / shown, payload)
    if changed:
        fresh = _make_set(volume, payload)
        before_shown()
        _show(volume, fresh)
        shown = fresh
    wanted = {path.partition("/")[0] for path in payload}
    # Links are made after the set is shown, so that every link leads somewhere.
    for name in sorted(wanted):
        _link(volume, name)
    _clear_away(volume, wanted, shown)
    return changed


def _shown(volume: Path) -> str | None:
    """Return the name of the set that is shown; None if there is none, or it is gone."""
    try:
        name = os.readlink(volume / DATA)  # noqa: PTH115
        whole = _SET.fullmatch(name) and stat.S_ISDIR((volume / name).lstat().st_mode)
    except FileNotFoundError:
        return None
    return name if whole else None


def _holds(directory: Path, payload: Payload) -> bool:
    """Return whether a set has exactly these bytes at these paths."""
    found = dict(_sizes(directory, ""))
    if found != {path: len(file.data) for path, file in payload.items()}:
        return False
    return all((directory / path).read_bytes() == file.data for path, file in payload.items())


def _sizes(directory: Path, above: str) -> Iterator[tuple[str, int]]:
    """Yield each file's path and size; the size of anything but a file or directory is -1."""
    with os.scandir(directory) as entries:
        for entry in entries:
            path = f"{above}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(directory / entry.name, f"{path}/")
            else:
                found = entry.stat(follow_symlinks=False)
                yield path, found.st_size if stat.S_ISREG(found.st_mode) else -1


def _make_set(volume: Path, payload: Payload) -> str:
    """Write a new set of files, to which no link leads yet, and return its name."""
    directory = _make_directory(volume)
    for path, file in payload.items():
        above = directory
        for name in path.split("/")[:-1]:
            above /= name
            above.mkdir(exist_ok=True)
            above.chmod(_DIRECTORY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(directory / path, flags, 0o600), "wb") as opened:
            opened.write(file.data)
            os.fchmod(opened.fileno(), _mode(opened.fileno(), file))
    return directory.name


def _mode(opened: int, file: PayloadFile) -> int:
    """Give a file to its user, if it has one, and return its mode.

    If the worker may not change owners, all users may read the file, as in a pod that names no user. (The kubelet only
    logs the failure.)
    """
    if file.owner is not None:
        try:
            os.fchown(opened, file.owner, -1)
        except PermissionError:
            return file.mode | _READABLE
    return file.mode


def _make_directory(volume: Path) -> Path:
    while True:
        seconds, nanoseconds = divmod(time.time_ns(), _NANOSECONDS)
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S", time.gmtime(seconds))
        directory = volume / f"..{stamp}.{nanoseconds:09}"
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        directory.chmod(_DIRECTORY)
        return directory


def _show(volume: Path, fresh: str) -> None:
    draft = volume / _DATA_DRAFT
    draft.unlink(missing_ok=True)
    draft.symlink_to(fresh)
    draft.rename(volume / DATA)


def _link(volume: Path, name: str) -> None:
    """Make a link that leads into the shown set, through ``..data``.

    If a directory has the link's name, it stays: another volume is mounted there. Raises FileExistsError if anything
    else has it.
    """
    link, target = volume / name, f"{DATA}/{name}"
    if link.is_dir() and not link.is_symlink():
        return
    if not link.is_symlink():
        link.symlink_to(target)
    elif os.readlink(link) != target:  # noqa: PTH115
        link.unlink()
        link.symlink_to(target)


def _clear_away(volume: Path, wanted: set[str], shown: str | None) -> None:
    """Remove links that lead nowhere, sets that are not shown, and the leftovers of a crashed writer."""
    for entry in sorted(os.listdir(volume)):  # noqa: PTH208
        path = volume / entry
        if entry == _DATA_DRAFT or (path.is_symlink() and entry != DATA and entry not in wanted):
            path.unlink()
        elif _SET.fullmatch(entry) and entry != shown:
            shutil.rmtree(path)
