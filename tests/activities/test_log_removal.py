"""Removing a container's logs follows no link."""

from __future__ import annotations

from pathlib import Path

from activities.containers.removal import remove_logs


def test_log_removal_does_not_follow_a_link_to_another_pods_logs(tmp_path: Path) -> None:
    (theirs := tmp_path / "default_db_1" / "main").mkdir(parents=True)
    (own := tmp_path / "default_web_2").mkdir()
    for name in ("0.log", "0.log.20261121-000000", "0.log.20261121-000001.gz", "1.log"):
        (theirs / name).touch()
    (own / "main").symlink_to(theirs)
    remove_logs(tmp_path, own / "main" / "0.log")
    assert len(list(theirs.iterdir())) == 4
    remove_logs(tmp_path, theirs / "0.log")
    assert [path.name for path in theirs.iterdir()] == ["1.log"]
    remove_logs(tmp_path, tmp_path / "gone" / "main" / "0.log")
