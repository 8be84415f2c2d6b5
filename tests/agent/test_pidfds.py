"""Exits are noticed by pidfd, with the kernel's exit codes.

Holds: An exit is known even if the runtime was down.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.agent import pidfds as module
from syncpod.agent.pidfds import PidfdWatcher
from syncpod.cri.errors import NotFound
from syncpod.kernel.pidfd_info import exit_code, reports_exits
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.node.reader import PID_UNREPORTED
from syncpod.node.seen_exits import SeenExits
from tests.agent.listings import unavailable
from tests.agent.waiting import until


class Runtime:
    """Returns the pid of a container, and counts how often it was asked."""

    def __init__(self) -> None:
        self.pids: dict[str, list[int]] = {}
        """For each id, the answers in order; the last one is repeated."""
        self.asked: list[str] = []
        self.broken = False

    async def pid_of(self, id_: str) -> int:
        self.asked.append(id_)
        if self.broken:
            raise unavailable()
        answers = self.pids.get(id_)
        if answers is None:
            raise NotFound("container_status", "NOT_FOUND", id_)
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def exits() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def pidfds(runtime: Runtime, exits: list[tuple[str, str]]) -> AsyncIterator[PidfdWatcher]:
    made = PidfdWatcher(
        lambda uid, id_: exits.append((uid, id_)),
        container_pid=runtime.pid_of,
        sandbox_pid=runtime.pid_of,
        sandbox_delay_seconds=0,
    )
    yield made
    made.close()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(["sleep", "600"])
    yield started
    started.kill()
    started.wait()


def running(*ids: str, sandbox: str = "") -> ObservedPod:
    return ObservedPod(
        uid="u1",
        containers=tuple(ObservedContainer(id=id_, name=id_, state="running") for id_ in ids),
        sandboxes=(ObservedSandbox(id=sandbox, state="SANDBOX_READY"),) if sandbox else (),
    )


async def test_the_exit_of_a_containers_process_is_noticed(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: pidfds.listening() == {"container-one"})
    assert exits == []

    process.kill()
    await until(lambda: bool(exits))
    assert exits == [("u1", "container-one")]
    assert pidfds.listening() == frozenset()


async def test_the_exit_of_a_pause_process_is_noticed(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids["sandbox-one"] = [process.pid]
    pidfds.watch(running(sandbox="sandbox-one"))
    await until(lambda: pidfds.listening() == {"sandbox-one"})
    process.kill()
    await until(lambda: exits == [("u1", "sandbox-one")])


async def test_an_exit_is_reported_once_even_if_the_runtime_still_lists_the_container_running(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    process.kill()
    await until(lambda: bool(exits))
    asked = len(runtime.asked)
    for _ in range(5):
        pidfds.watch(running("container-one"))
        await asyncio.sleep(0.005)
    assert exits == [("u1", "container-one")]
    assert len(runtime.asked) == asked


async def test_a_container_that_ended_before_it_was_watched_is_reported(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    process.kill()
    process.wait()
    runtime.pids |= {"stale": [process.pid], "said": [0]}
    pidfds.watch(running("stale", "said"))
    await until(lambda: len(exits) == 2)
    assert sorted(exits) == [("u1", "said"), ("u1", "stale")]


async def test_a_reused_pid_is_not_watched(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids["container-one"] = [process.pid, 0]  # the second call returns another pid
    pidfds.watch(running("container-one"))
    await until(lambda: bool(exits))
    assert pidfds.listening() == frozenset()
    assert runtime.asked == ["container-one", "container-one"]


async def test_a_process_in_the_containers_cgroup_is_watched_without_asking_again(
    pidfds: PidfdWatcher, runtime: Runtime, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "syncpod.agent.pidfds._is_in_cgroup_of", lambda pid, id_: (pid, id_) == (process.pid, "container-one")
    )
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    assert runtime.asked == ["container-one"]


async def test_an_ended_or_unlisted_container_is_no_longer_watched(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids |= {"container-one": [process.pid], "container-two": [process.pid]}
    pidfds.watch(running("container-one", "container-two"))
    await until(lambda: len(pidfds.listening()) == 2)
    pidfds.watch(running("container-two"))
    assert pidfds.listening() == {"container-two"}
    pidfds.watch(ObservedPod(uid="u1"))
    assert pidfds.listening() == frozenset()
    process.kill()
    runtime.pids["later"] = [process.pid]
    pidfds.watch(running("later"))
    await until(lambda: bool(exits))
    assert exits == [("u1", "later")]


async def test_without_a_pid_the_exit_is_left_to_the_relist(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]]
) -> None:
    runtime.broken = True
    pidfds.watch(running("container-one"))
    await until(lambda: bool(runtime.asked))
    runtime.broken, runtime.pids["later"] = False, [0]
    pidfds.watch(running("later"))
    await until(lambda: bool(exits))
    assert exits == [("u1", "later")]
    assert pidfds.listening() == frozenset()


async def test_a_pid_in_the_listing_is_not_asked_for_again(
    pidfds: PidfdWatcher,
    runtime: Runtime,
    exits: list[tuple[str, str]],
    process: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("syncpod.agent.pidfds._is_in_cgroup_of", lambda pid, id_: pid == process.pid)
    container = ObservedContainer(id="container-one", name="container-one", state="running", pid=process.pid)
    pidfds.watch(ObservedPod(uid="u1", containers=(container,)))
    await until(lambda: bool(pidfds.listening()))
    assert runtime.asked == []
    process.kill()
    await until(lambda: exits == [("u1", "container-one")])


async def test_the_pid_of_a_sandbox_is_asked_for_late_and_only_if_it_still_exists(runtime: Runtime) -> None:
    waits = PidfdWatcher(
        lambda *_: None, container_pid=runtime.pid_of, sandbox_pid=runtime.pid_of, sandbox_delay_seconds=60
    )
    waits.watch(running(sandbox="sandbox-one"))
    soon = PidfdWatcher(
        lambda *_: None, container_pid=runtime.pid_of, sandbox_pid=runtime.pid_of, sandbox_delay_seconds=0.05
    )
    soon.watch(running(sandbox="sandbox-two"))
    soon.watch(ObservedPod(uid="u1"))
    soon.watch(running(sandbox="sandbox-three"))
    await until(lambda: bool(runtime.asked))
    assert runtime.asked == ["sandbox-three"]
    waits.close()
    soon.close()


async def test_a_container_without_a_process_is_asked_for_once_and_never_reported_as_ended(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]]
) -> None:
    runtime.pids["simulated"] = [PID_UNREPORTED]
    for _ in range(3):
        pidfds.watch(running("simulated"))
        await asyncio.sleep(0.01)
    assert (runtime.asked, exits, pidfds.listening()) == (["simulated"], [], frozenset())


async def test_a_runtime_that_tells_no_pids_is_not_asked_for_each_of_them_until_a_listing_has_one(
    pidfds: PidfdWatcher, runtime: Runtime, exits: list[tuple[str, str]], process: subprocess.Popen[bytes]
) -> None:
    runtime.pids |= {"first": [PID_UNREPORTED], "sandbox-two": [process.pid], "third": [process.pid]}
    pidfds.watch(running("first"))
    await until(lambda: bool(runtime.asked) and not pidfds.sees_all())
    pidfds.watch(running("second", sandbox="sandbox-one"))
    await asyncio.sleep(0)
    assert (runtime.asked, exits, pidfds.sees_all()) == (["first"], [], False)
    told = ObservedContainer(id="told", name="told", state="running", pid=process.pid)
    pidfds.watch(ObservedPod(uid="u2", containers=(told,)))
    pidfds.watch(ObservedPod(uid="u3", sandboxes=(ObservedSandbox(id="sandbox-two", state="SANDBOX_READY"),)))
    await until(lambda: "sandbox-two" in pidfds.listening())


# --- how it ended -----------------------------------------------------------------------------------------------------

speaks = pytest.mark.skipif(not reports_exits(), reason="needs Linux 6.15")


def waiting_for_a_line(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", f"read _; {script}"], stdin=subprocess.PIPE)


def ended(id_: str, code: int, reason: str) -> ObservedPod:
    (container,) = running(id_).containers
    exit_ = Exit(id=id_, exit_code=code, reason=reason, finished_at=datetime(2026, 1, 1, tzinfo=UTC))
    return ObservedPod(uid="u1", containers=(container.ended_as(exit_),))


async def watched(runtime: Runtime, process: subprocess.Popen[bytes], seen: SeenExits) -> PidfdWatcher:
    """A watcher of a running container's process."""
    pidfds = PidfdWatcher(lambda *_: None, container_pid=runtime.pid_of, sandbox_pid=runtime.pid_of, exits=seen)
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    return pidfds


