"""Volumes get the pod's fsGroup with the right permissions."""

import errno
import os
import stat
from pathlib import Path

import pytest

from syncpod.volumes.ownership import give_to_group

GROUP = 2000 if os.geteuid() == 0 else os.getegid()


def found(path: Path) -> tuple[str, int]:
    status = path.lstat()
    return oct(stat.S_IMODE(status.st_mode)), status.st_gid


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volume"
    (volume / "deep/er").mkdir(parents=True)
    for path in (volume, volume / "deep", volume / "deep/er"):
        path.chmod(0o700)
    (volume / "deep/er/file").touch()
    (volume / "deep/er/file").chmod(0o400)
    (volume / "program").touch()
    (volume / "program").chmod(0o755)
    (tmp_path / "outside").touch(0o600)
    (volume / "link").symlink_to(tmp_path / "outside")
    return volume


@pytest.mark.parametrize(
    ("read_only", "directory", "file", "program"),
    [(False, "0o2770", "0o660", "0o775"), (True, "0o2750", "0o440", "0o755")],
    ids=["to be written", "to be read"],
)
def test_permissions_of_a_volume_given_to_a_group(
    read_only: bool, directory: str, file: str, program: str, volume: Path
) -> None:
    give_to_group(volume, GROUP, read_only=read_only)
    assert [found(path) for path in (volume, volume / "deep", volume / "deep/er")] == [(directory, GROUP)] * 3
    assert found(volume / "deep/er/file") == (file, GROUP)
    assert found(volume / "program") == (program, GROUP)


def test_ownership_changes_a_symlink_and_not_its_target(volume: Path, tmp_path: Path) -> None:
    give_to_group(volume, GROUP, read_only=False)
    assert found(volume / "link")[1] == GROUP
    assert found(tmp_path / "outside") == ("0o600", os.getegid())


def test_setting_ownership_twice_changes_nothing_more(volume: Path) -> None:
    give_to_group(volume, GROUP, read_only=False)
    give_to_group(volume, GROUP, read_only=False)
    assert found(volume) == ("0o2770", GROUP)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may give to anybody")
def test_a_group_that_this_user_is_not_in_is_an_error(volume: Path) -> None:
    with pytest.raises(PermissionError):
        give_to_group(volume, 54321, read_only=False)


def test_a_refused_group_change_names_the_fs_group_field(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chown(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", chown)
    with pytest.raises(PermissionError, match=r"spec\.securityContext\.fsGroup: must be a group of .* group 3000"):
        give_to_group(volume, 3000, read_only=False)
