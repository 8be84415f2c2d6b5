"""Probe results are eventually sent, even those that arrive during another send."""

from __future__ import annotations

import asyncio
from typing import Literal

from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.probing.outbox import Outbox
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import ProbeChanged
from tests.agent.waiting import until


def found(result: Literal["success", "failure"]) -> ProbeChanged:
    return ProbeChanged(container="web", container_id="c0", probe="readiness", result=result)


def failing(times: int) -> ProbeChanged:
    return ProbeChanged(
        container="web", container_id="c0", probe="readiness", result="unknown", message=f"no {times}", failures=times
    )


async def test_unsent_probe_failures_are_added_up_and_never_sent_twice() -> None:
    sent: list[ProbeChanged] = []
    answers: asyncio.Queue[bool] = asyncio.Queue()

    async def send(ref: PodRef, change: ProbeChanged) -> bool:
        sent.append(change)
        if not await answers.get():
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return True

    outbox = Outbox(PodRef(name="web"), send, taken=lambda _: None, emptied=lambda: None)
    outbox.put(failing(1))
    await until(lambda: len(sent) == 1)
    outbox.put(failing(9))
    outbox.put(failing(90))
    answers.put_nowait(False)
    await until(lambda: len(sent) == 2)
    assert (sent[1].failures, sent[1].message) == (100, "no 90"), "the first has not arrived"
    outbox.put(failing(5))
    answers.put_nowait(True)
    await until(lambda: len(sent) == 3)
    assert sent[2].failures == 5, "the others have"
    outbox.put(found("success"))
    answers.put_nowait(True)
    await until(lambda: len(sent) == 4)
    answers.put_nowait(True)
    await until(lambda: not outbox)
    assert (sent[3].result, sent[3].failures) == ("success", 0)


async def test_unsent_errors_of_a_probe_are_added_up() -> None:
    sent: list[ProbeChanged] = []
    answers: asyncio.Queue[bool] = asyncio.Queue()

    async def send(ref: PodRef, change: ProbeChanged) -> bool:
        sent.append(change)
        if not await answers.get():
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return True

    outbox = Outbox(PodRef(name="web"), send, taken=lambda _: None, emptied=lambda: None)
    for times in (1, 9):
        outbox.put(ProbeChanged(container_id="c0", message=f"cannot {times}", errors=times))
        await until(lambda: bool(sent))
    answers.put_nowait(False)
    await until(lambda: len(sent) == 2)
    answers.put_nowait(True)
    await until(lambda: not outbox)
    assert (sent[1].errors, sent[1].message) == (10, "cannot 9")


async def test_a_probe_result_found_during_a_send_is_sent_next() -> None:
    sent: list[ProbeChanged] = []
    taken: list[ProbeChanged] = []
    server_answers = asyncio.Event()

    async def send(ref: PodRef, change: ProbeChanged) -> bool:
        sent.append(change)
        await server_answers.wait()
        return True

    outbox = Outbox(PodRef(name="web"), send, taken=taken.append, emptied=lambda: None)
    outbox.put(found("failure"))
    await until(lambda: bool(sent))
    outbox.put(found("success"))
    server_answers.set()
    await until(lambda: not outbox)
    assert sent == taken == [found("failure"), found("success")]
