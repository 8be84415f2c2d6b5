"""A client of an API server: JSON over HTTPS. A failure that the server returns is raised as an exception.

The library is aiohttp, which the worker has for its own API: 11 MiB in memory, where the official client takes 79.
Each watch is one connection; a node has a few. The kernel's keepalive detects a dead connection within `DEAD_SECONDS`,
where the kubelet uses HTTP/2's pings (30 s and 15 s more).
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Literal, Self

import aiohttp
from aiohttp import ClientResponse

from syncpod.kubernetes.json_documents import mapping
from syncpod.kubernetes.kubeconfig import Kubeconfig, KubeconfigInvalid, read_credentials

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

ANSWER_SECONDS: Final = 10.0
"""Maximum seconds until an answer is complete. A watch has its own limit, `timeoutSeconds`."""
LARGEST_ANSWER: Final = 64 << 20
"""Maximum bytes of an answer. A list of a node's pods has some hundred thousand."""
LARGEST_EVENT: Final = 8 << 20
"""Maximum bytes of one line of a watch. An object in etcd has at most 1.5 MiB."""
DEAD_SECONDS: Final = 30
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1000),
)
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


class Unreachable(Exception):
    """The API server has not answered; the text is a clause that says why."""


@dataclass
class ClusterError(Exception):
    """The API server's answer is a failure, as a v1 Status describes it."""

    code: int
    """The HTTP status, or that of a watch's ERROR event."""
    reason: str = ""
    """``NotFound``, ``Conflict``, ``Expired``, …; "" = none."""
    message: str = ""
    retry_after: float | None = None
    """Seconds until the retry that the server requests; None if it requests none."""

    def __str__(self) -> str:
        """Return the message; if there is none, the reason or the status."""
        return self.message or self.reason or f"status {self.code}"


class ApiClient:
    """One node's connections to an API server. An asynchronous context manager, of one event loop."""

    def __init__(self, config: Kubeconfig, *, user_agent: str) -> None:
        """Open no connection yet. The files that the kubeconfig names are read on entry, and again after a 401."""
        self._config = config
        self._agent = user_agent
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Prepare the connections. Raises Unreachable where the credentials cannot be read."""
        await self.renew()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def renew(self) -> None:
        """Read the credentials again, since they may have been rotated, and use them for all connections from now on.

        Requests under way are cut off; their callers retry. Raises Unreachable.
        """
        try:
            context, token = await asyncio.to_thread(read_credentials, self._config)
        except KubeconfigInvalid as wrong:
            raise Unreachable(str(wrong)) from None
        headers = {"User-Agent": self._agent, "Accept": JSON}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # Without a limit: each watch is a connection, and each ConfigMap and Secret of a pod has a watch.
        connector = aiohttp.TCPConnector(ssl=context, socket_factory=_socket, keepalive_timeout=60, limit=0)
        before, self._session = (
            self._session,
            aiohttp.ClientSession(
                connector=connector,
                headers=headers,
                read_bufsize=LARGEST_EVENT // 2,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS),
            ),
        )
        if before is not None:
            await before.close()

    async def ask(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        seconds: float = ANSWER_SECONDS,
    ) -> dict[str, Any]:
        """Return the server's answer, a JSON object. Raises ClusterError, Unreachable.

        After Unreachable, the server may have carried out the request all the same.
        """
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {} if data is None else {"Content-Type": content_type}
        with _reaching(seconds):
            async with (
                asyncio.timeout(seconds),
                self._request(method, path, params=params or {}, data=data, headers=headers) as response,
            ):
                text = await _whole(response)
                if response.status < 400:
                    return _object(text)
        await self._refused(response.status)
        raise _failure(response.status, text, response.headers.get("Retry-After"))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Begin a watch, and yield its events as they come, until the server ends it.

        `seconds` limits how long the watch may take to begin; the server ends it after the parameter `timeoutSeconds`.
        Raises ClusterError, Unreachable, also while it yields events; an event of type ERROR raises ClusterError.
        """
        with _reaching(seconds):
            async with asyncio.timeout(seconds) as limit:
                async with self._request("GET", path, params={**params, "watch": "true"}) as response:
                    if response.status >= 400:
                        text = await _whole(response)
                        await self._refused(response.status)
                        raise _failure(response.status, text, response.headers.get("Retry-After"))
                    limit.reschedule(None)
                    yield _events(response)

    async def _refused(self, code: int) -> None:
        """Read the credentials again if the server has not accepted them (401). Raises Unreachable."""
        if code == HTTPStatus.UNAUTHORIZED:
            await self.renew()

    def _request(self, method: Method, path: str, **more: Any) -> Any:
        if self._session is None:
            raise Unreachable("the client is closed")
        name = self._config.tls_server_name or None
        return self._session.request(
            method, f"{self._config.server}{path}", server_hostname=name, allow_redirects=False, **more
        )


@contextmanager
def _reaching(seconds: float) -> Iterator[None]:
    """Turn the library's errors, and timeouts, into Unreachable."""
    try:
        yield
    except TimeoutError:
        raise Unreachable(f"no answer in {seconds:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


async def _events(response: ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a watch: one JSON object a line."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LARGEST_EVENT:
            raise Unreachable(f"an event of the watch is larger than {LARGEST_EVENT >> 20} MiB")
        for line in lines:
            if line.strip():
                event = _object(line)
                if event.get("type") == "ERROR":
                    status = event.get("object")
                    raise _from_status(mapping(status), 500, None)
                yield event


async def _whole(response: ClientResponse) -> bytes:
    """Return an answer's text. Raises Unreachable if it is too large."""
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST_ANSWER:
            raise Unreachable(f"the answer is larger than {LARGEST_ANSWER >> 20} MiB")
    return b"".join(parts)


def _object(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreachable("the answer is not JSON: this is no API server") from None
    if not isinstance(answer, dict):
        raise Unreachable("the answer is no JSON object: this is no API server")
    return answer


def _failure(code: int, text: bytes, retry_after: str | None) -> ClusterError:
    """Return the failure that an answer describes: by a v1 Status, or by any text if a proxy has answered."""
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        status = {"message": text.decode(errors="replace").strip()[:200]}
    return _from_status(mapping(status), code, retry_after)


def _from_status(status: Mapping[str, Any], code: int, retry_after: str | None) -> ClusterError:
    asked: Any = mapping(status.get("details")).get("retryAfterSeconds")
    if retry_after is not None and retry_after.isdigit():
        asked = int(retry_after)
    said = status.get("code")
    return ClusterError(
        code=said if isinstance(said, int) and said else code,
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or "")[:1000],
        retry_after=float(asked) if isinstance(asked, int) and asked > 0 else None,
    )


def _socket(address: Any) -> socket.socket:
    """Return a socket with TCP keepalive, by which the kernel detects a dead peer."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    for level, option, value in _KEEPALIVE:
        made.setsockopt(level, option, value)
    return made
