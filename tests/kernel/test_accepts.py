"""The log lines of a process that cannot accept connections."""

import asyncio
import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.listening import ACCEPT_WARNING_SECONDS, log_failed_accepts

CROWDED = """
import asyncio, os, resource, socket, sys
from syncpod.kernel.listening import log_failed_accepts

async def main():
    loop = asyncio.get_running_loop()
    log_failed_accepts(loop)
    served = asyncio.Event()
    client = socket.socket(socket.AF_UNIX)
    await asyncio.start_unix_server(lambda reader, writer: served.set(), sys.argv[1])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    client.connect(sys.argv[1])
    tried = asyncio.Event()
    retry = loop._start_serving  # asyncio schedules it when an accept has failed
    loop._start_serving = lambda *args: (tried.set(), retry(*args))
    await tried.wait()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    await served.wait()

asyncio.run(main())
"""


def test_a_process_without_descriptors_says_so_in_one_sentence_and_accepts_again(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CROWDED, str(tmp_path / "socket")], capture_output=True, text=True, timeout=60
    )
    sentence = f"no new connection is accepted, and each second it is tried again: {os.strerror(errno.EMFILE)}\n"
    assert (ran.returncode, ran.stderr) == (0, sentence)


async def test_it_is_said_again_only_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    tries = (0.0, 1.0, ACCEPT_WARNING_SECONDS - 1, ACCEPT_WARNING_SECONDS)
    log_failed_accepts(loop, iter(tries).__next__)
    full: dict[str, Any] = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    }
    with caplog.at_level(logging.WARNING):
        for _ in tries:
            loop.call_exception_handler(full)
        assert len(caplog.records) == 2
        loop.call_exception_handler({"message": "something else", "exception": ValueError("what")})
        assert caplog.records[-1].name == "asyncio"
        assert caplog.records[-1].exc_info
