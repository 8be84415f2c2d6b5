"""An HTTP/2 client that writes its frames by hand, for frames that no library sends."""

from __future__ import annotations

import asyncio
import ssl
import struct

from syncpod.gate.authority import Pair
from syncpod.kernel.memory_file import memory_file
from tests.gate.conftest import SERVICE, Gated

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """One frame."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + body


SETTINGS = frame(4, 0, 0, b"")
ACKNOWLEDGED = frame(4, 1, 0, b"")


def call(stream: int, more: bytes = b"") -> bytes:
    """A call without a message, with additional encoded headers."""
    named = {":method": "POST", ":scheme": "http", ":path": f"{SERVICE}GetSystemInfo", ":authority": "x"}
    named |= {"te": "trailers", "content-type": "application/grpc"}
    return frame(1, 5, stream, b"".join(literal(name, value, 0) for name, value in named.items()) + more)


def literal(name: str, value: str, kind: int) -> bytes:
    """A literal header; with kind 0x40 it is added to the header table, so that one byte can refer to it."""
    return bytes([kind]) + _text(name) + _text(value)


def _text(text: str) -> bytes:
    size, head = len(text), bytearray()
    if size < 127:
        return bytes([size]) + text.encode()
    head, size = bytearray([127]), size - 127
    while size >= 128:
        head.append(size % 128 | 128)
        size //= 128
    return bytes(head) + bytes([size]) + text.encode()


def growing(stream: int, size: int) -> bytes:
    """A call whose headers are decoded to 4 KB for each of `size` bytes."""
    return call(stream, literal("x", "a" * 3_900, 0x40) + b"\xbe" * size)


async def connect(door: Gated, pair: Pair) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect with this certificate of a node."""
    context = ssl.create_default_context(cadata=door.fleet.authorities_pem())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    with memory_file(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)
    host, _, port = door.address.rpartition(":")
    return await asyncio.open_connection(host, int(port), ssl=context)


async def sent_until_closed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, blocks: list[bytes], seconds: float = 60
) -> int:
    """Send the blocks, and wait until the server closes the connection; return how many bytes it has sent."""
    heard = 0

    async def hear() -> None:
        nonlocal heard
        while block := await reader.read(65_536):
            heard += len(block)

    hearing = asyncio.create_task(hear())
    try:
        async with asyncio.timeout(seconds):
            try:
                for block in blocks:
                    writer.write(block)
                    await writer.drain()
                await hearing
            except OSError:
                pass
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        writer.transport.abort()
    return heard
