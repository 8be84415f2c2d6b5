"""Ensures one worker per node: the lock on the node's state directory, the machine it belongs to, the boot counter.

The lock is the kernel's, so it ends with its holder, however the holder ends. But a worker that is killed while it
waits for a hanging disk ends only once that disk answers. The next worker does not wait for that: it puts a new lock
file in place of the held one. In the same directory, ``node.json`` has the node's name, its machine, the directory's
id, and the boot counter, which makes every listing of this worker newer than all earlier ones
(:class:`syncpod.lifecycle.observed.Seq`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.killed import is_killed_with
from syncpod.kernel.os_errors import where_and_why
from syncpod.settings.directories import NODE_FILE, note_place

log = logging.getLogger("syncpod.worker")

_ENDING_SECONDS: Final = 1.0
"""Seconds that a killed worker may take to end; after that it counts as waiting for a hanging disk."""

_PAUSE_SECONDS: Final = 0.01

_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class NotThisNode(Exception):
    """The process may not serve the node; the text says why, in one sentence."""


def machine_id(files: tuple[Path, ...] = _MACHINE_ID_FILES) -> str | None:
    """Return a hash that identifies this machine (the id itself is not meant to be shown); None if there is no id.

    A container image often has no machine id; then the state directory alone identifies the machine.
    """
    for file in files:
        try:
            said = file.read_text(errors="replace").strip()
        except OSError:
            continue
        if said and said != "uninitialized":
            return hashlib.sha256(f"syncpod:{said}".encode()).hexdigest()[:12]
    return None


@dataclass(frozen=True)
class NodeLife:
    """One life of a node's worker."""

    node: str
    machine: str
    """A hash of the machine's id and the state directory's random id."""
    boot: int
    """The number of this life, larger than those of all earlier lives."""

    @property
    def identity(self) -> str:
        """The identity of the worker in Temporal: ``<node>/<machine>/<boot>``."""
        return f"{self.node}/{self.machine}/{self.boot}"


class NodeLock:
    """An exclusive lock on a state directory, which is created (0700) if it is missing; held until `release` or death.

    Raises NotThisNode if another live worker holds it, or if the directory belongs to another node or machine. With
    `may_rename` the directory may belong to another node; then the caller ensures that the other node has no pods.
    """

    def __init__(self, state_dir: Path, node: str, *, machine: str | None, may_rename: bool = False) -> None:
        self.state_dir = state_dir
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            state_dir.chmod(0o700)
            self._lock = self._held()
        except OSError as error:
            raise NotThisNode(f"state directory {state_dir}: {error.strerror} (--state-dir names another)") from error
        try:
            self.life = self._begin(node, machine, may_rename=may_rename)
        except OSError as error:  # a full disk: without a new number this life would be mistaken for the previous one
            self.release()
            raise NotThisNode(f"state directory {state_dir}: {error.strerror} (--state-dir names another)") from error
        except BaseException:
            self.release()
            raise

    def _held(self) -> int:
        """Return the lock file, open and locked, with this process's id in it. Raises NotThisNode, OSError."""
        directory = os.open(self.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)  # for a moment: only one worker at a time replaces the file
            lock = self._locked(self.state_dir / "lock") or self._replaced()
            try:
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            except BaseException:
                os.close(lock)
                raise
            return lock
        finally:
            os.close(directory)

    def _locked(self, path: Path) -> int | None:
        """Open and lock a file; None if a killed worker still holds the lock. Raises NotThisNode, OSError."""
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            hangs_at = time.monotonic() + _ENDING_SECONDS
            while not _is_locked(lock):
                holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
                was_killed = re.fullmatch("[0-9]{1,10}", holder) and is_killed_with(int(holder), lock)
                if not was_killed and not _is_locked(lock):  # once more, in case the holder has just ended
                    whose = f"process {holder}" if holder else "another process"
                    raise NotThisNode(
                        f"state directory {self.state_dir} is in use by the worker in {whose}: one worker serves a node"
                    )
                if was_killed and time.monotonic() > hangs_at:
                    os.close(lock)
                    return None
                time.sleep(_PAUSE_SECONDS)
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _replaced(self) -> int:
        """Replace the lock file that a killed worker holds by a new one, and return the new one open and locked.

        This is safe: the killed worker can complete nothing but the one hanging call, on a pod's files. Raises OSError.
        """
        log.warning("a killed worker of this node waits for a disk that does not answer; this one serves in its place")
        fresh = self.state_dir / "lock.new"
        fresh.unlink(missing_ok=True)
        lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.rename(self.state_dir / "lock")
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _begin(self, node: str, machine: str | None, *, may_rename: bool) -> NodeLife:
        """Give this life its number, and write the number to disk before it is used. Raises NotThisNode, OSError."""
        path = self.state_dir / NODE_FILE
        said = _read(path)
        if said and said["node"] != node and not may_rename:
            raise NotThisNode(
                f"state directory {self.state_dir} belongs to node {said['node']}: "
                f"give node {node} one of its own (--state-dir), or keep the name (--node {said['node']})"
            )
        if said and machine and said["machine"] and said["machine"] != machine:
            raise NotThisNode(
                f"state directory {self.state_dir} belongs to another machine: two machines must never serve one node; "
                f"if it was moved here for good, remove {path}"
            )
        place = said["place"] if said else uuid.uuid4().hex
        # Listings of this life must be newer than all that the workflows have, even if the state directory was lost or
        # restored from a copy, or if the node's last worker used another one. Seconds since 1970 exceed the number of
        # each earlier life, if the clock was not set back and lives lasted at least a second.
        boot = max(said["boot"] + 1 if said else 0, int(time.time()))
        note_place(self.state_dir)
        said = {"node": node, "machine": machine, "place": place, "boot": boot}
        replace_file(path, json.dumps(said) + "\n", durable=True)
        digest = hashlib.sha256(f"{machine}:{place}".encode()).hexdigest()[:12]
        return NodeLife(node, digest, boot)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def node_of(state_dir: Path) -> str:
    """Return the node that a state directory belongs to; "" = none yet. Raises NotThisNode if it cannot be read."""
    said = _read(state_dir / NODE_FILE)
    return said["node"] if said else ""


def _is_locked(file: int) -> bool:
    """Try to lock an open file; False if another process holds the lock. Locking it again returns True."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> dict[str, Any] | None:
    """Return ``node.json`` of an earlier worker; None if there is none. Raises NotThisNode if it is unreadable."""
    try:
        said = json.loads(path.read_text())
        return {
            "node": str(said["node"]),
            "machine": said["machine"],
            "place": str(said["place"]),
            "boot": int(said["boot"]),
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotThisNode(f"{path} cannot be read ({where_and_why(error)}): restore it, or remove it") from error
