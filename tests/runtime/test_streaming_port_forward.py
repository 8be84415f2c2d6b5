"""Connections to a sandbox's ports over SPDY, SPDY within a WebSocket, and a WebSocket's channels."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from syncpod.runtime.streaming import StreamingServer
from tests.runtime.spdy_client import RST_STREAM, Headers, SpdyClient, control
from tests.runtimes.ports import free_port

V1 = "portforward.k8s.io"


class Sandbox:
    """A streaming server, and a server on a port of this machine that echoes its input and then sends `bye`."""

    def __init__(self, streaming: StreamingServer) -> None:
        self.streaming = streaming
        self.port = 0
        self.ended = asyncio.Semaphore(0)
        self.connections: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write(b"bye")
        except ConnectionError:
            pass
        finally:
            self.ended.release()
            writer.close()

    def url(self, ports: Sequence[int] = ()) -> str:
        return self.streaming.port_forward_url(lambda port: asyncio.open_connection("127.0.0.1", port), ports)


@pytest.fixture
async def sandbox(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Sandbox]:
    made = Sandbox(await StreamingServer.start())
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as listener:
        made.port = listener.sockets[0].getsockname()[1]
        yield made
        await made.streaming.close()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def pair(client: SpdyClient, port: int, request: str = "") -> tuple[int, int]:
    """Open the streams of one connection as kubectl does: the error stream, without input, and the data stream."""
    headers = {"port": str(port), "requestid": request} if request else {"port": str(port)}
    return client.open(headers, streamtype="error", fin=True), client.open(headers, streamtype="data")


async def test_bytes_go_both_ways_and_each_side_may_close_separately(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    error, data = pair(client, sandbox.port, "0")
    client.send(data, b"hello ")
    while len(client.data.get(data, b"")) < 6:
        assert await client.frame()
    client.send(data, b"there", fin=True)
    await client.until_ended(data, error)
    assert client.data[data] == b"hello therebye"
    assert client.data[error] == b""
    client.close()


async def test_many_port_forwards_share_one_connection(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    pairs = [pair(client, sandbox.port, str(number)) for number in range(20)]
    for number, (_, data) in enumerate(pairs):
        client.send(data, bytes([number]) * 50_000, fin=True)
    await client.until_ended(*(stream for pair in pairs for stream in pair))
    for number, (_, data) in enumerate(pairs):
        assert client.data[data] == bytes([number]) * 50_000 + b"bye"
    client.close()


async def test_a_client_need_not_name_its_requests(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    error, data = pair(client, sandbox.port)
    client.send(data, b"x", fin=True)
    await client.until_ended(data, error)
    assert client.data[data] == b"xbye"
    client.close()


async def test_a_port_without_a_listener_is_reported(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    port = free_port()
    error, data = pair(client, port, "0")
    while data not in client.reset:
        assert await client.frame()
    assert client.data[error] == f"cannot connect to port {port}: Connection refused".encode()
    error, data = pair(client, sandbox.port, "1")
    client.send(data, b"", fin=True)
    await client.until_ended(data, error)
    client.close()


async def test_a_broken_connection_does_not_affect_others(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    error, data = pair(client, sandbox.port, "0")
    client.send(data, b"x")
    while not client.data.get(data):
        assert await client.frame()
    writer = sandbox.connections[0]
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    while data not in client.reset:
        assert await client.frame()
    await client.until_ended(error)
    assert client.data[error] == b""
    client.close()


async def test_a_client_reset_ends_the_forwarded_connection(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    error, data = pair(client, sandbox.port, "0")
    client.send(data, b"x")
    while not client.data.get(data):
        assert await client.frame()
    client.writer.write(control(RST_STREAM, struct.pack(">II", data, 5)))
    await client.until_ended(error)
    await sandbox.ended.acquire()
    client.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "9" * 5000},
        {"streamtype": "video", "port": "80"},
    ],
)
async def test_an_incomplete_or_invalid_stream_pair_is_refused(sandbox: Sandbox, headers: dict[str, str]) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    stream = client.open(headers)
    while stream not in client.reset:
        assert await client.frame()
    assert client.reset == {stream: 3}
    client.close()


async def test_all_connections_end_with_the_client(sandbox: Sandbox) -> None:
    client = await SpdyClient.connect(sandbox.url(), V1)
    for number in range(3):
        _, data = pair(client, sandbox.port, str(number))
        client.send(data, b"x")
    while len(sandbox.connections) < 3:
        assert await client.frame()
    client.close()
    for _ in range(3):
        await sandbox.ended.acquire()


async def test_spdy_runs_within_a_websocket(sandbox: Sandbox) -> None:
    url = sandbox.url()
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = [f"GET {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: Upgrade", "Upgrade: websocket"]
    head += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}"]
    writer.write("\r\n".join([*head, f"Sec-WebSocket-Protocol: SPDY/3.1+{V1}", "", ""]).encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert f"\r\nSec-WebSocket-Protocol: SPDY/3.1+{V1}\r\n".encode() in answer

    # The library's own client refuses a name with a slash, so it comes in after the handshake.
    protocol = ClientProtocol(parse_uri(url.replace("http", "ws", 1)), state=State.OPEN)
    headers, named = Headers(), {"port": str(sandbox.port), "requestid": "0"}
    for piece in (
        headers.syn_stream(1, {"streamtype": "error", **named}, fin=True),
        headers.syn_stream(3, {"streamtype": "data", **named}),
        struct.pack(">II", 3, 5),
        b"hello",
        struct.pack(">II", 3, 1 << 24),
    ):
        protocol.send_binary(piece)
    writer.writelines(protocol.data_to_send())
    received = b""
    while not received.endswith(struct.pack(">II", 1, 1 << 24)):
        protocol.receive_data(await reader.read(65536))
        received += b"".join(frame.data for frame in protocol.events_received() if isinstance(frame, Frame))
    assert received.index(b"hello") < received.index(b"bye")  # in one data frame or in two
    writer.close()


async def test_channels_forward_the_ports_of_the_call(sandbox: Sandbox) -> None:
    closed = free_port()
    async with connect(
        sandbox.url([sandbox.port, closed]).replace("http", "ws", 1),
        subprotocols=[Subprotocol("v4.channel.k8s.io")],
        compression=None,
        proxy=None,
    ) as connection:
        greetings = [await connection.recv() for _ in range(4)]
        assert greetings == [
            bytes([channel]) + struct.pack("<H", port)
            for channel, port in enumerate((sandbox.port, sandbox.port, closed, closed))
        ]
        assert await connection.recv() == f"\3cannot connect to port {closed}: Connection refused".encode()
        await connection.send(b"\0hello")
        assert await connection.recv() == b"\0hello"
    await sandbox.ended.acquire()


async def test_channels_without_ports_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        await connect(
            sandbox.url().replace("http", "ws", 1), subprotocols=[Subprotocol("v4.channel.k8s.io")], proxy=None
        )
