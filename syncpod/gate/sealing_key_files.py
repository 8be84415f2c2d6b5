"""The files of a fleet's own sealing keys. These keys open all messages of its nodes, and all its objects.

Each key has a file, ``sealing/<id>.key``, PEM, readable by its owner only. The file ``sealing/current`` names the key
in use: objects are sealed for it, and nodes come to trust it. The other keys still open the objects that were sealed
for them. ``sealing/number`` has the highest number of a message that has named a key to a node.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from syncpod.gate.authority import Fleet, locked
from syncpod.kernel.atomic_file import replace_file, sync_directory
from syncpod.kernel.next_number import next_number
from syncpod.messages.sealing import public_key_id
from syncpod.settings.values import SettingsInvalid

DIRECTORY: Final = "sealing"
_SUFFIX: Final = ".key"
_CURRENT: Final = "current"
_NUMBER: Final = "number"
_ID: Final = re.compile(r"[0-9a-f]{16}")
_LARGEST_BYTES: Final = 4096


class SealingKeyFiles:
    """The directory of one fleet's sealing keys.

    Each method blocks, and raises OSError, and SettingsInvalid for a damaged file.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.directory = fleet.directory / DIRECTORY

    def read(self) -> dict[str, EllipticCurvePrivateKey]:
        """Return all keys by id, first the one in use, and then the newest first. Without any, make the first one."""
        if not self._paths():
            with locked(self._fleet.directory):
                if not self._paths():
                    self._use(self._make())
        paths = self._paths()
        current = self._named_current()
        if current not in paths:  # a process was killed before it had named the first key
            current = _by_age(paths)[-1]
        others = [named for named in reversed(_by_age(paths)) if named != current]
        return {named: _read(paths[named]) for named in (current, *others)}

    def create(self) -> str:
        """Make another key, which is not in use yet; return its id."""
        before = next(iter(self.read()))
        with locked(self._fleet.directory):
            if self._named_current() != before:  # without a name, the new key would be the one in use
                self._use(before)
            return self._make()

    def use(self, named: str) -> None:
        """Use the key of this id from now on. It counts as made now, so that it is the newest."""
        with locked(self._fleet.directory):
            if self._named_current() != named:
                self._use(named)

    def remove(self, named: str) -> None:
        """Remove the key of this id: objects that were sealed for it can no longer be opened."""
        with locked(self._fleet.directory):
            (self.directory / f"{named}{_SUFFIX}").unlink()
            sync_directory(self.directory)

    def made_at(self, named: str) -> float:
        """Return when the key of this id was made, or first used, in seconds since 1970."""
        return self._path(named).stat().st_mtime

    def changed(self) -> int:
        """Return a number that changes whenever a key is made, used or removed."""
        return self.directory.stat().st_mtime_ns

    def number(self) -> int:
        """Return a number for a message to nodes about a key: higher than all before, even if the clock is set back."""
        return next_number(self.directory / _NUMBER)

    def _make(self) -> str:
        key = generate_private_key(SECP256R1())
        named = public_key_id(key.public_key())
        self.directory.mkdir(mode=0o700, exist_ok=True)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_file(self._path(named), pem, durable=True)
        return named

    def _use(self, named: str) -> None:
        os.utime(self._path(named))
        replace_file(self.directory / _CURRENT, named + "\n", durable=True)

    def _path(self, named: str) -> Path:
        return self.directory / f"{named}{_SUFFIX}"

    def _paths(self) -> dict[str, Path]:
        return {path.stem: path for path in self.directory.glob(f"*{_SUFFIX}") if _ID.fullmatch(path.stem)}

    def _named_current(self) -> str:
        try:
            return (self.directory / _CURRENT).read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""


def _by_age(paths: dict[str, Path]) -> list[str]:
    return sorted(paths, key=lambda named: (paths[named].stat().st_mtime_ns, named))


def _read(path: Path) -> EllipticCurvePrivateKey:
    """Return one key. Raises SettingsInvalid, OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
            raise SettingsInvalid(f"{path}: must be a file of its user alone, with mode 0600 (chmod 600 {path})")
        pem = os.read(opened, _LARGEST_BYTES)
    finally:
        os.close(opened)
    try:
        key = load_pem_private_key(pem, password=None)
    except ValueError:
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or public_key_id(key.public_key()) != path.stem:
        raise SettingsInvalid(f"{path}: is not the private key of this id: restore it")
    return key
