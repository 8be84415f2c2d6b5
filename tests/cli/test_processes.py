"""Processes that outlive their starter are identified by more than their pid.

Holds: A second `up` changes nothing, and `down` leaves no process.
Holds: What `up` starts has a record, or is ended.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine import dev_server, processes, runtime_process
from syncpod.cli.machine.ending import end_all_unrecorded
from syncpod.cli.machine.listening_process import somebody_listens
from syncpod.cli.machine.processes import end, require_not_stopped, signals_held_back, start_detached, start_recorded
from syncpod.cli.machine.state_directory import (
    ServerRecord,
    StartedWorker,
    forget_server,
    recorded_server,
    running_server,
    running_worker,
    runtime_log,
    server_log,
    write_server,
    write_worker,
)
from syncpod.kernel.procfs import ProcessIdentity, identify, is_running
from syncpod.settings.process_records import recorded_runtime
from tests.hung_disk import hung_disk
from tests.runtimes.ports import free_port

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


def started_worker(process: ProcessIdentity) -> StartedWorker:
    return StartedWorker(process, "vm", "/var/log/pods", "unix:///run/cri.sock", "127.0.0.1:1", "default", True)


def start(log: Path, command: list[str] = SLEEP) -> subprocess.Popen[bytes]:
    return start_detached(command, log=log, environment=dict(os.environ))


def test_a_process_is_detached_logged_and_ended(tmp_path: Path) -> None:
    child = start(tmp_path / "log")
    process = identify(child.pid)
    assert process is not None and is_running(process)
    assert os.getsid(child.pid) == child.pid, "Ctrl-C at our terminal must not reach it"
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    assert end(process, patience_seconds=10)
    assert child.wait() == -signal.SIGTERM
    assert not is_running(process) and identify(child.pid) is None


@pytest.mark.parametrize(
    ("mode", "why"), [(0o644, "Permission denied"), (0o755, "Exec format error"), (None, "No such file or directory")]
)
def test_a_program_that_cannot_be_run_is_named(tmp_path: Path, mode: int | None, why: str) -> None:
    program = tmp_path / "python"
    if mode is not None:
        program.write_bytes(b"\x7fnone")
        program.chmod(mode)
    sentence = re.escape(f"the program '{program}' cannot be run: {why}; ")
    with pytest.raises(BadInput, match=sentence):
        start(tmp_path / "log", [str(program)])
    with pytest.raises(BadInput, match=sentence):
        processes.run_in_place([str(program)], {})


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = start(tmp_path / "log", [sys.executable, "-c", stubborn])
    while not (tmp_path / "log").read_text():
        assert child.poll() is None
    process = identify(child.pid)
    assert process is not None and end(process, patience_seconds=0.2)
    assert child.wait() == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a FUSE file system without fusermount")
def test_a_process_that_waits_for_a_hung_disk_is_not_waited_for(tmp_path: Path) -> None:
    """It is there until the disk answers, perhaps for ever; nothing of it runs."""
    hangs = "import os, sys, threading; threading.Thread(target=os.stat, args=sys.argv[1:], daemon=True).start(); "
    hangs += "threading.Event().wait()"
    with hung_disk(tmp_path / "hung", taken=True) as disk:
        child = start(tmp_path / "log", [sys.executable, "-c", hangs, str(disk)])
        process = identify(child.pid)
        assert process is not None
        threads = Path(f"/proc/{child.pid}/task")
        while not any("request_wait_answer" in (each / "wchan").read_text() for each in threads.iterdir()):
            assert child.poll() is None
        assert end(process, patience_seconds=100_000)
        assert threads.exists()
    child.wait()


def test_another_process_with_the_same_id_is_never_touched(tmp_path: Path) -> None:
    child = start(tmp_path / "log")
    process = identify(child.pid)
    assert process is not None
    for other in (replace(process, started=process.started - 1), replace(process, boot="another")):
        assert not is_running(other)
        assert not end(other, patience_seconds=0.1)
        write_server(tmp_path, ServerRecord(other, "127.0.0.1:1", "http://127.0.0.1:2", detached=True))
        write_worker(tmp_path, started_worker(other))
        assert running_server(tmp_path) is None and running_worker(tmp_path) is None
    assert child.poll() is None
    assert end(process, patience_seconds=10)
    child.wait()


def test_records_of_live_processes_are_found_and_corrupt_ones_ignored(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    record = ServerRecord(me, "127.0.0.1:7233", "http://127.0.0.1:8233", detached=True)
    write_server(tmp_path, record)
    assert running_server(tmp_path) == record
    forget_server(tmp_path)
    assert running_server(tmp_path) is None
    for rubbish in ("", "[]", "{}", '{"process": 3}', '{"pid": 1}'):
        (tmp_path / "server.json").write_text(rubbish)
        (tmp_path / "up-worker.json").write_text(rubbish)
        assert running_server(tmp_path) is None and running_worker(tmp_path) is None


def test_a_large_log_is_moved_aside(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(processes.LOG_LIMIT + 1)
    start(log, [sys.executable, "-c", "print('anew')"]).wait()
    assert processes.last_lines(log, 5) == ["anew"]
    assert (tmp_path / "log.old").stat().st_size == processes.LOG_LIMIT + 1
    assert processes.last_lines(tmp_path / "none", 5) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, even if a shell started the tests in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_signals_are_held_back_for_one_block_and_not_from_what_is_started_in_it(tmp_path: Path) -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), signals_held_back():
        child = start(tmp_path / "log")
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached, "the process can be recorded"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    child.terminate()
    assert child.wait() == -signal.SIGTERM


CUT_OFF = """
import os, signal, sys
from pathlib import Path
from syncpod.cli.machine import dev_server, processes, runtime_process

