"""The output of a container that never pauses keeps nobody else of the embedded runtime waiting."""

from __future__ import annotations

import asyncio
import socket

from syncpod.runtime.processes.control import Attached
from syncpod.runtime.processes.packets import Word

PACKETS = 100


async def test_other_tasks_run_between_two_packets_of_attached_output() -> None:
    ours, supervisor = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, supervisor:
        ours.setblocking(False)
        for _ in range(PACKETS):
            supervisor.send(Word.STDOUT + b"y\n")
        supervisor.send(Word.ENDED)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(beat())
        read = [data async for _, data in Attached(ours, asyncio.get_running_loop().create_future()).output()]
        others.cancel()
    assert (len(read), beats >= PACKETS) == (PACKETS, True), beats
