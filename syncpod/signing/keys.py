"""The keys of a state directory: who can read them commands its node.

One file for each key, ``keys/<id>.key``, with 32 random bytes in hexadecimal, readable by its owner only. The newest
signs; the others verify what was signed before. ``keys/number`` has the highest number that a command was given.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.messages.signature import key_id
from syncpod.settings.errors import SettingsInvalid

DIRECTORY: Final = "keys"
_SUFFIX: Final = ".key"
_NUMBER: Final = "number"
_BYTES: Final = 32
_LOCK_TRIES: Final = 50
_LOCK_PAUSE_SECONDS: Final = 0.001


@dataclass(frozen=True)
class SigningKeys:
    """The keys that a state directory has."""

    directory: Path
    current: bytes
    """The one that signs."""
    by_id: Mapping[str, bytes]
    """All of them: those that verify."""
    encrypts = False
    """See `syncpod.signing.encrypting_keys`."""

    def number(self) -> int:
        """Return the next number of a command: higher than all before, whatever the clock says. Blocks briefly.

        It is the time in microseconds, if the clock has not gone back. Raises OSError.
        """
        return _next_number(self.directory / _NUMBER)


def make_signing_keys(state_dir: Path) -> SigningKeys:
    """Return the keys of a state directory, with a first one made if it has none. Raises SettingsInvalid."""
    found = read_signing_keys(state_dir)
    return found if found is not None else add_signing_key(state_dir)


def add_signing_key(state_dir: Path) -> SigningKeys:
    """Make another key, which signs from now on; return all. Raises SettingsInvalid."""
    directory = state_dir / DIRECTORY
    key = secrets.token_bytes(_BYTES)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(directory / f"{key_id(key)}{_SUFFIX}", key.hex() + "\n", durable=True)
    except OSError as error:
        raise SettingsInvalid(f"{directory}: a key cannot be made: {error.strerror}") from None
    found = read_signing_keys(state_dir)
    assert found is not None
    return found


def read_signing_keys(state_dir: Path) -> SigningKeys | None:
    """Return the keys of a state directory; None if it has none, or this user may not read them.

    Raises SettingsInvalid if a key is not one, or if others than its owner may read or write it.
    """
    directory = state_dir / DIRECTORY
    try:
        paths = [path for path in directory.iterdir() if path.suffix == _SUFFIX]
        keys = {path: (_read(path), path.stat().st_mtime_ns) for path in paths}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        raise SettingsInvalid(f"{directory}: cannot be read: {error.strerror}") from None
    if not keys:
        return None
    newest = max(keys, key=lambda path: (keys[path][1], path.name))
    return SigningKeys(directory, keys[newest][0], {path.stem: key for path, (key, _) in keys.items()})


def _read(path: Path) -> bytes:
    """Return one key. Raises SettingsInvalid, OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
            raise SettingsInvalid(f"{path}: must be a file of its user alone, with mode 0600 (chmod 600 {path})")
        text = os.read(opened, 4 * _BYTES).decode(errors="replace").strip()
    finally:
        os.close(opened)
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _BYTES or key_id(key) != path.stem:
        raise SettingsInvalid(f"{path}: is no key: restore it, or remove it")
    return key


def _next_number(path: Path) -> int:
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with _locked(opened):
            said = os.pread(opened, 32, 0).strip()
            number = max(time.time_ns() // 1000, (int(said) if said.isdigit() else 0) + 1)
            os.pwrite(opened, f"{number:020d}\n".encode(), 0)
            return number
    finally:
        os.close(opened)


@contextlib.contextmanager
def _locked(opened: int) -> Iterator[None]:
    """Hold the file's lock, if it can be had soon: a holder that was stopped must not stop the node.

    Without it, two processes could give the same microsecond to two commands, one of which a workflow then refuses.
    """
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            break
    yield