async def until_seen(exits: SeenExits, id_: str) -> Exit:
    """Wait until the kernel has reported a container's exit."""
    await until(lambda: exits.of(id_) is not None)
    seen = exits.of(id_)
    assert seen is not None
    return seen


@speaks
async def test_a_doubtful_exit_code_waits_for_the_kernels(
    runtime: Runtime, exits: list[tuple[str, str]], tmp_path: Path
) -> None:
    """The process has ended and is not reaped yet: the runtime restarts earlier, and reports 255."""
    seen = SeenExits(tmp_path)
    pidfds = PidfdWatcher(
        lambda uid, id_: exits.append((uid, id_)),
        container_pid=runtime.pid_of,
        sandbox_pid=runtime.pid_of,
        exits=seen,
    )
    process = waiting_for_a_line("exit 0")
    assert process.stdin is not None
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    process.stdin.close()
    await until(lambda: bool(exits))
    doubtful = Exit(id="container-one", exit_code=255, reason="Unknown")
    completed = asyncio.create_task(seen.complete(doubtful))
    await asyncio.sleep(0)
    assert not completed.done()
    process.wait()
    told = await completed
    assert (told.exit_code, told.reason) == (0, "Completed")
    pidfds.close()


@speaks
async def test_an_exit_code_of_a_process_that_still_runs_waits_for_its_end(runtime: Runtime, tmp_path: Path) -> None:
    """A runtime whose shim was killed reports 255 at once, and kills the shim's remaining processes after that."""
    seen = SeenExits(tmp_path)
    process = waiting_for_a_line("exit 0")
    pidfds = await watched(runtime, process, seen)
    completed = asyncio.create_task(seen.complete(Exit(id="container-one", exit_code=255, reason="Error")))
    await asyncio.sleep(0)
    process.kill()
    process.wait()
    assert (await completed).exit_code == 137
    pidfds.close()


