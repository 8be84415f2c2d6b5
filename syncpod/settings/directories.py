"""The directories of a node: where it keeps its state, and where it keeps what must not reach a disk."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.mountinfo import read_mounts
from syncpod.kernel.ownership import NotOurs, require_ours
from syncpod.settings.table import MEMORY_DIR
from syncpod.settings.values import SettingsInvalid

STATE_DIR: Final = "SYNCPOD_STATE_DIR"
"""The environment variable that names a state directory."""
NODE_FILE: Final = "node.json"
"""The file in a state directory with its node's name and machine (`syncpod.agent.takeover.lock`)."""
PLACE_FILE: Final = "place.json"
"""The file in a state directory with a random id of its own, and its path."""
MADE_BY_MANIFESTS: Final = "manifest-pods.json"
"""The file in a state directory that stores which manifest made which pod: namespace and name by path."""
FLEET: Final = "fleet"
"""The subdirectory of a fleet that is commanded from a state directory: the fleet's authority and keys."""
_IN_MEMORY = ("tmpfs", "ramfs")


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the default state directory: ``/var/lib/syncpod`` as root, else ``$XDG_STATE_HOME/syncpod``."""
    if os.geteuid() == 0:
        return Path("/var/lib/syncpod")
    home = Path(environ.get("HOME") or "~").expanduser()
    return Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "syncpod"


def memory_directory(state_dir: Path, environ: Mapping[str, str]) -> Path:
    """Return where the node with this state directory keeps Secrets; creates nothing.

    If SYNCPOD_MEMORY_DIR is set, that is the place. Otherwise it is a directory for this state directory alone: below
    the user's runtime directory (as root: /run) or /dev/shm, the first that is a memory file system; else below the
    state directory. The worker and the command line get the same answer. Raises SettingsInvalid.
    """
    if environ.get(MEMORY_DIR.variable):
        return MEMORY_DIR.read(environ)
    user = os.geteuid()
    own = hashlib.sha256(os.path.realpath(state_dir).encode()).hexdigest()[:12]
    private = "/run" if user == 0 else environ.get("XDG_RUNTIME_DIR", "")
    if private and Path(private).is_dir() and is_in_memory(Path(private)):
        return Path(private) / f"syncpod-{own}"
    shared = Path("/dev/shm")
    if shared.is_dir() and is_in_memory(shared):
        return shared / f"syncpod-{user}-{own}"
    return state_dir / "memory"


def require_own_directory(what: str, path: Path, variable: str) -> None:
    """Raise SettingsInvalid if another account could have written to this directory, or can replace it.

    Raise it also if this user may not read the directory. The directory's files are trusted: they decide which
    processes are signalled, and which files are appended to. `what` names the directory in the error, and `variable`
    the setting that can name another directory. Blocks.
    """
    try:
        require_ours(path)
    except NotOurs as why:
        raise SettingsInvalid(
            f"{what} {path}: {why}: it must belong to this user and be writable by nobody else, like the directories "
            f"above it; name another one in {variable}"
        ) from None
    except OSError as error:
        raise SettingsInvalid(f"{what} {path}: {error.strerror}; name another one in {variable}") from None
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK, effective_ids=True):
        raise SettingsInvalid(
            f"{what} {path}: belongs to user {path.stat().st_uid}, and you may not read it; "
            f"name another one in {variable}"
        )


def require_no_copy(state_dir: Path) -> None:
    """Raise SettingsInvalid if the state directory is a copy of another one that is still there.

    The records in a copy name the other directory's node or fleet, its containers and its processes. A directory that
    was moved is no copy: nothing is left where it was last served. Blocks.
    """
    place, path = _place_of(state_dir)
    origin = Path(path)
    if not place or origin == state_dir or _place_of(origin)[0] != place:
        return
    is_fleets = not (state_dir / NODE_FILE).exists() and (state_dir / FLEET).is_dir()
    what, ending = ("fleet", "fleet down") if is_fleets else ("node", "down --keep-pods")
    with contextlib.suppress(OSError):
        if not origin.samefile(state_dir):  # a link, or the same directory mounted twice
            raise SettingsInvalid(
                f"state directory {state_dir} is a copy of {origin}, and cannot serve its {what} too: name {origin} in "
                f"{STATE_DIR}, or an empty directory for another {what}; if the {what} is to move here, end it there "
                f"(`syncpod {ending}`) and remove {origin}"
            )


def note_place(state_dir: Path) -> None:
    """Record the path of a state directory, unless it is recorded. `require_no_copy` recognizes a copy by this record.

    Called by each process that serves a node or a fleet from the directory. The subdirectory of a fleet, with its keys,
    may be copied alone, since the record is not in it. Blocks. Raises OSError.
    """
    here = os.path.realpath(state_dir)
    with alone_in(state_dir):
        place, path = _place_of(state_dir)
        if path != here:
            said = {"place": place or uuid.uuid4().hex, "path": here}
            replace_file(state_dir / PLACE_FILE, json.dumps(said) + "\n", durable=True)


@contextlib.contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Lock a directory for the block: other processes and threads that lock it wait. Blocks. Raises OSError.

    It is for the first files of a directory that several commands may find new at once.
    """
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _place_of(state_dir: Path) -> tuple[str, str]:
    """Return a state directory's random id, and the path at which it was last served; each is "" if unknown."""
    try:
        said = json.loads((state_dir / PLACE_FILE).read_text())
        return str(said["place"]), str(said["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""


def require_own_manifests(path: Path) -> None:
    """Raise SettingsInvalid if another account could have written to the directory of manifests, or can replace it.

    The node runs the pods of its manifests with all the privileges that they request. Blocks.
    """
    try:
        require_ours(path)
    except NotOurs as why:
        raise SettingsInvalid(
            f"manifest directory {path}: {why}: it must belong to this user and be writable by nobody else, like the "
            "directories above it"
        ) from None
    except OSError as error:
        raise SettingsInvalid(f"manifest directory {path}: {error.strerror}") from None


def is_in_memory(path: Path) -> bool:
    """Say whether a path, or its nearest existing parent, lies on a memory file system. Blocks."""
    existing = next(place for place in (path, *path.parents) if place.exists())
    number = existing.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        mounts = read_mounts()
    except OSError:
        return False
    return next((mount.file_system for mount in mounts if mount.device == device), None) in _IN_MEMORY


def make_memory_directory(path: Path) -> None:
    """Create the memory directory with mode 0700 if it does not exist.

    Its parent may be writable by everybody, so an existing path is accepted only if it is a directory (not a link) that
    this user owns; its mode is then set to 0700. Raises SettingsInvalid.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        require_own_memory_directory(path)
        path.chmod(0o700)
    except OSError as error:
        raise SettingsInvalid(f"memory directory {path}: cannot be created: {error.strerror} ({MEMORY_DIR})") from None


def require_own_memory_directory(path: Path) -> None:
    """Raise SettingsInvalid if the path exists and is not a directory that this user owns."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SettingsInvalid(
            f"memory directory {path}: exists, but is not a directory that this user owns: remove it, or name another "
            f"one in {MEMORY_DIR}"
        )
