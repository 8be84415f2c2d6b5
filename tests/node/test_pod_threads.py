"""File operations of a pod run in threads of that pod."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from syncpod.kernel import daemon_thread
from syncpod.kernel.daemon_thread import started_pool
from syncpod.node import pod_threads
from syncpod.node.pod_threads import DiskWork, PodThreads, TooManySilent
from tests.agent.waiting import until


def threads_of(*uids: str) -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.rpartition(" ")[2] in uids]


class Disk:
    """A disk that answers once it is released."""

    def __init__(self) -> None:
        self._answers = threading.Event()
        self.asked: list[str] = []

    def work(self, name: str) -> Callable[[], str]:
        def touch() -> str:
            self.asked.append(name)
            self._answers.wait()
            return name

        return touch

    def answer(self) -> None:
        self._answers.set()


async def test_a_pod_with_a_hung_disk_uses_one_thread_per_kind_and_delays_no_other_pod() -> None:
    threads, disk = PodThreads(), Disk()
    hung = [asyncio.create_task(threads.run("hung", DiskWork.MAKE, disk.work(str(number)))) for number in range(50)]
    try:
        assert await threads.run("well", DiskWork.MAKE, lambda: "made") == "made"
        await until(lambda: disk.asked == ["0"] and threads_of("hung") == ["make hung"])
        for task in hung[:-1]:
            task.cancel()
        await asyncio.gather(*hung[:-1], return_exceptions=True)
        assert threads_of("hung") == ["make hung"], "the thread cannot be stopped, and no second one is begun"
    finally:
        disk.answer()
    assert await hung[-1] == "49"
    assert disk.asked == ["0", "49"]


async def test_files_of_a_pod_are_not_made_while_they_are_being_removed() -> None:
    threads, disk = PodThreads(), Disk()
    removing = asyncio.create_task(threads.run("a", DiskWork.REMOVE, disk.work("remove")))
    await asyncio.sleep(0)
    making = asyncio.create_task(threads.run("a", DiskWork.MAKE, disk.work("make")))
    await asyncio.sleep(0)
    asked = tuple(disk.asked)
    disk.answer()
    assert (asked, await making, await removing, disk.asked) == (("remove",), "make", "remove", ["remove", "make"])


async def test_the_file_operation_that_a_pod_waits_for_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_threads, "SILENT_SECONDS", 0.0)
    threads, disk = PodThreads(), Disk()
    making = asyncio.create_task(threads.run("a", DiskWork.MAKE, disk.work("make")))
    await asyncio.sleep(0)
    told = threads.silence("a"), threads.silence("b")
    disk.answer()
    await making
    assert told == ("waits to make its directories and volumes: a disk has not answered for 0 s", "")
    assert threads.silence("a") == ""


async def test_hung_threads_do_not_grow_without_bound() -> None:
    threads, disk = PodThreads(most=2), Disk()
    hung = [asyncio.create_task(threads.run(uid, DiskWork.MAKE, disk.work(uid))) for uid in ("a", "b")]
    await asyncio.sleep(0)
    try:
        with pytest.raises(TooManySilent, match="2 calls to disks"):
            await threads.run("c", DiskWork.MAKE, disk.work("c"))
    finally:
        disk.answer()
    await asyncio.gather(*hung)
    assert await threads.run("c", DiskWork.MAKE, disk.work("c")) == "c"


async def test_an_error_in_a_pod_thread_is_raised_to_the_caller() -> None:
    def fail() -> None:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        await PodThreads().run("a", DiskWork.READ, fail)


def test_a_hung_thread_does_not_keep_the_process_from_exiting() -> None:
    """The worker ends although a disk does not answer: a thread of a pool would be waited for."""
    script = """
import asyncio, threading
from syncpod.node.pod_threads import DiskWork, PodThreads

async def main():
    hung = asyncio.create_task(PodThreads().run("a", DiskWork.MAKE, threading.Event().wait))
    await asyncio.sleep(0)
    hung.cancel()

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


async def test_work_for_which_no_thread_can_be_started_begins_when_one_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork bomb may take every process id of the machine, or of this user; the worker outlives that."""
    start, refusals = threading.Thread.start, ["no process id", "none yet"]

    def refuse(thread: threading.Thread) -> None:
        if refusals:
            raise RuntimeError(f"can't start new thread: {refusals.pop()}")
        start(thread)

    monkeypatch.setattr(daemon_thread, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await PodThreads().run("a", DiskWork.READ, lambda: "done") == "done"
    assert not refusals


def test_a_pool_needs_no_new_thread_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = started_pool(3, "begun")
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread is started"))
    together = threading.Barrier(3)
    assert sorted(each.result() for each in [pool.submit(together.wait) for _ in range(3)]) == [0, 1, 2]


async def test_a_thread_that_has_done_its_work_takes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start a thread blocks the event loop until it runs, which takes long on a busy machine."""
    start, started, done = threading.Thread.start, list[str](), 0

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    threads = PodThreads()

    async def did_without() -> bool:
        nonlocal done
        done += 1
        await threads.run("a", DiskWork.MAKE, lambda: None)
        return len(started) < done

    while not await did_without():
        pass


async def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_thread, "IDLE_SECONDS", 0.0)
    used = list[threading.Thread]()
    for _ in range(3):
        await PodThreads().run("a", DiskWork.MAKE, lambda: used.append(threading.current_thread()))
    await until(lambda: not any(each.is_alive() for each in used))


async def test_a_result_is_not_kept_until_garbage_is_collected() -> None:
    class Result:
        """The result of the work."""

    gc.collect()
    gc.disable()
    try:
        found = [weakref.ref(await daemon_thread.in_daemon_thread(Result, name="finds")) for _ in range(3)]
        await until(lambda: [each() for each in found] == [None] * 3)
    finally:
        gc.enable()
