"""Memory pages of programs are freed when the node is idle: once after its start, and again after work."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from syncpod.agent.housekeeping import free_memory
from syncpod.agent.housekeeping.free_memory import ProgramPages, free_worker_and_server
from syncpod.settings.process_records import SERVER_FILE, recorded_server_pid


async def test_they_are_freed_after_the_start_and_again_after_work_though_the_kernel_refuses() -> None:
    freed, loop = asyncio.Semaphore(0), asyncio.get_running_loop()

    def refused() -> None:
        loop.call_soon_threadsafe(freed.release)
        raise PermissionError

    pages = ProgramPages(refused, rest=0.0, pause=0.0)
    running = asyncio.create_task(pages.run())
    await freed.acquire()
    for _ in range(20):
        await asyncio.sleep(0)
    assert freed.locked()  # nothing is done, so nothing is freed again
    pages.worked()
    await freed.acquire()
    running.cancel()


async def test_work_puts_it_off() -> None:
    freed: list[str] = []
    pages = ProgramPages(lambda: freed.append("now"), rest=3600.0, pause=0.0)
    running = asyncio.create_task(pages.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not freed
    running.cancel()


def test_the_workers_own_are_freed_and_those_of_the_directorys_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[object] = []
    monkeypatch.setattr(free_memory, "malloc_trim", lambda: done.append("heap"))
    monkeypatch.setattr(free_memory, "free_own_pages", lambda: done.append("own"))
    monkeypatch.setattr(free_memory, "free_program_pages", done.append)
    free_worker_and_server(tmp_path)
    (tmp_path / SERVER_FILE).write_text(json.dumps({"process": {"pid": os.getpid()}}))
    free_worker_and_server(tmp_path)
    assert done == ["heap", "own", "heap", "own", os.getpid()]


@pytest.mark.parametrize("text", ["", "[]", '{"process": {}}', '{"process": {"pid": "1"}}', '{"process": {"pid": -1}}'])
def test_a_record_that_names_no_process_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / SERVER_FILE).write_text(text)
    assert recorded_server_pid(tmp_path) is None
