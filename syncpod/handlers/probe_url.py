"""The URL of an httpGet, made of its host, port and path (pkg/probe/http/request.go, v1.36, formatURL).

The kubelet parses the path alone as a URL, and then replaces the scheme and the host in it. So a server named in the
path is lost: `//healthz` requests `/`. A path that is not a valid URL is escaped as a whole. Difference: invalid
characters in a query are escaped here; Go sends them unchanged, even a space in the request line.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from syncpod.handlers.answer import NoAnswer
from syncpod.handlers.dialing import host_and_port

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_WRONG_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLAIN: Final = "$&+,/:;=@~-._"
"""Characters that Go does not escape in a path."""
_AS_WRITTEN: Final = re.compile(r"[A-Za-z0-9/%\[\]!$&'()*+,;=:@~._-]*")
_KEPT_IN_QUERIES: Final = "/%?:@!$&'()*+,;=~-._[]"
_IN_HOST: Final = r"[]A-Za-z0-9!$&'()*+,;=<>\"~._-]|[^\x00-\x7f]"
_USER: Final = re.compile(r"(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})*")
_SERVER: Final = re.compile(rf"(?:\[[0-9A-Fa-f:.]+\]|(?:{_IN_HOST}|%25|%[89A-Fa-f][0-9A-Fa-f])*)(?::[0-9]*)?")
_HOST: Final = re.compile(rf"(?:{_IN_HOST}|%)*")


def probe_url(scheme: str, host: str, port: int, path: str) -> str:
    """Return the URL. It names no host if the path has the form of an opaque URL, such as `healthz:ready`.

    Raises :class:`NoAnswer` if a URL cannot name the host: then there is no request to make.
    """
    server = f"{scheme}://{host_and_port(host, port)}"
    if not _is_host(host):
        raise NoAnswer(f'parse "{server}": invalid character in host name')
    try:
        opaque, path, query = _split(path)
    except ValueError:
        opaque, path, query = "", quote(path, safe=_PLAIN), ""
    if opaque:
        return f"{scheme}:{opaque}{query}"
    return f"{server}{path if path.startswith('/') or not path else f'/{path}'}{query}"


def _is_host(host: str) -> bool:
    if ":" not in host:
        return _HOST.fullmatch(host) is not None
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _split(url: str) -> tuple[str, str, str]:
    """Return the opaque part of a URL, or else its path, escaped; and its query, including the `?`.

    Raises ValueError if Go considers the URL invalid (net/url, Parse).
    """
    url, _, fragment = url.partition("#")
    if _CONTROL.search(url) or _WRONG_ESCAPE.search(fragment) or url.startswith(":"):
        raise ValueError
    scheme = _SCHEME.match(url)
    rest, mark, query = url[scheme.end() if scheme else 0 :].partition("?")
    query = f"{mark}{quote(query, safe=_KEPT_IN_QUERIES)}"
    if not rest.startswith("/"):
        if scheme:
            return quote(rest, safe=_KEPT_IN_QUERIES), "", query
        if ":" in rest.partition("/")[0]:
            raise ValueError
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, rest = rest[2:].partition("/")
        rest = f"{slash}{rest}"
        user, _, server = authority.rpartition("@")
        if _USER.fullmatch(user) is None or _SERVER.fullmatch(server) is None:
            raise ValueError
    if _WRONG_ESCAPE.search(rest):
        raise ValueError
    return "", rest if _AS_WRITTEN.fullmatch(rest) else quote(unquote_to_bytes(rest), safe=_PLAIN), query
