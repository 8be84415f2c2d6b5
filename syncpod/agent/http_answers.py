"""Sends answers to clients that may read slowly or not at all. Shared by the node's servers that use aiohttp."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from aiohttp import web

from syncpod.api.messages import JSON, Answer, Request

log = logging.getLogger(__name__)


class AlreadySent(web.StreamResponse):
    """A placeholder that aiohttp requires, and that sends nothing: the connection has ended or is being closed."""

    async def prepare(self, request: web.BaseRequest) -> Any:
        """Send nothing."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing."""


def asked(request: web.BaseRequest, body: bytes = b"") -> Request:
    """Convert a request for the handlers of :mod:`syncpod.api`. `body` is its body, already read."""
    query = request.rel_url.query
    names = {name: query.getall(name) for name in query}
    return Request(request.method, request.rel_url.path, names, request.headers.get("Accept", JSON), body)


def given_up(request: web.BaseRequest, server: str, why: Exception) -> AlreadySent:
    """Close the connection of a client that takes too long or has left. `server` is the server's name in the log."""
    log.debug("a client of %s is given up: %s", server, why)
    if request.transport is not None:
        request.transport.abort()
    return AlreadySent()


async def sent(
    request: web.BaseRequest, answered: Answer, refused: Callable[[Exception], Answer], *, patience: float
) -> web.StreamResponse:
    """Send an answer part by part, each as soon as it is made.

    If making the first part fails, `refused` makes an answer from the exception; if a later part fails, the connection
    breaks off. A client may take `patience` seconds for each part. Raises OSError, TimeoutError: the caller then
    closes the connection.
    """
    parts = aiter(answered.parts)
    try:
        first = await anext(parts)
    except Exception as error:  # noqa: BLE001  # as with a query, the client gets any error
        answered = refused(error)
        parts = aiter(answered.parts)
        first = await anext(parts)
    response = web.StreamResponse(status=answered.code, headers={"Content-Type": JSON, **answered.headers})
    await within(patience, response.prepare(request))
    if request.method != "HEAD":
        await _write(response, first, patience)
        await _rest(response, parts, patience)
    await within(patience, response.write_eof())
    return response


async def _rest(response: web.StreamResponse, parts: AsyncIterator[bytes], patience: float) -> None:
    """Send the remaining parts. Raises ConnectionResetError if one cannot be made: the answer stays incomplete."""
    try:
        async for part in parts:
            await _write(response, part, patience)
    except (OSError, TimeoutError):
        raise
    except Exception as error:
        log.debug("an answer breaks off", exc_info=True)
        raise ConnectionResetError(f"{type(error).__name__}: {error}") from error


async def _write(response: web.StreamResponse, part: bytes, patience: float) -> None:
    if part:  # an empty chunk would end the answer
        await within(patience, response.write(part))


async def within(seconds: float, writing: Coroutine[Any, Any, Any]) -> None:
    """Await `writing` for at most `seconds`. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        await writing