@speaks
async def test_a_process_is_watched_to_its_end_even_if_listed_as_exited(
    runtime: Runtime, exits: list[tuple[str, str]], tmp_path: Path
) -> None:
    """The shim was killed on a busy machine: its remaining processes are killed long after the runtime listed 255."""
    seen = SeenExits(tmp_path)
    told = exits.append
    pidfds = PidfdWatcher(
        lambda *exit_: told(exit_), container_pid=runtime.pid_of, sandbox_pid=runtime.pid_of, exits=seen
    )
    process = waiting_for_a_line("exit 0")
    assert process.stdin is not None
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    pidfds.watch(ended("container-one", 255, "Unknown"))
    assert pidfds.listening()
    process.stdin.close()
    await until(lambda: bool(exits))
    pidfds.watch(ended("container-one", 255, "Unknown"))
    process.wait()
    assert (await until_seen(seen, "container-one")).exit_code == 0
    pidfds.watch(ended("container-one", 0, "Completed"))
    assert not pidfds.listening()
    pidfds.close()


@speaks
async def test_a_removed_container_is_no_longer_watched(
    runtime: Runtime, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pidfds = await watched(runtime, process, SeenExits(tmp_path))
    pidfds.watch(ObservedPod(uid="u1"))
    assert not pidfds.listening()
    pidfds.close()


async def test_waiters_are_released_when_a_process_is_no_longer_watched(
    runtime: Runtime, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    seen = SeenExits(tmp_path)
    pidfds = await watched(runtime, process, seen)
    pidfds.close()
    doubtful = asyncio.create_task(seen.complete(Exit(id="container-one", exit_code=255, reason="Unknown")))
    await asyncio.sleep(0)
    assert doubtful.done()


@speaks
@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("exit 0", 0), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
async def test_the_kernel_reports_the_exit_code_once_the_process_is_reaped(
    runtime: Runtime, exits: list[tuple[str, str]], script: str, code: int, tmp_path: Path
) -> None:
    seen = SeenExits(tmp_path)
    pidfds = PidfdWatcher(
        lambda uid, id_: exits.append((uid, id_)),
        container_pid=runtime.pid_of,
        sandbox_pid=runtime.pid_of,
        exits=seen,
    )
    process = waiting_for_a_line(script)
    runtime.pids["container-one"] = [process.pid]
    pidfds.watch(running("container-one"))
    await until(lambda: bool(pidfds.listening()))
    process.communicate(b"\n")
    told = await until_seen(seen, "container-one")
    assert (told.exit_code, exits) == (code, [("u1", "container-one")])
    pidfds.close()


@speaks
def test_the_kernel_reports_no_exit_code_of_an_unreaped_process() -> None:
    process = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(process.pid)
    os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    before = exit_code(pidfd)
    process.wait()
    assert (before, exit_code(pidfd)) == (None, 0)
    os.close(pidfd)


async def test_a_kernel_without_exit_information_is_logged_once(
    runtime: Runtime,
    exits: list[tuple[str, str]],
    process: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("syncpod.kernel.pidfd_info._GET_INFO", 0xFF00)  # an ioctl that no kernel has
    seen = SeenExits(tmp_path)
    with caplog.at_level(logging.INFO):
        pidfds = PidfdWatcher(
            lambda uid, id_: exits.append((uid, id_)),
            container_pid=runtime.pid_of,
            sandbox_pid=runtime.pid_of,
            exits=seen,
        )
        runtime.pids["container-one"] = [process.pid]
        pidfds.watch(running("container-one"))
        await until(lambda: bool(pidfds.listening()))
        process.kill()
        await until(lambda: bool(exits))
    assert [record.message for record in caplog.records] == [module.NO_EXIT_CODES]
    assert seen.ids() == frozenset()
    pidfds.close()
