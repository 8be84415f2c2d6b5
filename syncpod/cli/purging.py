"""``down --purge``: removing a state directory and what is in memory for it, and nothing that is not ours."""

from __future__ import annotations

import contextlib
from pathlib import Path

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.state_directory import MARK, OURS, exclusive, is_marked, mark
from syncpod.node_settings import SettingsInvalid, require_own_memory_directory


def require_ours(directory: Path) -> None:
    """Raise BadInput for a directory that was not made for syncpod alone."""
    with contextlib.suppress(PermissionError):
        mark(directory)
    if not is_marked(directory):
        raise BadInput(
            f"{directory} lacks the file {MARK}, by which syncpod knows a directory of its own: "
            "nothing is ended or removed; remove what you do not need there yourself"
        )


def purge(directory: Path, memory: Path) -> None:
    """Remove a state directory and a memory directory that nobody uses any more; raises Failure, naming the hindrance.

    What others have put there stays. So does everything where something is still mounted.
    """
    from syncpod.cri.tree_removal import remove_tree

    mounts = [*_mounts_below(directory), *_mounts_below(memory)]
    if mounts:
        raise Failure(f"{mounts[0]} is a mount point: unmount it, and call `syncpod down --purge` again")
    _purge_memory(memory)
    with exclusive(directory):
        names = [*sorted(OURS - {MARK}), MARK]  # the mark goes last: what was interrupted may be repeated
        drafts = sorted(path.name for path in directory.glob(".*.json.new"))
        try:
            for name in (*drafts, *names):
                remove_tree(directory / name)
        except OSError as error:
            raise Failure(f"{directory} cannot be removed altogether: {error}") from None
    left = sorted(path.name for path in directory.iterdir())
    if left:
        raise Failure(f"{directory} is kept, since others have put something there: {', '.join(left)}")
    directory.rmdir()


def _purge_memory(memory: Path) -> None:
    """Remove what is in memory. It bears no mark: only what workers put there goes, and then it, if nothing is left."""
    from syncpod.cri.tree_removal import remove_tree

    try:
        require_own_memory_directory(memory)
        for name in ("objects", "pods"):
            remove_tree(memory / name)
        with contextlib.suppress(FileNotFoundError):
            if not any(memory.iterdir()):
                memory.rmdir()
    except (SettingsInvalid, OSError) as error:
        raise Failure(f"{memory} cannot be removed altogether: {error}") from None


def _mounts_below(directory: Path) -> list[str]:
    inside = f"{directory.resolve()}/"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [place for place in places if place.startswith(inside)]
