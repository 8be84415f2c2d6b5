"""A directory is trusted only if nobody else could have written to it, or put it there.

Holds: Nothing is read in a directory that another account could have written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from syncpod.kernel.ownership import NotOurs, require_ours

STRANGER = os.geteuid() + 20001
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")


def made(path: Path, mode: int = 0o700, owner: int = 0) -> Path:
    path.mkdir()
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


def test_a_directory_of_our_own_and_one_that_does_not_exist_yet_are_trusted(tmp_path: Path) -> None:
    require_ours(made(tmp_path / "state"))
    require_ours(tmp_path / "state" / "not" / "there")
    require_ours(made(made(tmp_path / "shared", 0o1777) / "state"))
    (tmp_path / "link").symlink_to("state/../shared/state")
    require_ours(tmp_path / "link")


def test_a_directory_that_another_account_may_write_to_is_refused(tmp_path: Path) -> None:
    theirs = made(tmp_path / "theirs", owner=STRANGER)
    open_to_all, to_a_group = made(tmp_path / "all", 0o777), made(tmp_path / "group", 0o770)
    os.chown(to_a_group, 0, STRANGER)
    (tmp_path / "file").touch()
    for place, why in (
        (theirs, f"{theirs} belongs to user {STRANGER}"),
        (open_to_all, f"{open_to_all} is writable by others (mode 0777)"),
        (to_a_group, f"{to_a_group} is writable by others (mode 0770)"),
        (tmp_path / "file", f"{tmp_path}/file is not a directory"),
    ):
        with pytest.raises(NotOurs) as refused:
            require_ours(place)
        assert str(refused.value) == why


def test_a_directory_that_another_account_could_replace_is_refused(tmp_path: Path) -> None:
    theirs, open_to_all, sticky = (
        made(tmp_path / "theirs", 0o755, STRANGER),
        made(tmp_path / "all", 0o777),
        made(tmp_path / "sticky", 0o1777),
    )
    for parent in (theirs, open_to_all):
        made(parent / "state")
        with pytest.raises(NotOurs, match=str(parent)):
            require_ours(parent / "state")
        with pytest.raises(NotOurs, match=str(parent)):
            require_ours(parent / "not-there")
    (sticky / "link").symlink_to(made(tmp_path / "state"))
    require_ours(sticky / "link")
    os.lchown(sticky / "link", STRANGER, STRANGER)
    with pytest.raises(NotOurs, match=f"link that user {STRANGER} has made"):
        require_ours(sticky / "link")
    (tmp_path / "through").symlink_to(theirs / "state")
    with pytest.raises(NotOurs, match="theirs"):
        require_ours(tmp_path / "through")
