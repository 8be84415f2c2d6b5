"""Reads the head of an HTTP request within limits, or refuses the request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

MAX_HEAD: Final = 16 * 1024
"""Maximum bytes of request line and headers."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class Refused(Exception):
    """The request gets an HTTP error. The text is one sentence for the client."""

    def __init__(self, status: HTTPStatus, sentence: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers

    def response(self) -> bytes:
        """Return the whole answer, after which the connection ends."""
        body = f"{self}\n".encode()
        lines = [f"HTTP/1.1 {self.status} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close"]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class Request:
    """A request without a body."""

    head: bytes
    """The raw bytes of the head."""
    method: str
    path: str
    """The path, without the query."""
    headers: Mapping[str, tuple[str, ...]]
    """The headers by name, in lower case."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return the comma-separated values of a header, from all lines with its name (in lower case)."""
        values = (value.strip() for line in self.headers.get(name, ()) for value in line.split(","))
        return tuple(value for value in values if value)

    def upgrades_to(self, protocol: str) -> bool:
        """Return whether the request is to upgrade the connection to this protocol (in lower case)."""
        connection = {value.lower() for value in self.values("connection")}
        return "upgrade" in connection and protocol in {value.lower() for value in self.values("upgrade")}

    def host(self) -> str:
        """Return the requested host without the port; empty if there is no Host header, or more than one."""
        hosts = self.headers.get("host", ())
        if len(hosts) != 1:
            return ""
        host = hosts[0].strip().lower()
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.rpartition(":")[0] if ":" in host else host


async def read_request(reader: asyncio.StreamReader, *, seconds: float) -> Request | None:
    """Read one request's head; None if the client disconnects before it sends anything. Raises Refused."""
    try:
        async with asyncio.timeout(seconds):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"no request came within {seconds:g} seconds") from None
    except asyncio.LimitOverrunError:
        raise _too_long() from None
    except asyncio.IncompleteReadError as incomplete:
        if not incomplete.partial:
            return None
        raise Refused(HTTPStatus.BAD_REQUEST, "the request ends within its head") from None
    except OSError:
        return None
    if len(head) > MAX_HEAD:
        raise _too_long()
    return parse_request(head)


def parse_request(head: bytes) -> Request:
    """Parse a head, which ends with an empty line. Raises Refused."""
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.1"] if _TOKEN.fullmatch(method) and target.startswith("/"):
            pass
        case _:
            raise Refused(HTTPStatus.BAD_REQUEST, "the request does not begin with METHOD /path HTTP/1.1")
    headers: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or any(character in value for character in "\r\n\0"):
            raise Refused(HTTPStatus.BAD_REQUEST, "a header of the request is not `name: value`")
        headers[name.lower()] = (*headers.get(name.lower(), ()), value.strip(" \t"))
    if "transfer-encoding" in headers or any(length != "0" for length in headers.get("content-length", ())):
        raise Refused(HTTPStatus.BAD_REQUEST, "the request has a body, and none is expected")
    return Request(head=head, method=method, path=target.partition("?")[0], headers=headers)


def _too_long() -> Refused:
    return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request's head is longer than {MAX_HEAD} bytes")
