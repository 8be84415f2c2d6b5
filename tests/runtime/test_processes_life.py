"""Processes of the embedded runtime start, end, and are found again by a new server.

Holds: A container outlives the server that started it, and is found again.
"""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.kernel.procfs import boot_id, children_of, process_stat
from syncpod.runtime.port import Exited, Processes, ProcessSpec, StartFailed
from syncpod.runtime.processes import records
from syncpod.runtime.processes.container_handle import ContainerHandle
from syncpod.runtime.processes.supervised import Supervised
from tests.runtime.supervised_processes import LEVELS, PATH, PYTHON, Machine, each_machine, machine_at, runs, until

_OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which only the C library may set; some parents leave them ignored."""


machine = each_machine(*LEVELS)


def test_it_implements_the_state_machines_protocol(tmp_path: Path) -> None:
    processes: Processes = Supervised(level=LEVELS[0], links=tmp_path)
    assert processes


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 7", 7, "Error"),
        ("kill -TERM $$", 143, "Error"),
        ("kill -KILL $$", 137, "Error"),
    ],
)
async def test_an_exit_has_containerds_code_and_reason(machine: Machine, script: str, code: int, reason: str) -> None:
    before = time.time_ns()
    process = await machine.start("sh", "-c", script)
    exited = await process.wait()
    assert (exited.exit_code, exited.reason) == (code, reason)
    assert before < process.started_at == exited.started_at < exited.finished_at < time.time_ns()
    assert await process.wait() == exited
    assert await machine.processes.find(machine.place()) == exited
    assert process.usage() is None
    process.kill()
    process.signal(signal.SIGTERM)


async def test_a_process_enters_its_cgroup_itself(tmp_path: Path) -> None:
    cgroup = tmp_path / "cgroup.procs"
    cgroup.touch()
    processes = Supervised(level=LEVELS[-1], links=tmp_path)
    spec = ProcessSpec("c", ("sh", "-c", "kill -9 $$"), (("PATH", PATH),), cgroup_procs=(str(cgroup),))
    exited = await (await processes.start(spec, tmp_path)).wait()
    assert (exited.exit_code, exited.reason) == (137, "Error"), "why it was killed is judged by its cgroup's server"
    assert cgroup.read_text() == "0"
    await processes.close()


async def test_a_process_has_its_own_environment_directory_and_session(machine: Machine) -> None:
    script = "env; pwd; echo $(ps -o sid= -p $$) $$; umask; cat; ls -l /proc/$$/fd; grep Sig /proc/self/status"
    environment = (("PATH", PATH), ("WHO", "a b\nc"), ("EMPTY", ""))
    _, log = await machine.run("sh", "-c", script, environment=environment, working_directory="/usr")
    text = "\n".join(line.removeprefix("stdout F ") for line in log)
    assert "WHO=a b\nc" in text
    assert "EMPTY=\n" in text
    assert "\n/usr\n" in text
    assert not [line for line in log if "PYTHON" in line or "LC_CTYPE" in line]
    session, pid = next(line for line in text.splitlines() if line.count(" ") == 1 and line[0].isdecimal()).split()
    assert session == pid
    assert "\n0022\n" in text
    assert text.count(" -> ") == 3, "nothing is open but the standard streams"
    ignored = next(line for line in text.splitlines() if line.startswith("SigIgn"))
    assert int(ignored.split()[1], 16) & ~_OF_THE_C_LIBRARY == 0
    assert "SigBlk:\t0000000000000000" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no-such-program",), 'exec: "no-such-program": executable file not found in $PATH'),
        (("",), 'exec: "": executable file not found in $PATH'),
        (("/no/such",), 'exec: "/no/such": stat /no/such: no such file or directory'),
        (("/etc",), 'exec: "/etc": is a directory'),
        (("/etc/passwd",), 'exec: "/etc/passwd": permission denied'),
    ],
)
async def test_a_command_that_cannot_be_executed_is_refused_with_runcs_message(
    machine: Machine, arguments: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(StartFailed) as failed:
        await machine.start(*arguments)
    assert str(failed.value) == sentence
    found = await machine.processes.find(machine.place())
    assert isinstance(found, Exited)
    assert (found.exit_code, found.reason, found.message, found.started_at) == (128, "StartError", sentence, 0)


async def test_a_file_that_is_not_executable_code_is_refused(machine: Machine) -> None:
    with pytest.raises(StartFailed, match=r"^exec: .*permission denied|exec /proc/self/oom_score: "):
        await machine.start("/proc/self/oom_score")


async def test_an_invalid_working_directory_is_refused(machine: Machine) -> None:
    with pytest.raises(StartFailed) as failed:
        await machine.start("true", working_directory="/etc/passwd")
    assert str(failed.value) in {
        'chdir to cwd ("/etc/passwd") set in config.json failed: not a directory',
        "mkdir /etc/passwd: File exists",
    }


async def test_a_nul_in_an_argument_is_refused(machine: Machine) -> None:
    with pytest.raises(StartFailed, match="cannot be passed on: embedded null byte"):
        await machine.start("echo", "a\0b")


async def test_a_log_that_cannot_be_created_is_refused(machine: Machine) -> None:
    with pytest.raises(StartFailed, match=r"^open log /proc/nothing/log: "):
        await machine.start("true", log_path="/proc/nothing/log")


async def test_a_signal_reaches_only_the_main_process(machine: Machine, tmp_path: Path) -> None:
    script = 'trap "exit 5" USR1; sh -c "trap \'echo child\' USR1; echo ready; sleep 60" & wait'
    log = tmp_path / "log"
    process = await machine.start("sh", "-c", script, log_path=str(log))
    await until(lambda: log.exists() and "ready" in log.read_text())
    process.signal(signal.SIGUSR1)
    assert (await process.wait()).exit_code == 5
    assert "child" not in log.read_text()


ESCAPES = (
    "import os, time\n"
    "for depth in range(3):\n"
    "    if os.fork():\n"
    "        break\n"
    "    os.setsid()\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.mark.parametrize("ending", ["kill", "main ends"])
async def test_child_processes_do_not_outlive_the_main_process(machine: Machine, tmp_path: Path, ending: str) -> None:
    log = tmp_path / "log"
    process = await machine.start(PYTHON, "-c", ESCAPES, log_path=str(log))
    await until(lambda: log.exists() and len(log.read_text().splitlines()) == 4)
    pids = [int(line.split()[-1]) for line in log.read_text().splitlines()]
    assert all(runs(pid) for pid in pids)
    if ending == "kill":
        process.kill()
    else:
        process.signal(signal.SIGKILL)
    assert (await process.wait()).exit_code == 137
    assert not any(runs(pid) for pid in pids)


async def test_a_process_outlives_its_server_and_its_exit_is_found(machine: Machine, tmp_path: Path) -> None:
    first = await machine.start("sleep", "600")
    await machine.restart()
    found = await machine.found()
    assert (found.pid, found.started_at) == (first.pid, first.started_at)
    assert await machine.found() is found
    assert found.usage() is not None
    found.signal(signal.SIGTERM)
    assert (await found.wait()).exit_code == 143


async def test_an_exit_without_a_running_server_is_found(machine: Machine) -> None:
    first = await machine.start("sh", "-c", "sleep 0.05; exit 6")
    await machine.restart()
    await until(lambda: (machine.place() / records.EXIT).exists())
    exited = await machine.processes.find(machine.place())
    assert isinstance(exited, Exited)
    assert (exited.exit_code, exited.reason, exited.started_at) == (6, "Error", first.started_at)


async def test_a_killed_supervisor_ends_its_processes_and_the_exit_is_unknown(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = await machine.start("sh", "-c", "sleep 600 & echo $!; wait", log_path=str(log))
    await until(lambda: log.exists() and log.read_text())
    child = int(log.read_text().split()[-1])
    os.kill(supervisor_of(machine), signal.SIGKILL)
    exited = await process.wait()
    assert (exited.exit_code, exited.reason, exited.started_at) == (255, "Unknown", process.started_at)
    assert not runs(child)
    assert not runs(process.pid)
    assert await machine.processes.find(machine.place()) == exited


async def test_a_supervisor_killed_without_a_server_ends_its_processes_and_the_exit_is_unknown(
    machine: Machine, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    process = await machine.start("sh", "-c", "sleep 600 & echo $!; wait", log_path=str(log))
    await until(lambda: log.exists() and log.read_text())
    child = int(log.read_text().split()[-1])
    await machine.restart()
    os.kill(supervisor_of(machine), signal.SIGKILL)
    await until(lambda: not runs(process.pid))
    exited = await machine.processes.find(machine.place())
    assert isinstance(exited, Exited)
    assert (exited.exit_code, exited.reason) == (255, "Unknown")
    assert not runs(child)


@pytest.fixture
def bystander() -> Iterator[records.Identity]:
    """A process of no container that leads a session."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield records.identity_of(process.pid)
        assert process.poll() is None, "it was not killed"
        process.kill()


