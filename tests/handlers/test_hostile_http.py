"""Pods' servers and host names that make plain HTTP as expensive as they can.

Holds: A pod's server decides nothing of what its probe costs other pods.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult

import pytest

from syncpod.handlers import http_exchange
from syncpod.handlers.http_get import http_get
from syncpod.handlers.probes import tcp_socket
from syncpod.pod import HTTPGetAction, TCPSocketAction
from tests.agent.waiting import until
from tests.handlers.test_probe_handlers import raw, target

HEAD = b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 10_000 + b"\r\n\r\n"


async def drips(*, of: bytes) -> bytes:
    """Return the head of an answer that arrives a byte at a time."""
    rest = iter(of)

    async def read() -> bytes:
        return bytes([next(rest)])

    return await http_exchange._head(read, bytearray(), 1 << 20)


async def test_each_byte_of_a_head_is_looked_at_once_however_few_arrive_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0

    class Counting:
        def search(self, data: bytearray, start: int) -> re.Match[bytes] | None:
            nonlocal looked_at
            looked_at += len(data) - start
            return re.compile(rb"\n\r?\n").search(data, start)

    monkeypatch.setattr(http_exchange, "_END", Counting())
    assert await drips(of=HEAD) == HEAD
    assert looked_at < 4 * len(HEAD)


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\r\n\n", b"\n\r\n"])
async def test_the_end_of_a_head_is_found_across_reads(end: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nA: b" + end
    assert await drips(of=head) == head


async def test_a_server_that_drips_is_read_in_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read costs the event loop a turn, whether it brings a byte or thousands."""
    pauses: list[float] = []

    async def slept(seconds: float) -> None:
        pauses.append(seconds)

    async def drip() -> bytes:
        return b"a"

    async def flow() -> bytes:
        return bytes(8192)

    monkeypatch.setattr(http_exchange, "asyncio", type("Asyncio", (), {"sleep": slept}))
    for read in (drip, flow):
        paced = http_exchange._paced(read)
        for _ in range(40):
            await paced()
    assert (pauses[0], pauses[38] > 0, max(pauses[39:])) == (0, True, 0)


async def test_headers_that_do_not_matter_are_not_kept() -> None:
    """A head of a megabyte has half a million of them."""
    some = b"a:b\nCONTENT-LENGTH : 4\nContent-Length: 9\n" + b"a\n" * 400_000 + b"location: /x"
    async with raw(b"HTTP/1.1 200 OK\n" + some + b"\n\nwell") as (port, _):
        url = SplitResult("http", f"127.0.0.1:{port}", "/", "", "")
        response = await http_exchange.get(url, [("Host", "x")], "u1")
        assert (await response.body(100), response.location) == (b"well", "/x")
        response.close()
    assert set(response._fields) == {"content-length", "location"}


async def test_a_redirect_that_is_too_long_to_be_parsed_is_not_followed() -> None:
    async with raw(b"HTTP/1.1 302 Found\r\nLocation: /" + b"\xe4" * 900_000 + b"\r\n\r\n") as (port, requests):
        said = await http_get(HTTPGetAction(port=port), target(), 30)
    assert (said.result, "longer than 16384 bytes" in said.text, len(requests)) == ("failure", True, 1)


async def test_name_lookups_that_hang_hold_up_neither_another_pod_nor_the_event_loops_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server of the pod's choice decides how long a lookup takes."""
    real, answered, asked = socket.getaddrinfo, threading.Event(), [0]

    def lookup(host: str, *more: Any, **named: Any) -> Any:
        if host == "slow.example":
            asked[0] += 1
            answered.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real("127.0.0.1" if host == "quick.example" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    slow = TCPSocketAction(host="slow.example", port=1)
    hanging = [asyncio.create_task(tcp_socket(slow, target(), 600)) for _ in range(80)]
    try:
        await until(lambda: asked[0] > 0)
        async with raw(b"") as (port, _), asyncio.timeout(60):
            neighbour = replace(target(), uid="u2")
            quick = TCPSocketAction(host="quick.example", port=port)
            assert (await tcp_socket(quick, neighbour, 60)).result == "success"
            assert await asyncio.to_thread(lambda: "done") == "done"
        assert asked[0] <= 4
    finally:
        answered.set()
    assert {answer.result for answer in await asyncio.gather(*hanging)} == {"failure"}
