"""Asking over HTTP (pkg/probe/http, v1.36)."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from syncpod.handlers.answer import BODY_LIMIT, Answer, NoAnswer, Target, port_number
from syncpod.pod import HTTPGetAction

PROBE_AGENT: Final = "kube-probe/1.36"
HOOK_AGENT: Final = "kube-lifecycle/1.36"
_REDIRECTS: Final = 10
_MOVED: Final = (301, 302, 303, 307, 308)


async def http_get(
    action: HTTPGetAction, target: Target, timeout_seconds: float | None, *, user_agent: str = PROBE_AGENT
) -> Answer:
    """GET once: 200 to 399 is success; a redirect to another host is a warning and is not followed.

    Certificates are not checked. Without a timeout it may take for ever. Raises :class:`NoAnswer` where the request
    cannot be made at all.
    """
    host = action.host or target.ip
    if not host:
        raise NoAnswer("the pod has no address yet")
    address = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    try:
        url = URL(
            f"{(action.scheme or 'HTTP').lower()}://{address}:{port_number(action.port, target)}{path}", encoded=True
        )
    except ValueError as error:
        raise NoAnswer(f"cannot ask {path}: {error}") from error
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _follow(url, _headers(action, user_agent))
    except TimeoutError:
        return Answer(
            "failure",
            f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer("failure", f'Get "{url}": {_reason(error)}')


async def _follow(url: URL, headers: dict[str, str]) -> Answer:
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    first = url
    async with aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent",),
    ) as session:
        for _ in range(_REDIRECTS):
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                body = (await response.content.read(BODY_LIMIT)).decode(errors="replace")
                location = response.headers.get("Location", "")
                if response.status not in _MOVED or not location:
                    return _judge(response.status, body)
                url = URL(urljoin(str(url), location), encoded=True)
                if urlsplit(str(url)).hostname != urlsplit(str(first)).hostname:
                    return Answer("warning", "Probe terminated redirects, Response body: " + body)
    return Answer("failure", f'Get "{url}": stopped after {_REDIRECTS} redirects')


def _judge(status: int, body: str) -> Answer:
    if 200 <= status < 400:
        return Answer("success", body)
    return Answer("failure", f"HTTP probe failed with statuscode: {status}")


def _headers(action: HTTPGetAction, user_agent: str) -> dict[str, str]:
    """Return the headers: the probe's own, then what it does not set; an empty value takes a header away."""
    given = {header.name: header.value for header in action.http_headers}
    names = {name.lower() for name in given}
    usual = {"User-Agent": user_agent, "Accept": "*/*"}
    headers = given | {name: value for name, value in usual.items() if name.lower() not in names}
    return {name: value for name, value in headers.items() if value or name.lower() not in ("user-agent", "accept")}


def _reason(error: Exception) -> str:
    """Name what went wrong as Go's client does, where that is one of the usual things."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "dial tcp: connect: connection refused"
    return str(error) or type(error).__name__
