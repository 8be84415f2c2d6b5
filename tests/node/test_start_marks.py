"""Start marks: one for each container of a pod, written atomically even on a full disk or in a crash.

Holds: No instance starts twice.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from syncpod.node import start_marks
from syncpod.node.start_marks import StartMark, read_start_mark, withdraw_start_mark, write_start_mark
from syncpod.translation.context import NodeContext
from tests.e2e.faults_disk import filled, small_disk
from tests.translation.translation import NODE

UID = "uid-1"


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return replace(NODE, state_dir=tmp_path)


def mark(restart: int = 0, **more: Any) -> StartMark:
    at = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    given = {"id": f"c{restart}", "restart": restart, "incarnation": "life-1", "sandbox_id": "s0", "at": at, **more}
    return StartMark(**given)


def files(node: NodeContext) -> list[str]:
    return sorted(str(each.relative_to(node.state_dir)) for each in node.state_dir.rglob("*") if each.is_file())


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_start_mark_is_read_back_and_is_private(node: NodeContext) -> None:
    write_start_mark(node, UID, "web", mark())
    assert read_start_mark(node, UID, "web") == mark()
    assert read_start_mark(node, UID, "api") is None
    assert read_start_mark(node, "another", "web") is None
    [path] = node.state_dir.rglob("web")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_container_has_only_the_mark_of_its_newest_instance(node: NodeContext) -> None:
    for restart in range(20):
        write_start_mark(node, UID, "web", mark(restart))
        write_start_mark(node, UID, "api", mark(restart))
    assert read_start_mark(node, UID, "web") == mark(19)
    assert files(node) == [f"pods/{UID}/starts/api", f"pods/{UID}/starts/web"]


def test_a_withdrawn_mark_is_void_and_can_be_restored(node: NodeContext) -> None:
    write_start_mark(node, UID, "web", mark(3))
    write_start_mark(node, UID, "api", mark(id="other"))
    assert withdraw_start_mark(node, UID, "unknown") is None
    withdrawn = withdraw_start_mark(node, UID, "c3")
    assert withdrawn is not None
    assert read_start_mark(node, UID, "web") is None
    assert withdraw_start_mark(node, UID, "c3") is None
    withdrawn.put_back()
    assert read_start_mark(node, UID, "web") == mark(3)
    again = withdraw_start_mark(node, UID, "c3")
    assert again is not None
    again.drop()
    again.drop()
    assert files(node) == [f"pods/{UID}/starts/api"]


def test_withdrawing_a_mark_that_does_not_exist_does_nothing(node: NodeContext) -> None:
    assert withdraw_start_mark(node, UID, "c0") is None


def test_on_a_full_disk_a_mark_overwrites_the_previous_one_in_place(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_start_mark(node, UID, "web", mark())
    [path] = node.state_dir.rglob("web")
    monkeypatch.setattr(start_marks, "replace_file", full)
    later = mark(2**31 - 2, id="f" * 64, incarnation="e" * 36, sandbox_id="d" * 64)
    for each in (later, mark(1)):
        write_start_mark(node, UID, "web", each)
        assert (read_start_mark(node, UID, "web"), path.stat().st_size) == (each, 512)


def test_on_a_full_disk_a_first_mark_is_refused(node: NodeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_marks, "replace_file", full)
    with pytest.raises(OSError, match="No space left"):
        write_start_mark(node, UID, "web", mark())
    assert files(node) == []


def test_on_a_really_full_disk_only_a_containers_first_mark_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path, megabytes=1) as disk:
        node = replace(NODE, state_dir=disk)
        write_start_mark(node, UID, "web", mark())
        with filled(disk):
            write_start_mark(node, UID, "web", mark(1))
            with pytest.raises(OSError, match="No space left"):
                write_start_mark(node, UID, "api", mark())
            withdrawn = withdraw_start_mark(node, UID, "c1")
            assert withdrawn is not None
            withdrawn.put_back()
            assert (read_start_mark(node, UID, "web"), read_start_mark(node, UID, "api")) == (mark(1), None)
        write_start_mark(node, UID, "api", mark())
        assert read_start_mark(node, UID, "api") == mark()


def test_a_mark_too_large_for_the_previous_file_replaces_it(node: NodeContext) -> None:
    for each in (mark(), mark(1, id="long" * 200), mark(2)):
        write_start_mark(node, UID, "web", each)
        assert read_start_mark(node, UID, "web") == each
    assert files(node) == [f"pods/{UID}/starts/web"]


def test_a_mark_that_cannot_be_read_is_logged_and_does_not_count(
    node: NodeContext, caplog: pytest.LogCaptureFixture
) -> None:
    write_start_mark(node, UID, "web", mark())
    [path] = node.state_dir.rglob("web")
    path.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert read_start_mark(node, UID, "web") is None
    assert "does not name the instance that was started" in caplog.text
