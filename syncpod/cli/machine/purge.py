"""``down --purge``: removes a state directory and its memory directory, except files that are not ours."""

from __future__ import annotations

import contextlib
import errno
import shlex
from pathlib import Path

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.checked_node import context_of
from syncpod.cli.machine.state_directory import MARK, OURS, exclusive, is_marked, mark, pod_directories
from syncpod.journal.file import SIGN_NAME
from syncpod.kernel.mounting import mounts_below, unmount
from syncpod.kernel.os_errors import sentence_of
from syncpod.kernel.tree_removal import remove_tree
from syncpod.node.log_links import links_directory, remove_all_links
from syncpod.node.pod_cgroups import remove_left_tiers
from syncpod.settings.directories import FLEET, require_own_memory_directory
from syncpod.settings.node import MACHINE_LOGS, NodeSettings
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.paths import MOUNTED, PLUGINS, PLUGINS_REGISTRY


def require_ours(directory: Path) -> None:
    """Raise BadInput for a directory that was not created for syncpod alone."""
    with contextlib.suppress(PermissionError):
        mark(directory)
    if not is_marked(directory):
        raise BadInput(
            f"{directory} lacks the file {MARK}, which marks syncpod's own directories: "
            "nothing is ended or removed; remove the files there yourself"
        )


def purge(directory: Path, memory: Path, logs: Path) -> None:
    """Remove an unused state directory, with pods' logs below it, and its memory directory.

    Files that are not ours stay, and so do logs elsewhere; empty directories of logs are removed. Mounts that dead
    workers left for volumes are unmounted; if anything else is mounted there, nothing is removed. Raises Failure with
    the reason.
    """
    _unmount(directory, memory)
    _purge_memory(memory)
    if directory in logs.parents:
        _purge_logs(directory, logs)
    elif logs != MACHINE_LOGS:
        _purge_empty(logs)
    with exclusive(directory):
        names = [*sorted(OURS - {MARK}), MARK]  # the mark goes last, so that an interrupted purge can be repeated
        drafts = sorted(path.name for path in directory.glob(".*.json.new"))
        try:
            for name in (*drafts, *names):
                remove_tree(directory / name)
            _purge_of_drivers(directory)
        except OSError as error:
            raise Failure(f"{directory} cannot be removed completely: {sentence_of(error)}") from None
    left = sorted(path.name for path in directory.iterdir())
    if FLEET in left:
        raise Failure(
            f"{directory} is kept, since {FLEET} in it has the authority and the keys of a fleet: without them its "
            "nodes are kept out, and nobody reads its database; "
            f"if nobody needs that fleet, `rm -r {shlex.quote(str(directory / FLEET))}`"
        )
    if left:
        raise Failure(f"{directory} is kept, since it has files that are not syncpod's: {', '.join(left)}")
    directory.rmdir()


def _purge_of_drivers(directory: Path) -> None:
    """Remove the files that workers made for storage drivers. The drivers' own sockets stay. Raises OSError."""
    remove_tree(directory / PLUGINS / "kubernetes.io")
    for place in (directory / PLUGINS, directory / PLUGINS_REGISTRY):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _purge_logs(directory: Path, logs: Path) -> None:
    """Remove pods' logs and the links to them, then the directories above them that are empty."""
    try:
        remove_all_links(logs)
        for place in pod_directories(logs):
            remove_tree(place)
        while logs != directory and logs.is_dir() and not any(logs.iterdir()):
            logs.rmdir()
            logs = logs.parent
    except OSError as error:
        raise Failure(f"{logs} cannot be removed completely: {sentence_of(error)}") from None


def _purge_empty(logs: Path) -> None:
    """Remove the empty directories of logs, and of the links to them."""
    for place in (links_directory(logs), logs):
        try:
            place.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.ENOTDIR, errno.EBUSY):
                raise Failure(f"{place} cannot be removed: {sentence_of(error)}") from None


def purge_cgroups(here: NodeSettings) -> None:
    """Remove the empty cgroups above the node's pods. Raises Failure."""
    try:
        remove_left_tiers(context_of(here))
    except OSError as error:
        raise Failure(f"the cgroups above the pods cannot be removed: {sentence_of(error)}") from None


def _unmount(directory: Path, memory: Path) -> None:
    """Unmount the volumes that workers left mounted. Raises Failure if anything else is mounted."""
    own = directory.resolve()
    places = [*mounts_below(own), *mounts_below(memory.resolve())]
    others = [place for place in places if not _is_of_a_volume(place, own)]
    try:
        for place in places if not others else ():
            unmount(place)
    except OSError:
        others = list(mounts_below(own))
    if others:
        commands = "; ".join(f"umount -- {shlex.quote(str(place))}" for place in others)
        raise Failure(f"something is mounted in {directory}: `{commands}`, and call `syncpod down --purge` again")


def _is_of_a_volume(place: Path, state_dir: Path) -> bool:
    """Return whether workers mount at this place: a volume in memory, or a subPath of a volume."""
    match place.relative_to(state_dir).parts if place.is_relative_to(state_dir) else ():
        case ("pods", _, "volumes", plugin, _):
            return plugin in MOUNTED
        case ("pods", _, "volume-subpaths", _, _, _):
            return True
    return False


def _purge_memory(memory: Path) -> None:
    """Remove workers' files from the memory directory, and the directory if it is empty then: it has no mark."""
    try:
        require_own_memory_directory(memory)
        for name in ("objects", "pods", SIGN_NAME):
            remove_tree(memory / name)
        with contextlib.suppress(FileNotFoundError):
            if not any(memory.iterdir()):
                memory.rmdir()
    except (SettingsInvalid, OSError) as error:
        raise Failure(f"{memory} cannot be removed completely: {sentence_of(error)}") from None