def left_behind(machine: Machine, boot_id: str, main: records.Identity) -> Path:
    """The directory of a container whose supervisor left no record of its end."""
    place = machine.place()
    records.write_spec(place, ProcessSpec("c", ("sleep",)), machine.level)
    records.write_record(place, records.STARTED, records.Started(boot_id, main, main, 5))
    return place


async def test_after_a_reboot_no_process_is_killed_and_the_exit_is_unknown(
    machine: Machine, bystander: records.Identity
) -> None:
    exited = await machine.processes.find(left_behind(machine, "another", bystander))
    assert isinstance(exited, Exited)
    assert (exited.exit_code, exited.reason, exited.started_at) == (255, "Unknown", 5)


async def test_a_reused_process_id_is_left_alone(machine: Machine, bystander: records.Identity) -> None:
    earlier = records.Identity(bystander.pid, bystander.ticks - 1)
    exited = await machine.processes.find(left_behind(machine, boot_id(), earlier))
    assert isinstance(exited, Exited)
    assert exited.reason == "Unknown"


async def test_a_container_with_a_stopped_supervisor_can_be_killed(machine: Machine) -> None:
    process = await machine.start("sleep", "600")
    os.kill(supervisor_of(machine), signal.SIGSTOP)
    process.kill()
    assert (await process.wait()).exit_code == 137


