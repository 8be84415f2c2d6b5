"""Pods' servers that make TLS as expensive as they can: the probe fails, and no other pod is delayed.

Holds: A pod's server decides nothing of what its probe costs other pods.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from syncpod.handlers.answer import ProbeAnswer
from syncpod.handlers.dialing import dial
from syncpod.handlers.http_get import http_get
from syncpod.pod import HTTPGetAction
from tests.agent.waiting import until_asked
from tests.handlers.test_probe_handlers import endless, raw, target

HELLO_REQUEST = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"


@pytest.fixture(scope="module")
def openssl() -> str:
    found = shutil.which("openssl")
    if found is None:
        pytest.skip("there is no openssl to make a server with")
    return found


@pytest.fixture(scope="module")
def pair(openssl: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate with an RSA key, and the key."""
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert", directory / "key"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -subj /CN=other -days 1 -keyout {key} -out {cert}"
    subprocess.run(command.split(), check=True, stderr=subprocess.DEVNULL)
    return cert, key


@contextmanager
def openssl_server(openssl: str, pair: tuple[Path, Path], *options: str) -> Iterator[int]:
    """An OpenSSL server that serves a page about the connection; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    command = (openssl, "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(pair[0]), "-key", str(pair[1]))
    serving = subprocess.Popen(
        (*command, "-www", *options), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield port
    finally:
        serving.kill()
        serving.wait()


async def probed(port: int, timeout: float | None = 30) -> ProbeAnswer:
    return await http_get(HTTPGetAction(port=port, scheme="HTTPS"), target(), timeout)


async def probed_once_it_serves(port: int) -> ProbeAnswer:
    answers: list[ProbeAnswer] = []

    async def answered() -> bool:
        answers.append(await probed(port))
        return "connection refused" not in answers[-1].text

    await until_asked(answered)
    return answers[-1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"), "HANDSHAKE_FAILURE"),
        (("-tls1_2", "-cipher", "AES128-GCM-SHA256"), "HANDSHAKE_FAILURE"),
        (("-groups", "ffdhe8192"), "tls: server selected unsupported group"),
        (("-groups", "ffdhe2048"), "tls: server selected unsupported group"),
        (("-groups", "X448"), "tls: server selected unsupported group"),
    ],
)
async def test_a_key_exchange_that_go_does_not_offer_is_refused(
    openssl: str, pair: tuple[Path, Path], options: tuple[str, ...], why: str
) -> None:
    """A handshake over a finite field costs a hundred times one over a curve, and the server chooses its size."""
    with openssl_server(openssl, pair, *options) as port:
        answer = await probed_once_it_serves(port)
    assert (answer.result, why in answer.text) == ("failure", True), answer.text


@pytest.mark.parametrize(
    "options",
    [
        ("-groups", "P-256"),
        ("-groups", "P-521"),
        ("-tls1_3",),
        ("-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("-tls1_2", "-cipher", "ECDHE-RSA-AES256-SHA"),
    ],
)
async def test_a_server_that_go_can_talk_to_passes(
    openssl: str, pair: tuple[Path, Path], options: tuple[str, ...]
) -> None:
    with openssl_server(openssl, pair, *options) as port:
        assert (await probed_once_it_serves(port)).result == "success"


@pytest.mark.parametrize("earlier", [b"", HELLO_REQUEST, b"\x15\x03\x03\x00\x02\x01\x5a", HELLO_REQUEST * 3])
@pytest.mark.parametrize("size", [1, 7, 4000])
async def test_a_request_for_a_finite_field_is_found_however_it_is_sent(earlier: bytes, size: int) -> None:
    """OpenSSL skips a request for a new handshake and a warning, and takes a message in records of any size."""
    random = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
    extensions = b"\x00\x2b\x00\x02\x03\x04" + b"\x00\x33\x00\x02\x01\x00"
    hello = b"\x03\x03" + random + b"\x00" + b"\x13\x01\x00" + len(extensions).to_bytes(2, "big") + extensions
    message = b"\x02" + len(hello).to_bytes(3, "big") + hello
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    records = b"".join(b"\x16\x03\x03" + len(part).to_bytes(2, "big") + part for part in parts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(earlier + records)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        answer = await probed(server.sockets[0].getsockname()[1])
    assert answer.text.endswith("tls: server selected unsupported group"), answer.text


@asynccontextmanager
async def https(pair: tuple[Path, Path], answer: bytes) -> AsyncIterator[int]:
    """A TLS server that answers each request with these bytes; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):  # a probe may be cut off
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_no_handshake_and_no_record_is_worked_on_by_the_event_loop(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost that one pod's server causes delays no other pod."""
    clients: list[tuple[str, int]] = []

    def noting(name: str) -> None:
        real = getattr(ssl.SSLObject, name)

        def noted(self: ssl.SSLObject, *arguments: Any) -> Any:
            if not self.server_side:
                clients.append((name, threading.get_ident()))
            return real(self, *arguments)

        monkeypatch.setattr(ssl.SSLObject, name, noted)

    for name in ("do_handshake", "read", "write"):
        noting(name)
    async with https(pair, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell") as port:
        assert (await probed(port)).text == "well"
    assert {name for name, _ in clients} == {"do_handshake", "read", "write"}
    assert threading.get_ident() not in {thread for _, thread in clients}


@pytest.mark.parametrize("block", [HELLO_REQUEST, b"\x16\x03\x03\x00\x01\x02", b"\x16\x03\x03\x40\x00" + bytes(16384)])
async def test_a_server_that_never_ends_its_first_message_fails_the_probe(block: bytes) -> None:
    """Without a timeout, as in a hook."""
    async with endless(block) as port:
        answer = await probed(port, timeout=None)
    assert answer.result == "failure"


async def test_endless_headers_over_tls_fail_the_probe(pair: tuple[Path, Path]) -> None:
    async with https(pair, b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50_000) as port:
        answer = await probed(port, timeout=None)
    assert (answer.result, "headers exceeded 1048576 bytes" in answer.text) == ("failure", True)


async def test_a_probe_that_is_cut_off_in_its_handshake_leaves_its_descriptor_to_nobody(
    pair: tuple[Path, Path],
) -> None:
    """If two owners close one socket, the second close hits a descriptor that has got the same number meanwhile.

    That happened if a deadline passed between the end of a handshake and the next turn of the waiting probe.
    """
    async with https(pair, b"") as port, raw(b"") as (plain, _):
        done, turns = False, 0
        while not done:
            probe = asyncio.create_task(probed(port))
            for _ in range(turns := turns + 1):
                await asyncio.sleep(0)
            done = probe.done()
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
            others = [await dial("127.0.0.1", plain, "u2") for _ in range(3)]
            for other in others:
                other.close()
