"""Each pod has its own share of the threads, so a busy pod does not delay another.

Holds: A pod's server decides nothing of what its probe costs other pods.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from syncpod.handlers.pod_shares import PodShares
from syncpod.kernel.daemon_thread import DaemonThreads
from tests.agent.waiting import until


async def test_a_pod_has_no_more_than_its_share_and_another_does_not_wait_for_it() -> None:
    shares = PodShares(2, partial(DaemonThreads().run, name="work"))
    begun, end = [0], threading.Event()

    def hangs() -> None:
        begun[0] += 1
        end.wait()

    hanging = [asyncio.create_task(shares.run("hostile", hangs)) for _ in range(5)]
    await until(lambda: begun == [2])
    assert await shares.run("neighbour", lambda: "done") == "done"
    for task in hanging[:2]:
        task.cancel()
    await asyncio.wait(hanging[:2])
    assert await shares.run("neighbour", lambda: "done") == "done"
    assert begun == [2], "a thread that nobody waits for any more still takes its place"
    end.set()
    await asyncio.gather(*hanging[2:])
    assert begun == [5]


async def test_the_end_of_work_frees_its_place_however_it_ends() -> None:
    shares = PodShares(1, partial(DaemonThreads().run, name="work"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await shares.run("u1", lambda: 1 // 0)

    def refused(_: object) -> asyncio.Future[object]:
        raise RuntimeError("no thread")

    none = PodShares(1, refused)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await none.run("u1", lambda: 1)
