from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.agent.record_cache import RecordCache
from syncpod.node import pod_records
from syncpod.node.pod_records import RECORD_NAME, PodRecord, mark_pod_record, read_pod_record, write_pod_record
from syncpod.pod import ObjectMeta, Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory, pods_directory


class Records:
    """A node's records, with a count of derivations; the derived value is the pod's name, or None for `nothing`."""

    def __init__(self, directory: Path) -> None:
        self.node = NodeContext(
            name="n", state_dir=directory, memory_dir=directory, log_dir=directory, cluster="c/default"
        )
        self.derived: list[str] = []
        self.cache = RecordCache(self.node, self._derive)

    def _derive(self, record: PodRecord) -> str | None:
        name = record.pod.metadata.name
        self.derived.append(name)
        return name if name != "nothing" else None

    def write(self, uid: str, name: str) -> None:
        pod_directory(self.node, uid).mkdir(parents=True, exist_ok=True)
        write_pod_record(self.node, PodRecord(pod=Pod(metadata=ObjectMeta(name=name, uid=uid))))


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_a_node_without_pods_has_nothing(records: Records) -> None:
    assert records.cache.read() == {}


def test_only_changed_records_are_read_again(records: Records) -> None:
    records.write("u1", "one")
    records.write("u2", "nothing")
    assert records.cache.read() == {"u1": "one"}
    assert records.cache.read() == {"u1": "one"}
    assert sorted(records.derived) == ["nothing", "one"]

    records.write("u1", "uno")
    assert records.cache.read() == {"u1": "uno"}
    assert sorted(records.derived) == ["nothing", "one", "uno"]


def test_a_missing_or_torn_record_is_dropped_until_it_is_valid_again(records: Records) -> None:
    records.write("u1", "one")
    records.write("u2", "two")
    records.cache.read()
    (pod_directory(records.node, "u1") / RECORD_NAME).unlink()
    (pod_directory(records.node, "u2") / RECORD_NAME).write_text("{torn")
    assert records.cache.read() == {}
    records.write("u1", "one")
    records.write("u2", "two")
    assert records.cache.read() == {"u1": "one", "u2": "two"}


@pytest.fixture
def settled(records: Records) -> Records:
    """Three records that were read after their last change had settled, so that their files are not read again."""
    for number in (1, 2, 3):
        records.write(f"u{number}", f"pod-{number}")
    _settle(records)
    records.cache.read()
    return records


def _settle(records: Records) -> None:
    """Set the time of the last change further back."""
    pods = pods_directory(records.node)
    before = pods.stat().st_mtime_ns - 10 * 10**9
    os.utime(pods, ns=(before, before))


def test_while_no_record_changes_none_is_looked_at(settled: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(_: object) -> Iterator[object]:
        raise AssertionError("the records were looked at")

    monkeypatch.setattr(settled.cache, "_versions", looked)
    assert settled.cache.read() == {"u1": "pod-1", "u2": "pod-2", "u3": "pod-3"}


@pytest.mark.parametrize("change", ["written", "marked", "removed", "added"])
def test_each_change_is_read_although_none_has_been_for_long(settled: Records, change: str) -> None:
    directory = pod_directory(settled.node, "u1")
    if change == "written":
        settled.write("u1", "uno")
        expected = {"u1": "uno", "u2": "pod-2", "u3": "pod-3"}
    elif change == "marked":
        record = read_pod_record(settled.node, "u1")
        assert record is not None
        mark_pod_record(settled.node, record, "finished")
        settled.cache.read()
        assert settled.derived.count("pod-1") == 2
        return
    elif change == "removed":
        (directory / RECORD_NAME).unlink()
        directory.rmdir()
        expected = {"u2": "pod-2", "u3": "pod-3"}
    else:
        settled.write("u4", "pod-4")
        expected = {"u1": "pod-1", "u2": "pod-2", "u3": "pod-3", "u4": "pod-4"}
    assert settled.cache.read() == expected


def test_a_change_right_after_a_read_is_read_although_the_time_of_the_directory_is_the_same(records: Records) -> None:
    """The kernel's file clock ticks rarely: two changes within a tick leave the same time."""
    records.write("u1", "one")
    first = pods_directory(records.node).stat().st_mtime_ns
    records.cache.read()
    records.write("u1", "uno")
    os.utime(pods_directory(records.node), ns=(first, first))
    assert records.cache.read() == {"u1": "uno"}


def test_a_record_that_somebody_has_edited_is_read_in_the_end(
    settled: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pod_directory(settled.node, "u1") / RECORD_NAME
    path.write_text(path.read_text().replace("pod-1", "edited"))
    assert settled.cache.read()["u1"] == "pod-1"
    monkeypatch.setattr(settled.cache, "_look_at", 0.0)
    assert settled.cache.read()["u1"] == "edited"


def test_directories_of_no_pod_are_skipped(records: Records) -> None:
    records.write("u1", "one")
    pods = pod_directory(records.node, "u1").parent
    (pods / "file").touch()
    (pods / ".hidden").mkdir()
    (pods / ".hidden" / RECORD_NAME).write_text("{}")
    assert records.cache.read() == {"u1": "one"}


def test_in_place_changes_within_one_timestamp_tick_are_read(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that has filled the disk is evicted: its volumes are emptied once it is known to have finished."""
    records.write("u1", "one")
    write = os.pwrite

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def within_a_tick(file: int, data: bytes, at: int) -> int:
        before = os.fstat(file)
        written = write(file, data, at)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return written

    monkeypatch.setattr(pod_records, "replace_file", full)
    monkeypatch.setattr(os, "pwrite", within_a_tick)
    cache = RecordCache(records.node, lambda record: (record.evicted, record.finished))
    seen = [cache.read()["u1"]]
    for mark in ("evicted", "finished"):
        record = read_pod_record(records.node, "u1")
        assert record is not None
        mark_pod_record(records.node, record, mark)
        seen.append(cache.read()["u1"])
    assert seen == [(False, False), (True, False), (True, True)]
