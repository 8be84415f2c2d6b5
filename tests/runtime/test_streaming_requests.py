"""Requests for streams that are refused, and the messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.kernel.callers import AT_ONCE, OF_A_STRANGER
from syncpod.kernel.peers import Address, Peer, find_peer
from syncpod.runtime.port import Streams
from syncpod.runtime.streaming import StreamingServer, server, tickets
from syncpod.runtime.streaming.request import Refused, parse_request
from syncpod.runtime.streaming.terminal_sizes import TerminalSizes
from syncpod.runtime.streaming.tickets import Tickets, TooManyTickets
from tests.runtime.local_streams import LocalStreams

STRANGER = os.geteuid() + 20001
HANDSHAKE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
}
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


@pytest.fixture
async def streaming() -> AsyncIterator[StreamingServer]:
    started = await StreamingServer.start()
    yield started
    await started.close()


async def true() -> Streams:
    return await LocalStreams.start("true")


def url(streaming: StreamingServer) -> str:
    return streaming.exec_url(true, tty=False, stdin=False, stdout=True, stderr=True)


async def answer(url: str, headers: dict[str, str], *, method: str = "GET", path: str | None = None) -> str:
    parts = urlsplit(url)
    lines = [f"{method} {path or parts.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in ({"Host": parts.netloc} | headers).items() if value]
    return await sent(url, "\r\n".join([*lines, "", ""]).encode())


async def sent(url: str, request: bytes) -> str:
    """Send bytes and return the head of the answer, and its body unless it is a switch of protocols."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    body = "" if " 101 " in head else (await reader.read()).decode()
    writer.close()
    return head + body


async def test_a_streaming_url_can_be_used_only_once(streaming: StreamingServer) -> None:
    here = url(streaming)
    assert (await answer(here, HANDSHAKE)).startswith("HTTP/1.1 101 ")
    again = await answer(here, HANDSHAKE)
    assert again.startswith("HTTP/1.1 404 Not Found\r\n")
    assert again.endswith("\r\n\r\nno such URL, or it has been used, or a minute has passed since it was made\n")


async def test_a_strangers_connections_beyond_a_few_are_closed_and_the_owners_are_not() -> None:
    """Each silent connection would use one of the runtime's descriptors for ten seconds."""
    strangers: set[int] = set()

    def peer_of(client: Address, here: Address) -> Peer | None:
        found = find_peer(client, here)
        return Peer(STRANGER, 0) if found is not None and client[1] in strangers else found

    streaming = await StreamingServer.start(peer_of=peer_of)
    place = urlsplit(url(streaming))
    assert place.port is not None
    try:
        async with asyncio.timeout(60):
            silent = []
            for index in range(AT_ONCE + OF_A_STRANGER + 4):
                with socket.socket() as client:
                    client.bind(("127.0.0.1", 0))
                    strangers |= {client.getsockname()[1]} if index >= AT_ONCE else set()
                    client.connect(("127.0.0.1", place.port))
                    silent.append(await asyncio.open_connection(sock=client.dup()))
            for reader, _ in silent[AT_ONCE + OF_A_STRANGER :]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            for _, writer in silent[: AT_ONCE + OF_A_STRANGER]:
                writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            for reader, _ in silent[: AT_ONCE + OF_A_STRANGER]:
                assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        for _, writer in silent:
            writer.close()
        assert " 101 " in await answer(url(streaming), HANDSHAKE)
    finally:
        await streaming.close()


async def test_a_token_is_valid_only_for_its_kind_of_request(streaming: StreamingServer) -> None:
    here = url(streaming)
    elsewhere = urlsplit(here).path.replace("/exec/", "/attach/")
    assert " 404 " in await answer(here, HANDSHAKE, path=elsewhere)
    assert " 101 " in await answer(here, HANDSHAKE)


