"""Notice of the end of any process, and pids in different namespaces."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from syncpod.kernel.process_end import listening, shares_pids


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until it is killed, and is reaped after that."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


async def test_the_end_of_a_process_is_heard_when_it_comes_and_after_it(process: subprocess.Popen[bytes]) -> None:
    heard = asyncio.Event()
    with listening(process.pid, heard.set):
        assert not heard.is_set()
        process.kill()
        async with asyncio.timeout(60):
            await heard.wait()
    heard.clear()
    with listening(process.pid, heard.set):  # it is still to be reaped
        async with asyncio.timeout(60):
            await heard.wait()
    process.wait()
    heard.clear()
    with listening(process.pid, heard.set):
        assert heard.is_set()


async def test_what_ends_after_the_block_is_not_heard(process: subprocess.Popen[bytes]) -> None:
    heard: list[bool] = []
    with listening(process.pid, lambda: heard.append(True)):
        pass
    process.kill()
    process.wait()
    await asyncio.sleep(0)
    assert heard == []


def test_pids_are_shared_within_a_namespace() -> None:
    assert shares_pids(os.getpid())
    assert not shares_pids(0)  # a process of another namespace
