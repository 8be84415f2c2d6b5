"""The keys of a state directory. Anybody who can read them can command its node.

Each key has a file, ``keys/<id>.key``, with 32 random bytes in hexadecimal, readable by its owner only. The file
``keys/current`` names the key that signs; without the file, the newest key does. The other keys verify earlier
signatures. ``keys/number`` has the highest number of a command so far.

Signatures use a key itself; encryption uses keys that are derived from it. Both find keys by id in a
:class:`SigningKeys`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file, sync_directory
from syncpod.kernel.next_number import next_number
from syncpod.messages.signature import Keys, key_id
from syncpod.settings.values import SettingsInvalid

log = logging.getLogger(__name__)

DIRECTORY: Final = "keys"
_SUFFIX: Final = ".key"
_CURRENT: Final = "current"
_NUMBER: Final = "number"
_BYTES: Final = 32
_ID: Final = re.compile(r"[0-9a-f]{16}")
LOOK_SECONDS = 1.0
"""Seconds for which a removed key may still be accepted; an added key is found at once."""


class SigningKeys:
    """The keys of a state directory, read again when the directory changes.

    An added key verifies at once. A change of the key that signs takes effect within a second. If the directory can no
    longer be read, the keys that were read last go on to sign and to verify.
    """

    encrypts = False
    """Whether payloads are encrypted too; :class:`EncryptingKeys` has True."""

    def __init__(self, directory: Path) -> None:
        """Read the keys. Raises SettingsInvalid, OSError; LookupError if there is none."""
        self.directory = directory
        self._changed = _changed(directory)
        self._keys, self._current = _read_all(directory)
        self._next_look = time.monotonic() + LOOK_SECONDS

    @property
    def current(self) -> bytes:
        """The key that signs."""
        self._look()
        return self._current

    @property
    def by_id(self) -> Mapping[str, bytes]:
        """All keys, by :func:`~syncpod.messages.signature.key_id`: any of them verifies."""
        return _ById(self)

    def known(self) -> Mapping[str, bytes]:
        """Return the keys that were read last."""
        return self._keys

    def find(self, named: str) -> bytes | None:
        """Return the key of this id, None if there is none. A new file is found at once."""
        self._look()
        if named not in self._keys and _ID.fullmatch(named):
            with contextlib.suppress(OSError):  # senders choose the id, so an unknown id costs only this one call
                (self.directory / f"{named}{_SUFFIX}").lstat()
                self._read_again()
        return self._keys.get(named)

    def made_at(self, named: str) -> float:
        """Return when the key of this id was made, in seconds since 1970. Raises OSError."""
        return (self.directory / f"{named}{_SUFFIX}").stat().st_mtime

    def number(self) -> int:
        """Return the next number of a command: higher than all before, even if the clock is set back. Blocks briefly.

        It is the time in microseconds unless the clock was set back. Raises OSError.
        """
        return next_number(self.directory / _NUMBER)

    def _look(self) -> None:
        """Read the keys again if they have changed. Checks once a second, since this is called for each payload."""
        if (now := time.monotonic()) < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        with contextlib.suppress(OSError):
            if _changed(self.directory) != self._changed:
                self._read_again()

    def _read_again(self) -> None:
        try:
            self._changed = _changed(self.directory)
            self._keys, self._current = _read_all(self.directory)
        except (SettingsInvalid, LookupError, OSError) as error:
            log.warning("the keys in %s cannot be read again, those that are known go on: %s", self.directory, error)


class EncryptingKeys:
    """Keys with which payloads are encrypted too: those of `keys`, with `encrypts` set."""

    encrypts = True

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    @property
    def current(self) -> bytes:
        """The key that signs and encrypts."""
        return self._keys.current

    @property
    def by_id(self) -> Mapping[str, bytes]:
        """All keys by id: any of them verifies and decrypts."""
        return self._keys.by_id

    def number(self) -> int:
        """Return the next number of a command: higher than all before. Raises OSError."""
        return self._keys.number()


class _ById(Mapping[str, bytes]):
    """The keys of a directory as a mapping, whose look-up also finds a key that was added since."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys

    def __getitem__(self, named: str) -> bytes:
        key = self._keys.find(named)
        if key is None:
            raise KeyError(named)
        return key

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys.known())

    def __len__(self) -> int:
        return len(self._keys.known())