async def test_a_specification_without_a_supervisor_is_withdrawn_permanently(machine: Machine) -> None:
    assert await machine.processes.find(machine.place()) is None
    await (await machine.start("true", name="first")).wait()
    [spawner] = [pid for pid in children_of(os.getpid()) if b"spawner.py" in seen_of(pid, "cmdline")]
    os.kill(spawner, signal.SIGSTOP)
    starting = asyncio.ensure_future(machine.start("sleep", "600"))
    await asyncio.sleep(0)
    assert (machine.place() / records.SPEC).exists()
    assert await machine.processes.find(machine.place()) is None
    os.kill(spawner, signal.SIGCONT)
    with pytest.raises(StartFailed, match="its supervisor ended before it could report the start"):
        await starting
    assert not list(machine.place().iterdir())


STARTS_AND_DIES = """
import asyncio, os, sys
from pathlib import Path
from syncpod.runtime.port import ProcessSpec
from syncpod.runtime.processes.records import Level
from syncpod.runtime.processes.supervised import Supervised

async def main():
    processes = Supervised(level=Level(sys.argv[1]), links=Path(sys.argv[2]) / "links")
    spec = ProcessSpec("c", ("sleep", "600"), (("PATH", os.environ["PATH"]),))
    delay = float(sys.argv[3])
    await processes.start(spec, Path(sys.argv[2]) / "w")  # A spawner is there.
    asyncio.get_running_loop().call_later(delay, os.kill, os.getpid(), 9)
    await processes.start(spec, Path(sys.argv[2]) / "c")
    await asyncio.sleep(9)

asyncio.run(main())
"""


@pytest.mark.parametrize("delay", [0, 0.002, 0.006, 0.02])
async def test_a_start_interrupted_by_the_servers_end_either_runs_and_is_found_or_never_runs(
    machine: Machine, tmp_path: Path, delay: float
) -> None:
    machine.place("w")
    place = machine.place()
    command = [sys.executable, "-c", STARTS_AND_DIES, machine.level.value, str(tmp_path), str(delay)]
    server = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    assert await server.wait() == -signal.SIGKILL
    found = await machine.processes.find(place)
    if found is None:
        assert not (place / records.SPEC).exists()
        assert not (place / records.STARTED).exists()
    else:
        assert isinstance(found, ContainerHandle)
        assert runs(found.pid)


