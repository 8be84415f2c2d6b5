"""Users and groups of containers: the machine's, or those of an image with its own files."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from syncpod.runtime.images.config import as_id
from syncpod.runtime.images.unpacking import opened_beneath, resolve

_LONGEST: Final = 1024 * 1024
"""Maximum bytes of a passwd or group file that are read."""


@dataclass(frozen=True)
class Account:
    """A user. An unknown user has no name, and group 0, as in runc."""

    name: str
    uid: int
    gid: int
    home: str = "/"


class Accounts(Protocol):
    """A source of users and groups."""

    where: str
    """The end of a sentence: `on this machine` or `in the image`."""

    def named(self, name: str) -> Account | None:
        """Return the user of that name."""

    def numbered(self, uid: int) -> Account:
        """Return the user of that id."""

    def group_named(self, name: str) -> int | None:
        """Return the id of the group of that name."""

    def groups_of(self, account: Account, gid: int) -> tuple[int, ...]:
        """Return the groups that a user is in, including `gid`; none for an unknown user."""


class MachineAccounts:
    """The machine's users and groups."""

    where = "on this machine"

    def named(self, name: str) -> Account | None:
        """Return the user of that name."""
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            return None

    def numbered(self, uid: int) -> Account:
        """Return the user of that id."""
        try:
            return _account(pwd.getpwuid(uid))
        except KeyError:
            return Account("", uid, os.getgid() if uid == os.getuid() else 0)

    def group_named(self, name: str) -> int | None:
        """Return the id of the group of that name."""
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def groups_of(self, account: Account, gid: int) -> tuple[int, ...]:
        """Return the groups that a user is in, including `gid`; none for an unknown user."""
        return tuple(os.getgrouplist(account.name, gid)) if account.name else ()


class ImageAccounts:
    """An image's users and groups: its `/etc/passwd` and `/etc/group`, with links resolved inside the image."""

    where = "in the image"

    def __init__(self, root: Path) -> None:
        self._accounts = [
            Account(fields[0], uid, gid, fields[5] or "/")
            for fields in _lines(root, "passwd", 7)
            if (uid := as_id(fields[2])) is not None and (gid := as_id(fields[3])) is not None
        ]
        self._groups = [
            (fields[0], gid, tuple(fields[3].split(",")))
            for fields in _lines(root, "group", 4)
            if (gid := as_id(fields[2])) is not None
        ]

    def named(self, name: str) -> Account | None:
        """Return the user of that name."""
        return next((account for account in self._accounts if account.name == name), None)

    def numbered(self, uid: int) -> Account:
        """Return the user of that id."""
        return next((account for account in self._accounts if account.uid == uid), Account("", uid, 0))

    def group_named(self, name: str) -> int | None:
        """Return the id of the group of that name."""
        return next((gid for known, gid, _ in self._groups if known == name), None)

    def groups_of(self, account: Account, gid: int) -> tuple[int, ...]:
        """Return the groups that a user is in, including `gid`; none for an unknown user."""
        if not account.name:
            return ()
        return (gid, *(each for _, each, members in self._groups if account.name in members and each != gid))


def image_user(text: str, accounts: Accounts) -> tuple[Account, int]:
    """Return the user and group of an image's `User`: names or ids, `user` or `user:group`.

    An id may be unknown. Raises LookupError, with a sentence, for an unknown name and for an invalid id.
    """
    name, _, group = text.partition(":")
    uid = as_id(name)
    account = accounts.named(name) if uid is None else accounts.numbered(uid)
    if account is None:
        raise LookupError(f'no user "{name}" {accounts.where}')
    if not group:
        return account, account.gid
    gid = as_id(group)
    gid = accounts.group_named(group) if gid is None else gid
    if gid is None:
        raise LookupError(f'no group "{group}" {accounts.where}')
    return account, gid


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def _lines(root: Path, name: str, width: int) -> list[list[str]]:
    """Return the fields of a file in an image's `/etc`, line by line; none if it has no such file.

    This does not block on a FIFO or a device.
    """
    try:
        place = resolve(root, ("etc", name))
        if not stat.S_ISREG(os.lstat(place).st_mode):  # Opening a device may have side effects.
            return []
        with opened_beneath(root, place.relative_to(root)) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                text = file.read(_LONGEST).decode(errors="surrogateescape")
    except (OSError, RecursionError):
        return []
    lines = (line.split(":") for line in text.splitlines() if not line.startswith("#"))
    return [fields for fields in lines if len(fields) == width]