@pytest.mark.parametrize(
    ("headers", "method", "code", "said"),
    [
        ({}, "GET", 426, "has to upgrade"),
        (HANDSHAKE, "POST", 426, "has to upgrade"),
        (HANDSHAKE, "DELETE", 405, "only GET and POST"),
        (HANDSHAKE | {"Origin": "http://127.0.0.1"}, "GET", 403, "Origin"),
        (HANDSHAKE | {"Host": "example.com"}, "GET", 403, "Host"),
        (HANDSHAKE | {"Host": ""}, "GET", 403, "Host"),
        (
            HANDSHAKE | {"Sec-WebSocket-Protocol": "v9.channel.k8s.io"},
            "GET",
            403,
            "v9.channel.k8s.io; the server",
        ),
        (
            SPDY | {"X-Stream-Protocol-Version": "v9.channel.k8s.io"},
            "POST",
            403,
            "v9.channel.k8s.io; the server",
        ),
        (SPDY | {"X-Stream-Protocol-Version": ""}, "POST", 403, "offers protocols none"),
        (SPDY | {"Content-Length": "3"}, "POST", 400, "has a body"),
        (SPDY | {"Transfer-Encoding": "chunked"}, "POST", 400, "has a body"),
        (HANDSHAKE | {"Long": "x" * 16384}, "GET", 431, "16384 bytes"),
        (HANDSHAKE | {"Long": "x" * 100_000}, "GET", 431, "16384 bytes"),
    ],
)
async def test_a_wrong_request_is_refused_with_the_reason_and_the_url_stays_valid(
    streaming: StreamingServer, headers: dict[str, str], method: str, code: int, said: str
) -> None:
    here = url(streaming)
    refused = await answer(here, headers, method=method)
    assert refused.startswith(f"HTTP/1.1 {code} ")
    assert said in refused
    assert " 101 " in await answer(here, HANDSHAKE)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST:8"])
async def test_every_loopback_host_name_is_accepted(streaming: StreamingServer, host: str) -> None:
    assert " 101 " in await answer(url(streaming), HANDSHAKE | {"Host": host})


@pytest.mark.parametrize("wrong", [{"Sec-WebSocket-Version": "8"}, {"Sec-WebSocket-Key": "short"}])
async def test_a_wrong_handshake_is_refused(streaming: StreamingServer, wrong: dict[str, str]) -> None:
    assert " 400 " in await answer(url(streaming), HANDSHAKE | wrong)


async def test_a_slow_request_times_out(streaming: StreamingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.05)
    assert (await sent(url(streaming), b"GET /exec/")).startswith("HTTP/1.1 408 ")


@given(st.binary(max_size=300))
def test_any_head_is_parsed_or_refused(head: bytes) -> None:
    try:
        request = parse_request(head + b"\r\n\r\n")
    except Refused as refused:
        assert refused.response().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    else:
        assert request.path.startswith("/")
        request.host()
        request.upgrades_to("websocket")


def test_a_token_expires_after_a_minute() -> None:
    now = [100.0]
    made: Tickets[str] = Tickets(clock=lambda: now[0])
    first = made.issue("first")
    now[0] += 30
    second = made.issue("second")
    now[0] += 29
    assert (made.look(first), made.look(second)) == ("first", "second")
    now[0] += 1
    assert (made.look(first), made.look(second)) == (None, "second")


def test_tokens_are_long_and_all_different() -> None:
    made: Tickets[int] = Tickets()
    tokens = {made.issue(number) for number in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 43 for token in tokens)  # 256 bits


def test_the_number_of_tokens_is_limited_as_by_the_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "MAX_TICKETS", 2)
    now = [0.0]
    made: Tickets[int] = Tickets(clock=lambda: now[0])
    used, _ = made.issue(1), made.issue(2)
    with pytest.raises(TooManyTickets, match="expire within a minute"):
        made.issue(3)
    made.use_up(used)
    made.issue(3)
    now[0] += 60
    made.issue(4)


async def test_the_newest_terminal_size_counts_however_the_messages_are_split() -> None:
    sizes = TerminalSizes()
    for piece in (b'{"Width":80,"He', b'ight":24}\n{"Width":100,', b'"Height":50}\n{"Wid'):
        sizes.feed(piece)
    assert await sizes.changed() == (100, 50)
    sizes.feed(b'th":1,"Height":2}')
    assert await sizes.changed() == (1, 2)


@pytest.mark.parametrize(
    "wrong", [b"[]", b'{"Width":-1}', b'{"Width":70000}', b'{"Width":"8"}', b"nonsense", b"9" * 5000, b"{}" * 40_000]
)
async def test_an_invalid_size_ends_the_reading_of_sizes(wrong: bytes) -> None:
    sizes = TerminalSizes()
    sizes.feed(wrong)
    sizes.feed(b'{"Width":80,"Height":24}')
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await sizes.changed()
