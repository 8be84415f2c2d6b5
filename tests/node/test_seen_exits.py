"""Exits that the node observed replace only those that the runtime does not know.

Holds: An exit is known even if the runtime was down.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.atomic_file import replace_file
from syncpod.lifecycle.exit import STATUS_UNKNOWN, Exit
from syncpod.node import seen_exits as module
from syncpod.node.seen_exits import SeenExits

AT = datetime(2026, 1, 1, 12, 30, 1, 250_000, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


UNKNOWN = Exit(id="c1", name="web", exit_code=255, reason="Unknown", started_at=AT, finished_at=LATER)
"""The exit in a runtime that was down when the container ended."""


def modes(*paths: Path) -> list[int]:
    return [path.stat().st_mode & 0o777 for path in paths]


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "exits"


@pytest.mark.parametrize(("code", "reason"), [(7, "Error"), (0, "Completed")])
async def test_an_unknown_exit_is_replaced_by_the_observed_one(directory: Path, code: int, reason: str) -> None:
    exits = SeenExits(directory)
    exits.note("c1", code, AT)
    told = await exits.complete(UNKNOWN)
    assert (told.exit_code, told.reason, told.finished_at) == (code, reason, AT)


async def test_an_observed_exit_replaces_code_255_of_a_killed_shim(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.note("c1", 137, AT)
    told = await exits.complete(Exit(id="c1", exit_code=255, reason="Error"))
    assert (told.exit_code, told.reason) == (137, "Error")


async def test_an_observed_exit_replaces_that_of_a_start_which_the_runtime_gave_up(directory: Path) -> None:
    exits = SeenExits(directory)
    given_up = Exit(id="c1", exit_code=137, reason=STATUS_UNKNOWN, message="The runtime gave up", finished_at=LATER)
    assert await exits.complete(given_up) == given_up
    exits.note("c1", 0, AT)
    told = await exits.complete(given_up)
    assert (told.exit_code, told.reason, told.message, told.finished_at) == (0, "Completed", "", AT)


async def test_exit_code_255_without_an_observed_exit_is_kept(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.expect("c1")
    exits.give_up("c1")
    assert await exits.complete(UNKNOWN) == UNKNOWN


@pytest.mark.parametrize(
    "known",
    [Exit(id="c1", exit_code=code, reason=reason) for code, reason in ((1, "Error"), (137, "OOMKilled"))],
    ids=str,
)
async def test_an_exit_known_to_the_runtime_is_kept(directory: Path, known: Exit) -> None:
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    assert await exits.complete(known) == known
    assert await SeenExits(directory / "other").complete(known) == known


async def test_observed_exits_survive_a_worker_restart_in_private_files(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    await exits.settled()
    assert (await SeenExits(directory).complete(UNKNOWN)).exit_code == 7
    assert modes(directory, directory / "c1") == [0o700, 0o600]


@pytest.mark.parametrize("written", [True, False])
async def test_an_observed_exit_is_removed_with_its_container(directory: Path, written: bool) -> None:
    exits = SeenExits(directory)
    exits.note("c0", 7, AT)
    await exits.settled()
    exits.note("c1", 7, AT)
    if written:
        await exits.settled()
    exits.forget(exits.ids())
    await exits.settled()
    assert (exits.ids(), files(directory)) == (frozenset(), [])


async def test_observed_exits_are_written_off_the_event_loop_and_the_last_one_counts(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand containers may end at once on a disk that hangs; the noted exits count at once."""
    hangs, threads = threading.Event(), set[int]()
    write = replace_file

    def slowly(*given: Any, **how: Any) -> None:
        threads.add(threading.get_ident())
        assert hangs.wait(10)
        write(*given, **how)

    monkeypatch.setattr(module, "replace_file", slowly)
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    await asyncio.sleep(0)
    exits.note("c1", 0, AT)
    exits.note("c2", 9, AT)
    assert (await exits.complete(UNKNOWN)).exit_code == 0
    hangs.set()
    await exits.settled()
    assert threading.get_ident() not in threads
    assert files(directory) == ["c1", "c2"]
    assert (await SeenExits(directory).complete(UNKNOWN)).exit_code == 0


async def test_observed_exits_are_written_even_if_all_shared_threads_hang(directory: Path) -> None:
    hangs = threading.Event()
    hanging = [asyncio.to_thread(hangs.wait, 30) for _ in range(64)]
    everything = asyncio.gather(*hanging)
    await asyncio.sleep(0)
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    try:
        async with asyncio.timeout(60):
            await exits.settled()
        assert files(directory) == ["c1"]
    finally:
        hangs.set()
        await everything


async def test_an_exit_that_cannot_be_written_is_logged_and_still_counts(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "replace_file", no_room)
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    await exits.settled()
    assert re.search(rf"{directory}/c1 cannot be written: .*No space left on device", caplog.text)
    assert (await exits.complete(UNKNOWN)).exit_code == 7


def test_a_file_that_is_not_a_record_of_an_exit_is_skipped(directory: Path) -> None:
    directory.mkdir()
    (directory / "c1").write_text("{")
    (directory / "c2").write_text("[]")
    (directory / ".c3.new").write_text('{"exitCode"')
    assert SeenExits(directory).ids() == frozenset()
    assert not (directory / ".c3.new").exists()


async def test_an_unsafe_container_id_is_not_written(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.note("../c1", 7, AT)
    assert exits.ids() == frozenset()
