"""Serves Temporal's codec protocol over HTTP: payloads as JSON, one request a connection, limited in size and time."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from temporalio.api.common.v1 import Payload

from syncpod.kernel.callers import Callers

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
BODY_LIMIT: Final = 4 * 2**20
"""Maximum bytes of a request's body. In base64 that is 3 MiB of payloads; a server refuses a payload above 2 MiB."""
HEAD_LIMIT: Final = 16 * 2**10
PATIENCE_SECONDS: Final = 10.0

Answer = tuple[int, bytes, str]
"""Status, body, and further headers."""
TOO_LARGE: Final[Answer] = 413, b"the request is too large", ""


@dataclass(frozen=True)
class RequestHead:
    """The head of a request. Its body is read only by `body`."""

    method: str
    before: str
    """The path before its last part."""
    verb: str
    """The last part of the path: ``encode`` or ``decode``."""
    headers: Mapping[str, str]
    """The headers by name, in lower case."""
    reader: asyncio.StreamReader

    async def body(self) -> bytes | None:
        """Return the body; None if it is too large, or its size is not given. Raises ValueError, EOFError."""
        size = int(self.headers.get("content-length", "-1"))
        return await self.reader.readexactly(size) if 0 <= size <= BODY_LIMIT else None


async def serve_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    callers: Callers,
    answer: Callable[[RequestHead], Awaitable[Answer]],
) -> None:
    """Answer the one request of a connection, if its user has not too many connections, and close the connection."""
    with callers.counted(writer) as has_room:
        try:
            if has_room:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    writer.write(_response(*await answer(await _head(reader))))
                    await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a request to the codec server failed: %s", error)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def answered(body: bytes, change: Callable[[Payload], Payload]) -> tuple[int, bytes]:
    """Return the status and body of the answer to a request: each payload in `body`, changed by `change`."""
    try:
        changed = [_to_json(change(_from_json(payload))) for payload in json.loads(body).get("payloads", ())]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, binascii.Error):
        return 400, b"the body must be Temporal's payloads, as JSON"
    return 200, json.dumps({"payloads": changed}).encode()


async def _head(reader: asyncio.StreamReader) -> RequestHead:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    before, _, verb = target.partition("?")[0].rpartition("/")
    return RequestHead(method, before, verb, headers, reader)


def _from_json(payload: dict[str, Any]) -> Payload:
    """Return a payload of the codec servers' protocol. Raises TypeError, ValueError, AttributeError."""
    metadata = {name: base64.b64decode(value, validate=True) for name, value in payload.get("metadata", {}).items()}
    return Payload(metadata=metadata, data=base64.b64decode(payload.get("data", ""), validate=True))


def _to_json(payload: Payload) -> dict[str, Any]:
    return {
        "metadata": {name: base64.b64encode(value).decode() for name, value in payload.metadata.items()},
        "data": base64.b64encode(payload.data).decode(),
    }


def _response(status: int, body: bytes, more: str) -> bytes:
    reasons = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
    reasons[413] = "Content Too Large"
    kind = "application/json" if status == 200 else "text/plain; charset=utf-8"
    head = f"HTTP/1.1 {status} {reasons[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + body
