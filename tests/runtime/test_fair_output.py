"""A container that never pauses its output does not delay other clients of the embedded runtime."""

from __future__ import annotations

import asyncio
import socket

from syncpod.runtime.processes.control import Attached
from syncpod.runtime.processes.packets import Word
from tests.agent.waiting import turns_of_others

PACKETS = 100


async def test_other_tasks_run_between_two_packets_of_attached_output() -> None:
    ours, supervisor = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, supervisor:
        ours.setblocking(False)
        for _ in range(PACKETS):
            supervisor.send(Word.STDOUT + b"y\n")
        supervisor.send(Word.ENDED)
        async with turns_of_others() as turns:
            read = [data async for _, data in Attached(ours, asyncio.get_running_loop().create_future()).output()]
    assert (len(read), turns() >= PACKETS) == (PACKETS, True), turns()