async def test_a_cancelled_start_is_found(machine: Machine) -> None:
    starting = asyncio.ensure_future(machine.start("sleep", "600"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    found = await machine.processes.find(machine.place())
    if found is None:
        assert not (machine.place() / records.STARTED).exists()
    else:
        assert isinstance(found, ContainerHandle)


async def test_a_killed_spawner_is_replaced(machine: Machine) -> None:
    first = await machine.start("sleep", "600", name="first")
    spawner = process_stat(supervisor_of(machine, "first"))
    assert spawner is not None
    os.kill(spawner.parent, signal.SIGKILL)
    await until(lambda: not runs(spawner.parent))
    second = await machine.start("sleep", "600", name="second")
    assert runs(first.pid)
    assert runs(second.pid)


async def test_a_pause_is_one_process_and_lives_until_it_is_killed(machine: Machine) -> None:
    pause = await machine.start(name="pause")
    assert pause.pid == supervisor_of(machine, "pause")
    await machine.restart()
    found = await machine.found("pause")
    assert found.pid == pause.pid
    assert found.usage() is not None
    found.kill()
    await found.wait()
    assert not runs(pause.pid)


async def test_a_pause_ends_at_sigterm_too(machine: Machine) -> None:
    pause = await machine.start(name="pause")
    pause.signal(signal.SIGTERM)
    assert (await pause.wait()).exit_code == 143


async def test_secrets_are_on_no_command_line_and_in_no_readable_file(machine: Machine) -> None:
    process = await machine.start("sleep", "600", environment=(("PATH", PATH), ("PASSWORD", "hunter2")))
    for what in ("cmdline", "environ"):
        assert b"hunter2" not in seen_of(supervisor_of(machine), what)
    modes = {path.name: path.stat().st_mode & 0o777 for path in machine.place().iterdir() if not path.is_dir()}
    assert modes == dict.fromkeys(("spec.json", "started.json", "ending.json", "control.sock"), 0o600)
    assert process.pid


async def test_usage_counts_all_processes_of_a_container(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = await machine.start("sh", "-c", "sleep 600 & sleep 600 & echo; wait", log_path=str(log))
    await until(lambda: log.exists() and log.read_text())
    usage = process.usage()
    assert usage is not None
    assert usage.processes == 3
    assert usage.memory_bytes > 0


def supervisor_of(machine: Machine, name: str = "c") -> int:
    started = records.read_started(machine.place(name))
    assert started is not None
    return started.supervisor.pid


def seen_of(pid: int, what: str) -> bytes:
    return Path(f"/proc/{pid}/{what}").read_bytes()


async def test_ps_shows_what_a_supervisor_is_for(machine: Machine) -> None:
    await machine.start("sleep", "600", name="0123456789abcdef")
    assert (
        seen_of(supervisor_of(machine, "0123456789abcdef"), "cmdline").rstrip(b"\0")
        == b"syncpod-supervisor 0123456789abc"
    )


def test_children_are_found_even_if_the_kernel_does_not_list_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        assert child.pid in children_of(os.getpid())
        monkeypatch.setattr("syncpod.kernel.procfs._KERNEL_LISTS_CHILDREN", False)
        assert child.pid in children_of(os.getpid())
        child.kill()


async def test_a_log_that_cannot_be_opened_is_recorded_as_the_reason_of_the_exit(machine: Machine) -> None:
    taken = machine.directory / "logs" / "c.log"
    taken.mkdir(parents=True)
    sentence = f"open log {taken}: Is a directory"
    with pytest.raises(StartFailed, match=sentence):
        await machine.start("true", log_path=str(taken))
    await machine.restart()
    found = await machine.processes.find(machine.place())
    assert isinstance(found, Exited)
    assert (found.exit_code, found.reason, found.message) == (128, "StartError", sentence)


async def test_three_hundred_concurrent_starts_all_run_despite_a_slow_spawner(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        async with machine_at(LEVELS[-1], tmp_path) as machine:
            await (await machine.start("true")).wait()
            (spawner,) = [pid for pid in children_of(os.getpid()) if b"spawner.py" in command_line(pid)]
            os.kill(spawner, signal.SIGSTOP)  # Nothing is taken from its socket, which is soon full.
            starts = [asyncio.ensure_future(machine.start("true", name=f"c{number}")) for number in range(300)]
            await until(lambda: all((machine.place(f"c{number}") / records.SPEC).exists() for number in range(300)))
            os.kill(spawner, signal.SIGCONT)
            exits = await asyncio.gather(*[process.wait() for process in await asyncio.gather(*starts)])
            assert {(each.exit_code, each.reason) for each in exits} == {(0, "Completed")}
            assert runs(spawner)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def command_line(pid: int) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
