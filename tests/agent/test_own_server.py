"""The check that a server belongs to the node: shared by sends that follow one another, then made again."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.temporal import own_server
from syncpod.temporal.own_server import OwnServer


class Server:
    """A Temporal server that may or may not be the node's."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_another = False

    async def require(self) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_another:
            raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")


async def test_sends_at_the_same_time_share_one_check() -> None:
    server = Server()
    own = OwnServer(server.require)
    await asyncio.gather(*(own.require() for _ in range(100)))
    await own.require()
    assert server.asked == 1


async def test_a_send_that_is_cancelled_takes_the_check_from_no_other() -> None:
    server = Server()
    own = OwnServer(server.require)
    first = asyncio.create_task(own.require())
    second = asyncio.create_task(own.require())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert server.asked == 2


async def test_sends_that_wait_for_a_check_that_fails_fail_with_it() -> None:
    """A server that is away answers after seconds: the sends would otherwise wait for one another."""
    server = Server()
    own = OwnServer(server.require)
    server.is_another = True
    outcomes = await asyncio.gather(*(own.require() for _ in range(100)), return_exceptions=True)
    assert server.asked == 1
    assert {str(each) for each in outcomes} == {"another server"}


async def test_another_server_is_refused_and_an_old_answer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    own = OwnServer(server.require)
    server.is_another = True
    with pytest.raises(RPCError, match="another server"):
        await own.require()
    server.is_another = False
    monkeypatch.setattr(own_server, "_REUSED_SECONDS", -1.0)
    await own.require()
    server.is_another = True
    with pytest.raises(RPCError, match="another server"):
        await own.require()