def make_signing_keys(state_dir: Path) -> SigningKeys:
    """Return the keys of a state directory, with a first one made if it has none. Raises SettingsInvalid."""
    found = read_signing_keys(state_dir)
    return found if found is not None else add_signing_key(state_dir)


def add_signing_key(state_dir: Path) -> SigningKeys:
    """Make another key, which signs from now on; return all. Raises SettingsInvalid."""
    use_signing_key(state_dir, create_signing_key(state_dir))
    found = read_signing_keys(state_dir)
    assert found is not None
    return found


def create_signing_key(state_dir: Path) -> str:
    """Make another key, which verifies from now on but does not sign; return its id. Raises SettingsInvalid."""
    directory, before = state_dir / DIRECTORY, read_signing_keys(state_dir)
    key = secrets.token_bytes(_BYTES)
    named = key_id(key)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if before is not None and not _named_current(directory):  # without a named key, the new one would sign
            replace_file(directory / _CURRENT, key_id(before.current) + "\n", durable=True)
        replace_file(directory / f"{named}{_SUFFIX}", key.hex() + "\n", durable=True)
    except OSError as error:
        raise SettingsInvalid(f"{directory}: a key cannot be made: {error.strerror}") from None
    return named


def use_signing_key(state_dir: Path, named: str) -> None:
    """Sign with the key of this id from now on. Its file gets the present time, so that it is the newest.

    Raises SettingsInvalid.
    """
    directory = state_dir / DIRECTORY
    try:
        if _named_current(directory) == named:
            return
        os.utime(directory / f"{named}{_SUFFIX}")
        replace_file(directory / _CURRENT, named + "\n", durable=True)
    except OSError as error:
        raise SettingsInvalid(f"{directory}: key {named} cannot be used: {error.strerror}") from None


def remove_signing_key(state_dir: Path, named: str) -> None:
    """Remove the key of this id: commands that it has signed are refused from now on. Raises OSError."""
    (state_dir / DIRECTORY / f"{named}{_SUFFIX}").unlink()
    sync_directory(state_dir / DIRECTORY)


def read_signing_keys(state_dir: Path) -> SigningKeys | None:
    """Return the keys of a state directory; None if it has none, or this user may not read them.

    Raises SettingsInvalid if a file does not hold a key, or if others than its owner may read or write it.
    """
    directory = state_dir / DIRECTORY
    try:
        return SigningKeys(directory)
    except (LookupError, FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        raise SettingsInvalid(f"{directory}: cannot be read: {error.strerror}") from None


def _changed(directory: Path) -> int:
    """Return when a file was last made, replaced or removed in a directory. Raises OSError."""
    return directory.stat().st_mtime_ns


def _read_all(directory: Path) -> tuple[dict[str, bytes], bytes]:
    """Return all keys by id, and the one that signs. Raises SettingsInvalid, OSError; LookupError if there is none."""
    paths = {path.stem: path for path in directory.iterdir() if path.suffix == _SUFFIX}
    if not paths:
        raise LookupError(directory)
    keys = {named: _read(path) for named, path in paths.items()}
    current = _named_current(directory)
    if current not in keys:
        current = max(keys, key=lambda named: (paths[named].stat().st_mtime_ns, named))
    return keys, keys[current]


def _named_current(directory: Path) -> str:
    """Return the id of the key that `keys/current` names; "" if there is no such file. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        return (directory / _CURRENT).read_text(errors="replace").strip()
    return ""


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