start_detached = processes.start_detached

def cut_off(*arguments, **options):
    child = start_detached(*arguments, **options)
    os.kill(os.getpid(), signal.Signals[sys.argv[4]])
    return child

processes.start_detached = cut_off
state = Path(sys.argv[1])
"""
STARTS = {
    "server": "dev_server.start(state, port=int(sys.argv[2]), ui_port=int(sys.argv[3]))",
    "runtime": "runtime_process.start(state, simulated=True, environ=os.environ)",
}


@pytest.mark.parametrize("what", STARTS)
def test_a_command_that_is_ended_leaves_nothing_running_that_no_record_names(tmp_path: Path, what: str) -> None:
    """SIGTERM reaches it just after it has started a process."""
    (state := tmp_path / "state").mkdir(mode=0o700)
    # Ports of its own, also for the UI: if another test takes one, the server ends, and the next start makes a new one.
    ports = (str(free_port()), str(free_port()))
    ended = subprocess.run([sys.executable, "-c", CUT_OFF + STARTS[what], str(state), *ports, "SIGTERM"], check=False)
    assert ended.returncode == -signal.SIGTERM
    server, runtime = recorded_server(state), recorded_runtime(state)
    record = server or runtime
    assert record is not None and is_running(record.process)
    try:
        if server is not None:
            assert dev_server.start(state) == (server, None) and somebody_listens(server.address)
        if runtime is not None:
            assert runtime_process.start(state, simulated=True, environ=os.environ) == (runtime, False)
            assert Path(runtime.endpoint.removeprefix("unix://")).is_socket()
    finally:
        end(record.process, patience_seconds=10)


@pytest.mark.parametrize("what", STARTS)
def test_what_a_killed_command_has_started_and_not_recorded_is_ended_by_the_next(tmp_path: Path, what: str) -> None:
    """SIGKILL: no record names the process. Other processes with its log as their output are left alone."""
    (state := tmp_path / "state").mkdir(mode=0o700)
    ports = (str(free_port()), str(free_port()))
    ended = subprocess.run([sys.executable, "-c", CUT_OFF + STARTS[what], str(state), *ports, "SIGKILL"], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert recorded_server(state) is None and recorded_runtime(state) is None
    log = server_log(state) if what == "server" else runtime_log(state)
    other = start(log)
    try:
        assert end_all_unrecorded(state) == 1
        assert end_all_unrecorded(state) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_process_that_cannot_be_recorded_is_ended(tmp_path: Path) -> None:
    started: list[ProcessIdentity] = []

    def record(process: ProcessIdentity) -> None:
        started.append(process)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        start_recorded(SLEEP, record, log=tmp_path / "log", environment=dict(os.environ))
    assert not is_running(started[0])


def test_a_process_that_is_stopped_is_not_taken_for_one_that_serves(tmp_path: Path) -> None:
    child = start(tmp_path / "log")
    try:
        require_not_stopped("worker", child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        with pytest.raises(Failure, match=rf"^the worker \(pid {child.pid}\) is stopped: `kill -CONT {child.pid}` "):
            require_not_stopped("worker", child.pid)
    finally:
        child.kill()
        child.wait()
