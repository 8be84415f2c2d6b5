import asyncio
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from syncpod.runtime.port import Process, ProcessSpec, StartFailed, Stream, Streams
from syncpod.runtime.processes import commands, launch, packets, records
from tests.runtime.supervised_processes import LEVELS, Machine, each_machine, lines, runs, until

machine = each_machine(*LEVELS)


@pytest.fixture
async def process(machine: Machine) -> Process:
    return await machine.start("sleep", "600")


async def everything(streams: Streams) -> tuple[bytes, bytes, int]:
    """Read to the end: stdout, stderr, exit code."""
    read = {Stream.STDOUT: b"", Stream.STDERR: b""}
    async for stream, data in streams.output():
        read[stream] += data
    code = await streams.wait()
    await streams.close()
    return read[Stream.STDOUT], read[Stream.STDERR], code


async def test_a_command_has_its_output_its_input_and_its_code(process: Process) -> None:
    command = await process.execute(("sh", "-c", "cat; echo no >&2; exit 9"), stdin=True)
    await command.write(b"some ")
    await command.write(b"input")
    command.end_input()
    assert await everything(command) == (b"some input", b"no\n", 9)
    await command.write(b"too late")
    command.end_input()


async def test_stdout_and_stderr_of_a_command_can_be_one_stream(process: Process) -> None:
    command = await process.execute(("sh", "-c", "echo a; echo b >&2; kill -9 $$"), merge_stderr=True)
    assert await everything(command) == (b"a\nb\n", b"", 137)


async def test_a_command_has_the_main_processs_environment_directory_and_namespaces(machine: Machine) -> None:
    environment = (("PATH", os.environ["PATH"]), ("WHO", "me"))
    process = await machine.start("sleep", "600", environment=environment, working_directory="/usr", hostname="pod")
    command = await process.execute(("sh", "-c", "echo $WHO; pwd; readlink /proc/self/ns/mnt /proc/self/ns/user; env"))
    output, _, _ = await everything(command)
    assert output.startswith(b"me\n/usr\n")
    for namespace in ("mnt", "user"):
        assert os.readlink(f"/proc/{process.pid}/ns/{namespace}").encode() in output  # noqa: PTH115
    assert b"TERM" not in output


async def test_much_input_waits_for_a_slow_reader(process: Process) -> None:
    command = await process.execute(("sh", "-c", "sleep 0.1; wc -c"), stdin=True)
    await command.write(b"x" * 1_000_000)
    command.end_input()
    assert await everything(command) == (b"1000000\n", b"", 0)


async def test_much_output_waits_for_a_slow_reader(process: Process) -> None:
    command = await process.execute(("head", "-c", "3000000", "/dev/zero"))
    await asyncio.sleep(0.1)
    output, _, code = await everything(command)
    assert (len(output), code) == (3_000_000, 0)


async def test_a_command_too_long_for_one_packet_runs(process: Process) -> None:
    command = await process.execute(("sh", "-c", "echo ${#1} ${#2}", "sh", "x" * 100_000, "y" * 100_000))
    assert await everything(command) == (b"100000 100000\n", b"", 0)


async def test_a_command_on_a_terminal_has_its_size_and_its_keys(process: Process) -> None:
    command = await process.execute(
        ("sh", "-c", "tty; read line; stty size; echo $TERM; cat"), terminal=True, stdin=True
    )
    command.resize(132, 43)
    await command.write(b"go\n")
    read = b""
    async for stream, data in command.output():
        assert stream is Stream.STDOUT
        read += data
        if b"xterm" in read:
            break
    command.end_input()
    assert await command.wait() == 0
    await command.close()
    assert b"/dev/pts/" in read
    assert b"43 132\r\nxterm" in read


async def test_a_command_that_cannot_be_executed_is_reported(machine: Machine, process: Process) -> None:
    with pytest.raises(StartFailed, match=r'^exec: "nosuch": executable file not found in \$PATH$'):
        await process.execute(("nosuch",))
    process.kill()
    await process.wait()
    with pytest.raises(StartFailed, match="the container has ended"):
        await process.execute(("true",))
    with pytest.raises(StartFailed, match="the container has ended"):
        await process.attach()


@pytest.mark.parametrize("given", [4, 1], ids=["no process to be had", "no descriptors to be had"])
def test_a_command_is_refused_if_no_process_can_be_forked(monkeypatch: pytest.MonkeyPatch, given: int) -> None:
    def fork(*_: object) -> tuple[int, int]:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(launch, "fork", fork)
    request = os.memfd_create("command")
    os.pwrite(request, b'{"arguments": ["true"], "terminal": false}', 0)
    descriptors = [request, *(os.open(os.devnull, os.O_RDWR) for _ in range(given - 1))]
    said: list[bytes] = []
    made = commands.Commands(ProcessSpec("c", ("sleep",)), lambda *_: None, lambda _: None)
    assert made.execute(descriptors, [], said.append) is None
    assert [word[:1] for word in said] == [packets.Word.REFUSED]
    assert b"cannot fork: " in said[0]
    assert not any(Path(f"/proc/self/fd/{descriptor}").exists() for descriptor in descriptors)


