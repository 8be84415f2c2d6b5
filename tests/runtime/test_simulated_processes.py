"""Simulated processes behave like real ones: for waiting clients, after a kill of the server, and on disk."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.runtime.port import Exited, Processes, ProcessSpec, StartFailed, Stream
from syncpod.runtime.simulation import timers
from syncpod.runtime.simulation.processes import Simulated, SimulatedProcess

HOUR = 3600 * 10**9


class Clock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def restarts() -> list[str]:
    return []


@pytest.fixture
async def simulated(clock: Clock, restarts: list[str]) -> AsyncIterator[Simulated]:
    made = Simulated(lambda: restarts.append("restart"), clock)
    yield made
    await made.close()


def web(attempt: int = 0, log_path: str = "", **script: Any) -> ProcessSpec:
    annotations = {"simulate.syncpod.dev/web": json.dumps(script)} if script else {}
    return ProcessSpec("c1", ("sh",), name="web", attempt=attempt, script=annotations, log_path=log_path)


def pause(**script: Any) -> ProcessSpec:
    return ProcessSpec("s1", (), script={"simulate.syncpod.dev/pod": json.dumps(script)})


async def found(simulated: Simulated, directory: Path) -> SimulatedProcess:
    process = await simulated.find(directory)
    assert isinstance(process, SimulatedProcess)
    return process


def test_simulated_processes_implement_the_state_machines_protocol(simulated: Simulated) -> None:
    processes: Processes = simulated
    assert processes is simulated


async def test_a_simulated_process_exits_exactly_as_scripted(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(runTime="20ms", exitCode=3), tmp_path)
    exited = await process.wait()
    assert exited == Exited(3, "Error", "", process.started_at, process.started_at + 20 * 10**6)
    assert await process.wait() == exited
    assert await simulated.find(tmp_path) == exited


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ({"exitCode": 0}, 0, "Completed"),
        ({"exitCode": 1}, 1, "Error"),
        ({"oomKilled": True}, 137, "OOMKilled"),
        ({"oomKilled": True, "exitCode": 0}, 0, "OOMKilled"),
    ],
)
async def test_simulated_exit_reasons_are_containerds(
    simulated: Simulated, tmp_path: Path, script: dict[str, Any], code: int, reason: str
) -> None:
    exited = await (await simulated.start(web(runTime="1ms", **script), tmp_path)).wait()
    assert (exited.exit_code, exited.reason) == (code, reason)


@pytest.mark.parametrize(("attempt", "code"), [(0, 1), (1, 2), (2, 0), (7, 0)])
async def test_each_attempt_has_its_exit_code_and_the_last_one_repeats(
    simulated: Simulated, tmp_path: Path, attempt: int, code: int
) -> None:
    process = await simulated.start(web(attempt, runTime="1ms", exitCodes=[1, 2, 0]), tmp_path)
    assert (await process.wait()).exit_code == code


async def test_an_attempt_without_an_exit_code_runs_until_it_is_stopped(
    simulated: Simulated, clock: Clock, tmp_path: Path
) -> None:
    await simulated.start(web(1, runTime="1ms", exitCodes=[1, None]), tmp_path)
    clock.ahead = HOUR
    process = await found(simulated, tmp_path)
    process.signal(signal.SIGTERM)
    assert (await process.wait()).exit_code == 143


async def test_a_simulated_exit_without_a_server_is_found_with_its_code_and_time(
    simulated: Simulated, clock: Clock, tmp_path: Path
) -> None:
    process = await simulated.start(web(runTime="30m", exitCode=7), tmp_path)
    await simulated.close()
    clock.ahead = HOUR
    assert await simulated.find(tmp_path) == Exited(7, "Error", "", process.started_at, process.started_at + HOUR // 2)


async def test_a_simulated_process_is_found_running_and_exits_under_the_next_server(
    simulated: Simulated, tmp_path: Path
) -> None:
    before = await simulated.start(web(runTime="2s", exitCode=7), tmp_path)
    await simulated.close()
    process = await found(simulated, tmp_path)
    assert (process.started_at, process.pid) == (before.started_at, 0)
    assert (await process.wait()).finished_at == before.started_at + 2 * 10**9


async def test_a_simulated_process_that_was_never_started_is_not_found(simulated: Simulated, tmp_path: Path) -> None:
    assert await simulated.find(tmp_path) is None


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "number", "code"),
    [
        ({}, signal.SIGTERM, 143),
        ({}, signal.SIGINT, 130),
        ({}, signal.SIGKILL, 137),
        ({"stopExitCode": 0}, signal.SIGTERM, 0),
        ({"stopExitCode": 5}, signal.SIGKILL, 137),
        ({"ignoresSignals": True}, signal.SIGKILL, 137),
    ],
)
async def test_a_terminating_signal_ends_a_simulated_process(
    simulated: Simulated, tmp_path: Path, script: dict[str, Any], number: int, code: int
) -> None:
    process = await simulated.start(web(**script), tmp_path)
    process.signal(number)
    assert (await process.wait()).exit_code == code


@pytest.mark.parametrize(
    ("script", "number"),
    [({}, signal.SIGWINCH), ({}, signal.SIGCONT), ({}, 0), ({"ignoresSignals": True}, signal.SIGTERM)],
)
async def test_an_ignored_signal_does_not_end_a_simulated_process(
    simulated: Simulated, clock: Clock, tmp_path: Path, script: dict[str, Any], number: int
) -> None:
    process = await simulated.start(web(**script), tmp_path)
    process.signal(number)
    clock.ahead = HOUR
    await found(simulated, tmp_path)
    process.kill()
    assert (await process.wait()).exit_code == 137


async def test_a_signal_is_recorded_before_it_takes_effect(simulated: Simulated, clock: Clock, tmp_path: Path) -> None:
    process = await simulated.start(web(stopDelay="30m", stopExitCode=0), tmp_path)
    process.signal(signal.SIGTERM)
    await simulated.close()  # as by a kill: only the files on disk are kept
    await found(simulated, tmp_path)
    clock.ahead = HOUR
    ended = await simulated.find(tmp_path)
    assert isinstance(ended, Exited)
    assert (ended.exit_code, ended.reason) == (0, "Completed")


async def test_sigkill_ends_a_process_with_a_slow_stop(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(stopDelay="30m", stopExitCode=0), tmp_path)
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGTERM)
    process.kill()
    assert (await process.wait()).exit_code == 137


async def test_a_process_with_a_slow_stop_may_exit_by_itself_first(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(runTime="10ms", exitCode=9, stopDelay="30m"), tmp_path)
    process.signal(signal.SIGTERM)
    assert (await process.wait()).exit_code == 9


async def test_signals_to_an_ended_process_change_nothing(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(runTime="0"), tmp_path)
    exited = await process.wait()
    process.signal(signal.SIGTERM)
    process.kill()
    assert (await process.wait(), await simulated.find(tmp_path), process.usage()) == (exited, exited, None)


async def test_any_number_of_waiters_may_wait_and_cancel(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(), tmp_path)
    waiting = [asyncio.create_task(process.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.sleep(0)
    process.kill()
    assert [(await task).exit_code for task in (waiting[0], waiting[2])] == [137, 137]


# --- starts -----------------------------------------------------------------------------------------------------------


async def test_a_scripted_start_failure_is_raised_and_leaves_nothing(simulated: Simulated, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="no such device"):
        await simulated.start(web(startError="no such device"), tmp_path)
    assert await simulated.find(tmp_path) is None


async def test_a_start_cancelled_in_its_delay_has_not_happened(simulated: Simulated, tmp_path: Path) -> None:
    starting = asyncio.create_task(simulated.start(web(startDelay="1h"), tmp_path))
    await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.wait([starting])
    assert await simulated.find(tmp_path) is None


async def test_an_invalid_script_is_also_refused_at_the_start(simulated: Simulated, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"\[simulate.syncpod.dev/web\].runTime: must be a duration"):
        await simulated.start(web(runTime="soon"), tmp_path)


# --- sandboxes --------------------------------------------------------------------------------------------------------


async def test_a_simulated_sandbox_lives_until_killed_or_as_scripted(
    simulated: Simulated, clock: Clock, tmp_path: Path
) -> None:
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    assert (await (await simulated.start(pause(runTime="1ms"), tmp_path / "short")).wait()).reason == "Completed"
    process = await simulated.start(pause(), tmp_path / "long")
    clock.ahead = HOUR
    await found(simulated, tmp_path / "long")
    process.kill()
    assert (await process.wait()).exit_code == 137


async def test_the_runtime_restarts_once_at_the_scripted_time_after_the_sandbox_start(
    simulated: Simulated, clock: Clock, restarts: list[str], tmp_path: Path
) -> None:
    process = await simulated.start(pause(restartRuntimeAfter="10ms", runTime="50ms"), tmp_path)
    await process.wait()
    assert restarts == ["restart"]


async def test_a_restarted_runtime_does_not_restart_again(
    simulated: Simulated, clock: Clock, restarts: list[str], tmp_path: Path
) -> None:
    await simulated.start(pause(restartRuntimeAfter="30m", runTime="2h"), tmp_path)
    await simulated.close()
    clock.ahead = HOUR
    await found(simulated, tmp_path)
    await simulated.close()
    clock.ahead = 2 * HOUR - 10**7
    process = await simulated.find(tmp_path)
    assert process is not None
    assert isinstance(process, Exited) or await process.wait()  # on a busy machine it has already ended
    assert restarts == []


async def test_the_runtime_does_not_restart_for_a_sandbox_that_is_gone(
    simulated: Simulated, clock: Clock, restarts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "_LOOKS_EVERY_SECONDS", 0.01)  # how soon a change of the clock is noticed
    for name in ("gone", "here", "next"):
        (tmp_path / name).mkdir()
    gone = await simulated.start(pause(restartRuntimeAfter="30m"), tmp_path / "gone")
    gone.kill()
    await gone.wait()
    clock.ahead = HOUR
    await (await simulated.start(pause(runTime="1ms"), tmp_path / "here")).wait()
    assert restarts == []
    await simulated.start(pause(restartRuntimeAfter="30m"), tmp_path / "here")
    clock.ahead = 2 * HOUR
    await (await simulated.start(pause(runTime="1ms"), tmp_path / "next")).wait()
    assert restarts == ["restart"], "a sandbox that is there has the runtime restart"


# --- logs, commands, usage --------------------------------------------------------------------------------------------


async def test_scripted_log_lines_are_written_in_cri_format(simulated: Simulated, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "web" / "0.log"
    process = tmp_path / "process"
    process.mkdir()
    await simulated.start(web(log_path=str(log), log=["hello", "x" * 20_000, ""]), process)
    first, second, third, fourth = (line.split(" ", 3) for line in log.read_text().splitlines())
    assert first[0].endswith("Z")
    assert len({first[0], second[0], third[0], fourth[0]}) == 1
    assert [line[1:3] for line in (first, second, third, fourth)] == [
        ["stdout", "F"],
        ["stdout", "P"],
        ["stdout", "F"],
        ["stdout", "F"],
    ]
    assert (first[3], second[3] + third[3], fourth[3]) == ("hello", "x" * 20_000, "")


async def test_a_moved_simulated_log_exists_again_after_reopen(simulated: Simulated, tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    process = await simulated.start(web(log_path=str(log), log=["hello"]), tmp_path)
    log.rename(tmp_path / "0.log.1")
    await process.reopen_log()
    assert (log.read_text(), len((tmp_path / "0.log.1").read_text().splitlines())) == ("", 1)


async def test_an_unwritable_simulated_log_fails_the_start(simulated: Simulated, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed, match="failed to open log file"):
        await simulated.start(web(log_path=str(tmp_path / "file" / "0.log"), log=["hello"]), tmp_path)
    assert await simulated.find(tmp_path) is None


@pytest.mark.parametrize(("merged", "second"), [(False, Stream.STDERR), (True, Stream.STDOUT)])
async def test_a_command_has_its_scripted_answer(
    simulated: Simulated, tmp_path: Path, merged: bool, second: Stream
) -> None:
    answer = {"stdout": "out\n", "stderr": "err\n", "exitCode": 3, "delay": "1ms"}
    process = await simulated.start(web(exec=answer), tmp_path)
    streams = await process.execute(("cat",), stdin=True, merge_stderr=merged)
    await streams.write(b"input")
    streams.end_input()
    said = [piece async for piece in streams.output()]
    assert (said, await streams.wait()) == ([(Stream.STDOUT, b"out\n"), (second, b"err\n")], 3)
    await streams.close()


async def test_an_unscripted_command_succeeds_without_output(simulated: Simulated, tmp_path: Path) -> None:
    streams = await (await simulated.start(web(), tmp_path)).execute(("true",))
    assert ([piece async for piece in streams.output()], await streams.wait()) == ([], 0)


async def test_an_attached_simulated_container_gives_no_output_until_it_ends(
    simulated: Simulated, tmp_path: Path
) -> None:
    process = await simulated.start(web(runTime="20ms", exitCode=4), tmp_path)
    streams = await process.attach()
    assert ([piece async for piece in streams.output()], await streams.wait()) == ([], 4)


async def test_the_end_of_input_detaches_except_with_stdin_once_and_no_terminal(
    simulated: Simulated, tmp_path: Path
) -> None:
    cases: dict[str, dict[str, Any]] = {"goes on": {}, "on a terminal": {"stdin_once": True, "terminal": True}}
    for name, more in cases.items():
        (tmp_path / name).mkdir()
        streams = await (await simulated.start(replace(web(), stdin=True, **more), tmp_path / name)).attach()
        streams.end_input()
        assert [piece async for piece in streams.output()] == []
    (tmp_path / "once").mkdir()
    process = await simulated.start(replace(web(runTime="20ms"), stdin=True, stdin_once=True), tmp_path / "once")
    streams = await process.attach()
    streams.end_input()
    assert ([piece async for piece in streams.output()], process.has_ended) == ([], True)


async def test_an_ended_container_accepts_no_exec_and_no_attach(simulated: Simulated, tmp_path: Path) -> None:
    process = await simulated.start(web(runTime="0"), tmp_path)
    await process.wait()
    with pytest.raises(StartFailed, match="cannot exec in a stopped container"):
        await process.execute(("true",))
    with pytest.raises(StartFailed, match="cannot attach to a stopped container"):
        await process.attach()


async def test_simulated_usage_is_as_scripted(simulated: Simulated, clock: Clock, tmp_path: Path) -> None:
    process = await simulated.start(web(memory="64Mi", cpu="250m"), tmp_path)
    clock.ahead = HOUR
    usage = process.usage()
    assert usage is not None
    assert (usage.memory_bytes, usage.processes) == (64 * 2**20, 1)
    assert usage.cpu_nanoseconds >= HOUR // 4
