"""A small SPDY/3.1 client that also can break the protocol."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit

from syncpod.streaming.spdy_frames import DICTIONARY

SYN_STREAM, RST_STREAM, SETTINGS, PING, GOAWAY = 1, 3, 4, 6, 7


def control(kind: int, payload: bytes, *, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, flags << 24 | len(payload)) + payload


class Headers:
    """A client's header compressor."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def block(self, headers: Mapping[str, str]) -> bytes:
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for part in (name.encode(), value.encode()):
                text += struct.pack(">I", len(part)) + part
        return self._compressor.compress(text) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def syn_stream(self, stream_id: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        return control(SYN_STREAM, struct.pack(">IIBB", stream_id, 0, 0, 0) + self.block(headers), flags=fin)


class SpdyClient:
    """One connection. `data`, `ended`, `accepted` and `reset` have the received data and the states of streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.protocol = ""
        self.headers = Headers()
        self.data: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.accepted: set[int] = set()
        self.reset: dict[int, int] = {}
        self.pongs: list[int] = []
        self.went_away: int | None = None
        self.settings = 0
        self._next = 1

    @classmethod
    async def connect(cls, url: str, *protocols: str) -> Self:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        head += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
        writer.write("\r\n".join([*head, "Content-Length: 0", "", ""]).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert answer.startswith("HTTP/1.1 101 "), answer
        client = cls(reader, writer)
        client.protocol = answer.partition("X-Stream-Protocol-Version: ")[2].partition("\r\n")[0]
        return client

    def open(self, headers: Mapping[str, str] | None = None, *, fin: bool = False, **more: str) -> int:
        """Open a stream and return its id."""
        stream_id, self._next = self._next, self._next + 2
        self.writer.write(self.headers.syn_stream(stream_id, {**(headers or {}), **more}, fin=fin))
        return stream_id

    def send(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        self.writer.write(struct.pack(">II", stream_id, fin << 24 | len(data)) + data)

    async def frame(self) -> bool:
        """Read one frame; return False once the server has closed the connection."""
        try:
            first, second = struct.unpack(">II", await self.reader.readexactly(8))
            payload = await self.reader.readexactly(second & 0xFFFFFF)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        if first < 0x80000000:
            self.data.setdefault(first, bytearray()).extend(payload)
            if second >> 24:
                self.ended.add(first)
            return True
        match first & 0xFFFF:
            case 2:  # SYN_REPLY
                self.accepted.add(struct.unpack(">I", payload[:4])[0])
            case 3:  # RST_STREAM
                stream_id, status = struct.unpack(">II", payload)
                self.reset[stream_id] = status
            case 4:  # SETTINGS
                self.settings += 1
            case 6:  # PING
                self.pongs += struct.unpack(">I", payload)
            case 7:  # GOAWAY
                self.went_away = struct.unpack(">II", payload)[1]
        return True

    async def until_ended(self, *streams: int) -> None:
        """Read until the server has ended all these streams."""
        while not self.ended >= set(streams):
            assert await self.frame(), "the server closed the connection"

    async def until_closed(self) -> None:
        """Read until the server has closed the connection."""
        while await self.frame():
            pass

    def close(self) -> None:
        self.writer.close()