async def started(command: Streams, count: int) -> list[int]:
    """Read that many lines, each a process id."""
    read = b""
    async for _, data in command.output():
        read += data
        if read.count(b"\n") >= count:
            break
    return [int(line) for line in read.split()]


async def test_an_abandoned_command_is_killed_with_all_its_children(process: Process) -> None:
    command = await process.execute(
        ("sh", "-c", "setsid sh -c 'echo $$; sleep 600 & wait' & sleep 600 & echo $!; wait")
    )
    pids = await started(command, 2)
    assert all(runs(pid) for pid in pids)
    await command.close()
    await until(lambda: not any(runs(pid) for pid in pids))
    assert runs(process.pid)


async def test_processes_left_by_an_ended_command_live_until_the_container_ends(process: Process) -> None:
    command = await process.execute(("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"))
    [pid] = await started(command, 1)
    assert await command.wait() == 0
    await command.close()
    other = await process.execute(("true",))
    assert await other.wait() == 0
    await other.close()
    assert runs(pid)
    process.kill()
    await process.wait()
    assert not runs(pid)


async def test_a_command_ends_with_its_container(process: Process) -> None:
    command = await process.execute(("sleep", "600"))
    process.kill()
    assert await command.wait() == 137
    await command.close()


async def test_a_command_continues_across_a_server_restart(machine: Machine) -> None:
    await machine.start("sleep", "600")
    await machine.restart()
    process = await machine.found()
    command = await process.execute(("echo", "again"))
    assert await everything(command) == (b"again\n", b"", 0)


async def test_an_attached_client_sees_new_output_and_sends_input(machine: Machine) -> None:
    process = await machine.start(
        "sh", "-c", "while read line; do echo got $line; echo err >&2; done; exit 4", stdin=True
    )
    first, second = await process.attach(), await process.attach()
    await first.write(b"one\n")
    async for stream, data in second.output():
        assert (stream, data) in {(Stream.STDOUT, b"got one\n"), (Stream.STDERR, b"err\n")}
        break
    await second.close()
    await first.close()


@pytest.mark.parametrize("more", [{}, {"terminal": True}, {"terminal": True, "stdin_once": True}])
async def test_the_end_of_input_only_detaches_if_the_container_keeps_its_stdin_open(
    machine: Machine, tmp_path: Path, more: dict[str, Any]
) -> None:
    log = tmp_path / "log"
    process = await machine.start(
        "sh", "-c", "while read line; do echo got $line; done", stdin=True, log_path=str(log), **more
    )
    for word in ("hi", "again"):
        attached = await process.attach()
        await attached.write(f"{word}\n".encode())
        attached.end_input()
        async for _ in attached.output():
            pass
        await attached.close()
        await until(lambda word=word: f"stdout F got {word}" in lines(log))
    assert runs(process.pid)


async def test_with_stdin_once_input_ends_when_the_first_client_closes_it(machine: Machine) -> None:
    process = await machine.start("sh", "-c", "cat; exit 4", stdin=True, stdin_once=True)
    attached = await process.attach()
    await attached.write(b"all ")
    await attached.write(b"of it")
    attached.end_input()
    assert await everything(attached) == (b"all of it", b"", 4)


async def test_with_stdin_once_input_ends_when_the_first_client_disconnects(machine: Machine) -> None:
    process = await machine.start("sh", "-c", "cat >/dev/null; exit 4", stdin=True, stdin_once=True)
    attached = await process.attach()
    await attached.close()
    assert (await process.wait()).exit_code == 4


async def test_large_input_to_a_slow_container_arrives(machine: Machine, tmp_path: Path) -> None:
    process = await machine.start("sh", "-c", "sleep 0.1; wc -c", stdin=True, stdin_once=True)
    attached = await process.attach()
    await attached.write(b"x" * 1_000_000)
    attached.end_input()
    assert await everything(attached) == (b"1000000\n", b"", 0)


async def test_a_containers_terminal_is_logged_and_can_be_attached(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = await machine.start(
        "sh", "-c", "tty; read line; stty size; exit 3", terminal=True, stdin=True, log_path=str(log)
    )
    attached = await process.attach()
    attached.resize(100, 30)
    await attached.write(b"go\n")
    output, error, code = await everything(attached)
    assert (error, code) == (b"", 3)
    assert b"30 100\r\n" in output
    assert any(line.startswith("stdout F /dev/pts/") for line in lines(log))


async def test_an_attached_client_that_does_not_read_blocks_nobody(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "read go; head -c 8000000 /dev/zero | tr '\\0' '\\n'"
    process = await machine.start("sh", "-c", script, log_path=str(log), stdin=True)
    attached = await process.attach()
    await attached.write(b"go\n")
    assert (await process.wait()).exit_code == 0
    assert log.stat().st_size > 8_000_000
    assert await attached.wait() == 0
    await attached.close()


async def test_a_stopped_supervisor_does_not_delay_the_kill_of_a_command(machine: Machine, process: Process) -> None:
    command = await process.execute(("sleep", "600"))
    supervisor = records.read_started(machine.place())
    assert supervisor is not None
    os.kill(supervisor.supervisor.pid, signal.SIGSTOP)
    process.kill()
    await process.wait()
    assert await command.wait() == 137
    await command.close()
    assert time.time_ns() > process.started_at
