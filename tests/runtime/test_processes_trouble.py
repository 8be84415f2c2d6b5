"""If exits cannot be written or supervisors are stopped, nothing hangs and no process is left."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.procfs import ProcessStat, boot_id, children_of, process_stat
from syncpod.runtime.port import Exited, ProcessSpec, StartFailed
from syncpod.runtime.processes import control, records, remains, supervised
from syncpod.runtime.processes.container_handle import ContainerHandle
from syncpod.runtime.processes.records import Level
from tests.runtime.supervised_processes import (
    LEVELS,
    PYTHON,
    WITH_OWN_ROOT,
    Machine,
    each_machine,
    machine_at,
    runs,
    until,
)

machine = each_machine(*LEVELS)


plain = each_machine(Level.PLAIN)


@contextmanager
def full_disk(place: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB at `place`; `fill` writes a file there until it is full."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> None:
    with (place / "filler").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 1024)
            except OSError:
                return


@contextmanager
def claimed(place: Path) -> Iterator[None]:
    """Another process that holds the specification's lock, like a supervisor that hangs."""
    holds = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holds, str(place / records.SPEC)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as claimant:
        assert claimant.stdout is not None
        claimant.stdout.readline()
        yield
        claimant.kill()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def mount_namespace_of(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/mnt").stat().st_ino


def one_that_is_gone() -> records.Identity:
    with subprocess.Popen(["true"]) as process:
        return records.identity_of(process.pid)


def spawner_of_ours() -> int:
    [spawner] = [pid for pid in children_of(os.getpid()) if b"spawner.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return spawner


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")


def held(machine: Machine) -> records.Started:
    started = records.read_started(machine.place())
    assert started is not None
    return started


@needs_root
async def test_an_exit_on_a_full_disk_is_recorded(plain: Machine, tmp_path: Path) -> None:
    with full_disk(tmp_path / "c"):
        process = await plain.start("sh", "-c", "sleep 600; exit 0", name="c")
        fill(tmp_path / "c")
        process.signal(signal.SIGTERM)
        assert (await process.wait()).exit_code == 143
        await plain.restart()
        found = await plain.processes.find(plain.place())
        assert isinstance(found, Exited)
        assert (found.exit_code, found.started_at) == (143, process.started_at)


@needs_root
async def test_a_start_on_a_full_disk_is_refused_and_leaves_nothing(
    plain: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(tmp_path / "c"):
        write_spec = records.write_spec

        def write_and_fill(*arguments: Any) -> None:
            write_spec(*arguments)
            fill(tmp_path / "c")

        monkeypatch.setattr(records, "write_spec", write_and_fill)
        with pytest.raises(StartFailed, match="No space left on device"):
            await plain.start("sleep", "600", name="c")


async def test_an_exit_is_known_even_if_its_directory_was_removed(machine: Machine, tmp_path: Path) -> None:
    process = await machine.start("sh", "-c", "sleep 600")
    supervisor = held(machine).supervisor.pid
    (machine.place() / records.SPEC).unlink()
    machine.place().rename(tmp_path / "elsewhere")
    process.signal(signal.SIGTERM)
    exited = await process.wait()
    assert (exited.exit_code, exited.reason, exited.started_at) == (143, "Error", process.started_at)
    await until(lambda: not runs(supervisor))


async def test_a_supervisor_reports_an_unwritten_exit_to_later_servers(machine: Machine) -> None:
    first = await machine.start("sh", "-c", "sleep 600")
    obstacle = machine.place() / records.EXIT
    obstacle.mkdir()  # No file can be renamed to a directory's name.
    supervisor = held(machine).supervisor.pid
    # The record is unreadable, so only the supervisor can report the end.
    first.signal(signal.SIGTERM)
    assert (await first.wait()).exit_code == 143
    assert runs(supervisor)
    with control.connect(machine.place()) as line:
        packet = await asyncio.get_running_loop().sock_recv(line, 4096)
    assert records.parse_ended(packet[1:]).exit_code == 143
    with pytest.raises(StartFailed, match="the container has ended"):
        await first.execute(("true",))
    obstacle.rmdir()
    await until(lambda: not runs(supervisor))
    ended = records.read_ended(machine.place())
    assert ended is not None
    assert ended.exit_code == 143


async def test_an_exit_that_cannot_be_determined_is_unknown_with_the_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await machine.start("sleep", "600")

    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(supervised, "end_remains", fail)
        os.kill(held(machine).supervisor.pid, signal.SIGKILL)
        exited = await process.wait()
    assert (exited.exit_code, exited.reason, exited.started_at) == (255, "Unknown", process.started_at)
    assert "Too many open files" in exited.message


async def test_the_main_processs_exit_code_is_kept_if_the_supervisor_was_killed(machine: Machine) -> None:
    process = await machine.start("sleep", "600")
    started = held(machine)
    os.kill(started.supervisor.pid, signal.SIGSTOP)
    room = os.open(machine.place() / records.ENDING, os.O_WRONLY)
    records.note_ending(room, records.Ended(7, 5))  # As a supervisor does that then waits for others to die.
    os.close(room)
    os.kill(started.supervisor.pid, signal.SIGKILL)
    exited = await process.wait()
    assert (exited.exit_code, exited.reason, exited.finished_at) == (7, "Error", 5)


async def test_a_process_that_cannot_be_supervised_is_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[records.Started] = []

    def fail(*_: object) -> None:
        seen.append(held(machine))
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(machine.processes, "_hold", lambda *_, **__: fail())
        with pytest.raises(StartFailed, match="Too many open files") as failed:
            await machine.start("sleep", "600")
    assert failed.value.ended is not None and failed.value.ended.exit_code == 137
    [started] = seen
    assert not runs(started.main.pid)
    assert not runs(started.supervisor.pid)
    assert isinstance(await machine.processes.find(machine.place()), Exited)


async def test_a_start_whose_supervisor_is_killed_before_its_report_tells_how_the_process_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor's record counts, although its packet never arrived."""

    def nothing_came(line: Any) -> tuple[bytes, list[int]]:
        with line:
            while records.read_ended(machine.place()) is None:
                pass
        return b"", []

    monkeypatch.setattr(supervised, "_receive", nothing_came)
    with pytest.raises(StartFailed, match="before it could report the start") as failed:
        await machine.start("sh", "-c", "exit 3")
    ended = failed.value.ended
    assert ended is not None and ended.started_at > 0
    assert (ended.exit_code, ended.reason) == (3, "Error")


async def test_a_stopped_supervisor_of_an_ended_process_does_not_block_a_server(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_PATIENCE_SECONDS", 0.05)
    first = await machine.start("sleep", "600")
    await machine.restart()
    started = held(machine)
    os.kill(started.supervisor.pid, signal.SIGSTOP)
    os.kill(first.pid, signal.SIGTERM)
    await until(lambda: not runs(first.pid))
    (machine.place() / records.CONTROL).unlink()  # Nor does it take connections.
    found = await machine.found()
    assert found.started_at == first.started_at
    os.kill(started.supervisor.pid, signal.SIGCONT)
    assert (await found.wait()).exit_code == 143


async def test_a_start_that_never_happens_is_withdrawn(plain: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_PATIENCE_SECONDS", 0.05)
    records.write_spec(plain.place(), ProcessSpec("c", ("sleep", "600")), Level.PLAIN)
    with claimed(plain.place()):
        assert await plain.processes.find(plain.place()) is None
        assert not list(plain.place().iterdir())


DAEMON = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), flush=True)\n"
    "        os.setsid()\n"
    "    time.sleep(600)\n"
    "time.sleep(600)\n"
)


@pytest.mark.skipif(not WITH_OWN_ROOT, reason="needs mount namespaces")
@pytest.mark.parametrize("level", WITH_OWN_ROOT, ids=lambda level: level.value)
async def test_a_process_that_left_its_session_is_killed_with_its_supervisor(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The daemon's pid in its own words: there are no pid namespaces.
    log = tmp_path / "log"
    async with machine_at(level, tmp_path) as machine:
        process = await machine.start(PYTHON, "-c", DAEMON, log_path=str(log))
        other = await machine.start("sleep", "600", name="other")
        await until(lambda: log.exists() and log.read_text().endswith("\n"))
        daemon = int(log.read_text().split()[-1])
        alive = process_stat(daemon)
        still_dies = ["closes its files"] * 3

        def seen(pid: int) -> ProcessStat | None:
            """For three checks, the daemon has left its namespaces but is no zombie yet, as with many open files."""
            stat = process_stat(pid)
            if pid == daemon and (stat is None or stat.state in "ZX") and still_dies:
                still_dies.pop()
                return alive
            return stat

        monkeypatch.setattr(remains, "process_stat", seen)
        os.kill(held(machine).supervisor.pid, signal.SIGKILL)
        assert (await process.wait()).reason == "Unknown"
        assert not runs(daemon)
        assert still_dies == [], "it is waited for"
        assert runs(other.pid)


@pytest.mark.skipif(not WITH_OWN_ROOT, reason="needs mount namespaces")
async def test_a_reused_namespace_number_is_left_alone(tmp_path: Path) -> None:
    async with machine_at(WITH_OWN_ROOT[0], tmp_path) as machine:
        other = await machine.start("sleep", "600", name="other")
        number = mount_namespace_of(other.pid)
        identity = one_that_is_gone()
        records.write_spec(machine.place(), ProcessSpec("c", ("sleep",)), machine.level)
        (machine.place() / "rootfs").mkdir()
        started = records.Started(boot_id(), identity, identity, 5, number)
        records.write_record(machine.place(), records.STARTED, started)
        found = await machine.processes.find(machine.place())
        assert isinstance(found, Exited)
        assert found.reason == "Unknown"
        assert runs(other.pid)


async def test_a_stopped_supervisor_is_awaited_only_for_a_limited_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(control, "_ANSWER_SECONDS", 0.05)
    process = await machine.start("sleep", "600")
    supervisor = held(machine).supervisor.pid
    evidence = Path("/dev/shm") / f"syncpod-test-{os.getpid()}"
    os.kill(supervisor, signal.SIGSTOP)
    before = open_files()
    for call in (process.execute(("touch", str(evidence))), process.attach()):
        with pytest.raises(StartFailed, match="the container's supervisor does not answer"):
            await call
    with pytest.raises(TimeoutError):
        await process.reopen_log()
    cancelled = asyncio.ensure_future(process.execute(("touch", str(evidence))))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert open_files() == before
    os.kill(supervisor, signal.SIGCONT)
    monkeypatch.undo()
    streams = await process.execute(("true",))
    assert await streams.wait() == 0
    await streams.close()
    assert not evidence.exists(), "nobody waited for it any more"


async def test_a_stopped_spawner_does_not_block_the_servers_shutdown(plain: Machine) -> None:
    await plain.start("sleep", "600")
    spawner = spawner_of_ours()
    os.kill(spawner, signal.SIGSTOP)
    await plain.restart()
    assert not runs(spawner)
    assert isinstance(await plain.processes.find(plain.place()), ContainerHandle)


async def test_a_stopped_spawner_fails_one_start_and_is_replaced(
    plain: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await plain.start("sleep", "600", name="first")
    os.kill(spawner_of_ours(), signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(supervised, "_START_SECONDS", 0.05)
        with pytest.raises(StartFailed, match="nothing was started within"):
            await plain.start("sleep", "600")
    assert await plain.processes.find(plain.place()) is None
    assert not list(plain.place().iterdir())
    second = await plain.start("sleep", "600", name="second")
    assert runs(first.pid)
    assert runs(second.pid)


async def test_a_terminal_closed_and_reopened_by_its_container_is_kept(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        "exec 3>/dev/null; exec >/dev/null 2>&1 </dev/null; sleep 0.5; exec >/dev/tty; echo back; "
        "exec >/dev/null; sleep 0.5; exit 7"
    )
    process = await machine.start("sh", "-c", script, terminal=True, stdin=True, log_path=str(log))
    attached = await process.attach()
    await attached.write(b"nobody reads this\n")
    assert (await process.wait()).exit_code == 7
    assert "back" in log.read_text()
    await attached.close()
