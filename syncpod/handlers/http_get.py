"""Asking over HTTP (pkg/probe/http, v1.36)."""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from syncpod.handlers.answer import BODY_LIMIT, Answer, NoAddress, NoAnswer, Target, port_number
from syncpod.handlers.dialing import NotConnected, host_and_port
from syncpod.handlers.http_exchange import NotHttp, Response, get, host_header
from syncpod.pod import HTTPGetAction

PROBE_AGENT: Final = "kube-probe/1.36"
HOOK_AGENT: Final = "kube-lifecycle/1.36"
_REQUESTS: Final = 10
"""Made for one question at most: what is asked and where that leads."""
_SHOWN: Final = 256
"""Characters of a redirect that are told where it is no URL: it may be as long as all headers together."""
_MOVED: Final = (301, 302, 303, 307, 308)
_KEPT_IN_PATHS: Final = "/%?:@!$&'()*+,;=~-._"
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TRANSPORTS: Final = ("Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection")
"""Headers that are not the probe's to set; Go's client leaves them out (net/http, Request.write)."""

Headers = tuple[tuple[str, str], ...]
"""Names and values, in order; a name may come more than once."""


async def http_get(
    action: HTTPGetAction, target: Target, timeout_seconds: float | None, *, user_agent: str = PROBE_AGENT
) -> Answer:
    """GET once: 200 to 299 is success, and so are, with a warning, 300 to 399 that lead nowhere or to another host.

    A redirect on the same host is followed. Certificates are not checked. Without a timeout it may take for ever.
    Difference: an answer that breaks off, or hangs, within its body is a failure; the kubelet counts it as nothing, and
    asks on for ever. Raises :class:`NoAnswer` where the request cannot be made at all.
    """
    host = action.host or target.ip
    if not host:
        raise NoAddress("the pod has no address yet")
    port = port_number(action.port, target)
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    url = f"{(action.scheme or 'HTTP').lower()}://{host_and_port(host, port)}{_encoded(path)}"
    headers, named_host = _headers(action, user_agent)
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _follow(_split(url), headers, named_host)
    except TimeoutError:
        return Answer(
            "failure",
            f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        )
    except (NotConnected, NotHttp, OSError) as error:
        return Answer("failure", f'Get "{url}": {error or type(error).__name__}')


async def _follow(first: SplitResult, headers: Headers, named_host: str) -> Answer:
    url = first
    for _ in range(_REQUESTS):
        response = await get(url, (("Host", named_host or host_header(url)), *headers), BODY_LIMIT)
        if response.status not in _MOVED or not response.location:
            return _judge(response)
        url, names_server = _led_to(url, response.location)
        if names_server:
            named_host = ""  # it was for the server that was asked; this one is named by its own address
        if url.scheme not in ("http", "https"):
            raise NotHttp(f'unsupported protocol scheme "{url.scheme}"')
        if url.hostname != first.hostname:
            return _judge(response)
    raise NotHttp(f"stopped after {_REQUESTS} redirects")


def _led_to(url: SplitResult, location: str) -> tuple[SplitResult, bool]:
    """Return where a redirect leads, and whether it names a server. Raises :class:`NotHttp` where it is no URL.

    Such a one is a failure of the request, though an answer has come (net/http, client.go, Client.do).
    """
    try:
        return _split(urljoin(url.geturl(), _encoded(location))), bool(urlsplit(location).netloc)
    except (NotHttp, ValueError) as error:
        shown, why = location[:_SHOWN], str(error)[:_SHOWN]
        raise NotHttp(f'failed to parse Location header "{shown}": {why}') from error


def _judge(response: Response) -> Answer:
    body = response.body.decode(errors="replace")
    if 200 <= response.status < 300:
        return Answer("success", body)
    if 300 <= response.status < 400:
        return Answer("warning", f"Probe terminated redirects, Response body: {body}")
    return Answer("failure", f"HTTP probe failed with statuscode: {response.status}")


def _headers(action: HTTPGetAction, user_agent: str) -> tuple[Headers, str]:
    """Return the headers, and the ``Host`` that the probe asks for ("" = none).

    The probe's own are all sent, repeated ones as well, then what it does not set; an empty value takes the usual
    headers away (pkg/probe/http/request.go, v1.36, NewRequestForHTTPGetAction). Raises :class:`NoAnswer`.
    """
    given: dict[str, list[str]] = {}
    for header in action.http_headers:
        if _NO_VALUE.search(header.value) or _NO_VALUE.search(header.name) or not header.name.strip():
            raise NoAnswer(f"net/http: invalid header field value for {header.name!r}")
        name = "-".join(part.capitalize() for part in header.name.split("-"))
        given.setdefault(name, []).append(header.value.strip())
    named_host = given.get("Host", [""])[0]
    for name, usual in (("User-Agent", user_agent), ("Accept", "*/*")):
        if name not in given:
            given[name] = [usual]
        elif not given[name][0]:
            del given[name]
    sent = [(name, value) for name, values in given.items() if name not in _TRANSPORTS for value in values]
    return (*sent, ("Connection", "close")), named_host


def _encoded(path: str) -> str:
    """Return a path or URL with what may not stand in one percent-encoded, and without its fragment."""
    return quote(path.partition("#")[0], safe=f"{_KEPT_IN_PATHS}[]")


def _split(url: str) -> SplitResult:
    """Take a URL apart. Raises :class:`NotHttp` where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise NotHttp(str(error)) from error
    return parts
