"""HTTP probes and hooks (pkg/probe/http, v1.36)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from syncpod.handlers.answer import BODY_LIMIT, NoAddress, NoAnswer, ProbeAnswer, Target, port_number
from syncpod.handlers.dialing import NotConnected
from syncpod.handlers.http_exchange import NotHttp, Response, get, host_header
from syncpod.handlers.probe_url import probe_url
from syncpod.pod import HTTPGetAction
from syncpod.redaction import of_process

PROBE_AGENT: Final = "kube-probe/1.36"
HOOK_AGENT: Final = "kube-lifecycle/1.36"
_REQUESTS: Final = 10
"""Maximum number of requests of one probe: the first one, and its redirects."""
_LONGEST_REDIRECT: Final = 16 * 1024
"""Maximum characters of a redirect that is followed: parsing a redirect costs more than sending it. Go has no limit."""
_SHOWN: Final = 256
"""Maximum characters of an invalid redirect that are reported: it may be as long as all headers together."""
_MOVED: Final = (301, 302, 303, 307, 308)
_KEPT_IN_URLS: Final = "/%?:@!$&'()*+,;=~-._[]"
_WRONG_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_QUERY: Final = re.compile(r"\?[^#]*")
"""The query, in which Go accepts any escape (net/url, parse)."""
_NO_HEAD_IN_TIME: Final = "Client.Timeout exceeded while awaiting headers"
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TRANSPORTS: Final = ("Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection")
"""Headers that a probe cannot set; Go's client leaves them out (net/http, Request.write)."""

Headers = tuple[tuple[str, str], ...]
"""Names and values, in order; a name may be repeated."""


async def http_get(action: HTTPGetAction, target: Target, timeout_seconds: float | None) -> ProbeAnswer:
    """GET once: a status of 200 to 299 is success; 300 to 399 without a redirect on the same host is a warning.

    A redirect on the same host is followed. Certificates are not checked. Without a timeout the request may take for
    ever.

    Raises :class:`NoAnswer` if the request cannot be made at all, or if the body of the response is cut off or hangs
    (pkg/probe/http/http.go, v1.36, DoHTTPProbe): then the container has neither passed nor failed.
    """
    request = _Request(action, target, PROBE_AGENT)
    response: Response | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await request.send()
            return _judge(response.status, await response.body(BODY_LIMIT))
    except (NotConnected, NotHttp, OSError) as error:  # a timeout is an OSError
        if response is not None:
            raise NoAnswer(_why(error, "Client.Timeout or context cancellation while reading body")) from error
        return ProbeAnswer("failure", f'Get "{request.url}": {_why(error, _NO_HEAD_IN_TIME)}')
    finally:
        if response is not None:
            response.close()


async def http_get_hook(action: HTTPGetAction, target: Target) -> str:
    """GET once, for a hook; return the reason why there was no response, "" if there was any.

    Mirrors lifecycle/handlers.go, v1.36, runHTTPHandler and discardHTTPRespBody: neither the status nor a body that is
    cut off matters. The request may take for ever. Raises :class:`NoAnswer` if the request cannot be sent at all.
    """
    request = _Request(action, target, HOOK_AGENT)
    try:
        response = await request.send()
    except (NotConnected, NotHttp, OSError) as error:
        return f'Get "{request.url}": {_why(error, _NO_HEAD_IN_TIME)}'
    try:
        with contextlib.suppress(NotHttp, OSError):
            await response.body(BODY_LIMIT)
    finally:
        response.close()
    return ""


