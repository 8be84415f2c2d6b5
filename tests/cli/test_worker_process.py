"""The message of `up` if the worker does not get ready: a sentence of its own, not just the log's last line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.failure import Failure
from syncpod.cli.machine import worker_process
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import StartedWorker, prepare, recorded_worker, worker_log, write_worker
from syncpod.cli.machine.worker_process import _not_ready
from syncpod.kernel.procfs import ProcessIdentity, identify
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.node import node_settings
from syncpod.settings.table import MANIFEST_DIR

BEFORE = "2026-11-01 00:00:00,000 ERROR syncpod.x: of an earlier worker\nsyncpod worker: of an earlier worker\n"
READY = "worker ready: node n1, runtime containerd 2.4.2 at unix:///a, Temporal b namespace default, task queue q\n"
INFO = "2026-11-01 00:00:01,000 INFO syncpod.agent.boot: took over 3 of 3 pods\n"
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
        (READY + INFO, "sleep 60", 1, "the worker (pid {pid}) is not ready after 60 s, and keeps trying; `"),
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
            failure = _not_ready(child.pid, child.poll(), file, len(BEFORE))
        finally:
            child.kill()
    assert failure.code == code
    assert said.format(log=file, pid=child.pid) in str(failure)
    assert "earlier" not in str(failure) and "worker ready" not in str(failure) and "\n" not in str(failure)


@pytest.mark.parametrize("before", [None, "127.0.0.1:7233"])
def test_a_worker_that_could_not_serve_leaves_the_record_of_the_one_before(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next `up` takes the server from the record: a refused one must not replace the node's own."""
    program = tmp_path / "worker.py"
    program.write_text("import sys\nsys.exit(2)\n")
    monkeypatch.setattr(worker_process, "worker_program", lambda: program)
    here = settings(state_dir=str(tmp_path / "state"))
    prepare(here.state_dir)
    known = None
    if before is not None:
        known = StartedWorker(
            process=ProcessIdentity(pid=1, started=1, boot="an earlier one"),
            node="n1",
            log_dir="/logs",
            endpoint="unix:///a",
            address=before,
            namespace="default",
            own_server=True,
            memory_dir="",
            manifest_dir="",
        )
        write_worker(here.state_dir, known)
    other = {"target_host": "127.0.0.1:1", "namespace": "default"}
    with pytest.raises(Failure, match="ended with exit code 2"):
        worker_process.start(here, "unix:///a", other, own_server=False)  # type: ignore[arg-type]
    assert recorded_worker(here.state_dir) == known


LATE = """
import os, sys, time
from pathlib import Path
from syncpod.settings.worker_record import WorkerRecord, write_worker_record

time.sleep(0.5)
write_worker_record(Path(sys.argv[1]), WorkerRecord(os.getpid(), "", "n1", "unix:///a", "", "a:1", "default", "", 1))
time.sleep(60)
"""


@pytest.mark.parametrize("gets_ready", [True, False])
def test_a_worker_whose_command_was_ended_before_it_served_is_waited_for(
    gets_ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second worker would find the directory in use."""
    monkeypatch.setattr(worker_process, "_READY_SECONDS", 30 if gets_ready else 0.1)
    here = settings(state_dir=str(tmp_path / "state"))
    prepare(here.state_dir)
    worker_log(here.state_dir).write_text(BEFORE)
    with subprocess.Popen([sys.executable, "-c", LATE, str(here.state_dir)]) as child:
        try:
            process = identify(child.pid)
            assert process is not None
            write_worker(
                here.state_dir, StartedWorker(process, "n1", "/logs", "unix:///a", "a:1", "default", False, "", "")
            )
            other: Any = {"target_host": "a:1", "namespace": "default"}
            if gets_ready:
                record, started = worker_process.start(here, "unix:///a", other, own_server=False)
                assert (record.pid, started) == (child.pid, False)
            else:
                with pytest.raises(Failure, match=rf"the worker \(pid {child.pid}\) is not ready after 0.1 s"):
                    worker_process.start(here, "unix:///a", other, own_server=False)
            assert child.poll() is None
        finally:
            child.kill()


def test_a_worker_that_is_to_follow_no_directory_is_told_so_whatever_the_node_was_started_with(tmp_path: Path) -> None:
    node = node_settings({}, state_dir=str(tmp_path), node="n1", manifest_dir="/manifests", node_labels="a=b")
    assert "--manifests=/manifests" in worker_process._arguments(node, "unix:///r.sock")
    write_kept_settings(tmp_path, KeptSettings({MANIFEST_DIR.variable: "/manifests"}))
    changed = worker_process._arguments(replace(node, manifest_dir=None), "unix:///r.sock")
    assert "--no-manifests" in changed and "--node-labels=a=b" in changed
