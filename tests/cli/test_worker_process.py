"""What `up` says of a worker that did not get ready: its own sentence, and never just the last line of its log."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from syncpod.cli.machine.worker_process import _not_ready

BEFORE = "2026-11-01 00:00:00,000 ERROR syncpod.x: of an earlier worker\nsyncpod worker: of an earlier worker\n"
READY = "worker ready: node n1, runtime containerd 2.4.2 at unix:///a, Temporal b namespace default, task queue q\n"
INFO = "2026-11-01 00:00:01,000 INFO syncpod.agent.agent: took over 3 of 3 pods\n"
WARNING = (
    "2026-11-01 00:00:01,000 WARNING syncpod.x: node n1 was served by n1/a/1: checking whether that worker lives\n"
)
TRACEBACK = (
    "2026-11-01 00:00:02,000 ERROR syncpod.worker: the worker failed\nTraceback (most recent call last):\n"
    '  File "worker.py", line 1, in <module>\nValueError: that is a defect\n'
)


@pytest.mark.parametrize(
    ("log", "script", "code", "said"),
    [
        (INFO + "syncpod worker: no runtime\n" + INFO, "exit 2", 2, "no runtime"),
        (READY + INFO, "exit 1", 1, "the worker ended with exit code 1 before it was ready; see {log}"),
        (
            TRACEBACK,
            "exit 1",
            1,
            "the worker ended with exit code 1 before it was ready: ValueError: that is a defect; see",
        ),
        (READY, "kill -9 $$", 1, "the worker was ended by signal 9 before it was ready; {log} says what it did"),
        (READY + INFO, "sleep 60", 1, "the worker (pid {pid}) is not ready after 60 s, and goes on by itself; `"),
        (
            WARNING + INFO,
            "sleep 60",
            1,
            "; its last warning: node n1 was served by n1/a/1: checking whether that worker",
        ),
    ],
)
def test_the_reason_why_a_worker_is_not_ready(tmp_path: Path, log: str, script: str, code: int, said: str) -> None:
    file = tmp_path / "worker.log"
    file.write_text(BEFORE + log)
    with subprocess.Popen(["/bin/sh", "-c", script]) as child:
        try:
            if not script.startswith("sleep"):
                child.wait()
            failure = _not_ready(child, file, len(BEFORE))
        finally:
            child.kill()
    assert failure.code == code
    assert said.format(log=file, pid=child.pid) in str(failure)
    assert "earlier" not in str(failure) and "worker ready" not in str(failure) and "\n" not in str(failure)
