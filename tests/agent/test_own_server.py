"""The check that a server belongs to the node: made ahead, reused for a while, then made again."""

from __future__ import annotations

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
        if self.is_another:
            raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")


async def test_what_was_asked_a_moment_ago_need_not_be_asked_again() -> None:
    server = Server()
    own = OwnServer(server.require)
    own.expect()
    own.expect()
    await own.require()
    await own.require()
    assert server.asked == 1


async def test_what_nobody_has_asked_ahead_is_asked() -> None:
    server = Server()
    own = OwnServer(server.require)
    await own.require()
    server.is_another = True
    with pytest.raises(RPCError, match="another server"):
        await own.require()


async def test_another_server_is_refused_and_an_old_answer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    own = OwnServer(server.require)
    server.is_another = True
    own.expect()
    with pytest.raises(RPCError, match="another server"):
        await own.require()
    server.is_another = False
    monkeypatch.setattr(own_server, "_ASKED_SECONDS", 0.0)
    own.expect()
    server.is_another = True
    with pytest.raises(RPCError, match="another server"):
        await own.require()