class _Request:
    """A request to the named server, and then to the targets of its redirects."""

    def __init__(self, action: HTTPGetAction, target: Target, user_agent: str) -> None:
        """Prepare the request of a probe or hook. Raises :class:`NoAnswer` if it cannot be made."""
        host = action.host or target.ip
        if not host:
            raise NoAddress("the pod has no address yet")
        port = port_number(action.port, target)
        self.url = probe_url((action.scheme or "HTTP").lower(), host, port, action.path)
        self._action, self._user_agent, self._uid = action, user_agent, target.uid

    async def send(self) -> Response:
        """Return the first response that is no redirect on the same host.

        Raises NotConnected, NotHttp, OSError, NoAnswer.
        """
        first = url = _split(self.url)
        if not first.hostname:
            raise NotHttp("http: no Host in request URL")
        headers, named_host = _headers(self._action, self._user_agent)
        for _ in range(_REQUESTS):
            response = await get(url, (("Host", named_host or host_header(url)), *headers), self._uid)
            if response.status not in _MOVED or not response.location:
                return response
            try:
                url, names_server = _redirect_target(url, response.location)
                if url.scheme not in ("http", "https"):
                    raise NotHttp(f'unsupported protocol scheme "{url.scheme}"')
            except NotHttp:
                response.close()
                raise
            if url.hostname != first.hostname:
                return response
            response.close()
            if names_server:
                named_host = ""  # only the first server gets the probe's Host; this one gets its own
        raise NotHttp(f"stopped after {_REQUESTS} redirects")


def _why(error: Exception, in_time: str) -> str:
    """Return the reason why there is no response, or why it is cut off."""
    if isinstance(error, TimeoutError) and not error.args:
        return f"context deadline exceeded ({in_time})"
    return str(error) or type(error).__name__


def _redirect_target(url: SplitResult, location: str) -> tuple[SplitResult, bool]:
    """Return the URL to which a redirect leads, and whether it names a server.

    Raises :class:`NotHttp` if it is not a URL. An invalid redirect is a failed request, although there was a response
    (net/http, client.go, Client.do).
    """
    try:
        if len(location) > _LONGEST_REDIRECT:
            raise NotHttp(f"it is longer than {_LONGEST_REDIRECT} bytes")
        if wrong := _WRONG_ESCAPE.search(_QUERY.sub("", location)):
            raise NotHttp(f'invalid URL escape "{wrong.group()}"')
        return _split(urljoin(url.geturl(), _encoded(location))), bool(urlsplit(location).netloc)
    except (NotHttp, ValueError) as error:
        shown, why = (of_process.part(text, 0, _SHOWN) for text in (location, str(error)))
        raise NotHttp(f'failed to parse Location header "{shown}": {why}') from error


def _judge(status: int, content: bytes) -> ProbeAnswer:
    body = content.decode(errors="replace")
    if 200 <= status < 300:
        return ProbeAnswer("success", body)
    if 300 <= status < 400:
        return ProbeAnswer("warning", f"Probe terminated redirects, Response body: {body}")
    return ProbeAnswer("failure", f"HTTP probe failed with statuscode: {status}")


def _headers(action: HTTPGetAction, user_agent: str) -> tuple[Headers, str]:
    """Return the headers, and the ``Host`` that the probe sets ("" = none).

    All headers of the probe are sent, repetitions included, and then the defaults that it does not set; an empty value
    removes a default (pkg/probe/http/request.go, v1.36, NewRequestForHTTPGetAction). Raises :class:`NotHttp` for a
    header that is not valid in a request: Go checks headers only when it sends them (net/http, Transport.roundTrip), so
    an invalid one is a failure.
    """
    given: dict[str, list[str]] = {}
    for header in action.http_headers:
        if not _NAME.fullmatch(header.name):
            raise NotHttp(f"net/http: invalid header field name {json.dumps(header.name)}")
        name = "-".join(part.capitalize() for part in header.name.split("-"))
        if _NO_VALUE.search(header.value):
            raise NotHttp(f'net/http: invalid header field value for "{name}"')
        given.setdefault(name, []).append(header.value.strip())
    named_host = given.get("Host", [""])[0]
    for name, usual in (("User-Agent", user_agent), ("Accept", "*/*")):
        if name not in given:
            given[name] = [usual]
        elif not given[name][0]:
            del given[name]
    sent = [(name, value) for name, values in given.items() if name not in _TRANSPORTS for value in values]
    return (*sent, ("Connection", "close")), named_host


def _encoded(url: str) -> str:
    """Return a URL with invalid characters percent-encoded, and without its fragment."""
    return quote(url.partition("#")[0], safe=_KEPT_IN_URLS)


def _split(url: str) -> SplitResult:
    """Split a URL. Raises :class:`NotHttp` if it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise NotHttp(str(error)) from error
    return parts
