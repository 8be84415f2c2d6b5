"""What a pod's probes have found is told in the end, whatever comes while something else is being told."""

from __future__ import annotations

import asyncio
from typing import Literal

from syncpod.agent.probing.outbox import Outbox
from syncpod.messages import PodRef, ProbeChanged
from tests.agent.waiting import until


def found(result: Literal["success", "failure"]) -> ProbeChanged:
    return ProbeChanged(container="web", container_id="c0", probe="readiness", result=result)


async def test_what_is_found_while_the_one_before_is_being_told_is_told_next() -> None:
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
