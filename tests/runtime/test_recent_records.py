"""The server of the embedded runtime reads recent records without reading their files again."""

from __future__ import annotations

from pathlib import Path

from syncpod.runtime import store


def test_a_record_is_read_once_until_it_is_written_anew_or_removed(tmp_path: Path) -> None:
    store.write_record(tmp_path, {"n": 1}, b"first")
    assert store.recent_record(tmp_path) == ({"n": 1}, b"first")
    (tmp_path / "record").write_bytes(b"nobody else writes it")
    assert store.recent_record(tmp_path) == ({"n": 1}, b"first")
    store.write_record(tmp_path, {"n": 2}, b"second")
    assert store.recent_record(tmp_path) == ({"n": 2}, b"second")
    store.forget(tmp_path)
    assert store.recent_record(tmp_path) is None
    store.write_record(tmp_path, {"n": 3}, b"third")
    assert store.recent_record(tmp_path) is not None
    store.unmake(tmp_path)
    assert store.recent_record(tmp_path) is None


def test_only_some_records_are_kept(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(store._RECENT + 1)]
    for directory in directories:
        directory.mkdir()
        store.write_record(directory, {}, b"kept")
        store.recent_record(directory)
    for directory in directories:
        (directory / "record").unlink()
    assert [directory for directory in directories if store.recent_record(directory) is None] == directories[:1]
