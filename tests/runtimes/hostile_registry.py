"""A hostile registry on loopback: a repository's name selects what the registry does to the client that pulls it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_EMPTY_CONFIG = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
SHOUTED = "\x1b[2J\x1b]0;owned\x07\n\u202e"
"""Clears a terminal, sets its title, breaks the line, and turns the direction of writing."""


class HostileRegistry:
    """A hostile registry, with its requests."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.asked, self._closing))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="hostile registry")

    @property
    def address(self) -> str:
        """The prefix of an image's name."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(asked: threading.Event, closing: threading.Event) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.set()
            parts = self.path.split("/")
            harm = HARMS.get(parts[2] if len(parts) > 3 else "", _welcome)
            try:
                harm(self, closing)
            except OSError:
                self.close_connection = True

        do_HEAD = do_GET  # noqa: N815  # the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing to the test's stderr."""

    return Handler


def _welcome(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    _answer(request, 200, b"{}")


def _answer(request: BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def _never_answers(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    closing.wait()
    request.close_connection = True


def _answers_without_end(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    request.send_response(200)
    request.send_header("Content-Type", _MANIFEST)
    request.send_header("Content-Length", str(1 << 40))
    request.end_headers()
    if request.command == "HEAD":
        return
    request.wfile.write(b'{"schemaVersion": 2, "annotations": {"a": "')
    while not closing.is_set():
        request.wfile.write(b"a" * (1 << 16))
        time.sleep(0.01)
    request.close_connection = True


def _shouts(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    told = {"errors": [{"code": "DENIED", "message": SHOUTED + "no " * (1 << 20)}]}
    _answer(request, 403, json.dumps(told).encode(), Content_Type="application/json")


def _goes_in_circles(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    _answer(request, 307, b"", Location=request.path)


def _lies(request: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Name layers of -1 bytes and of more than any disk holds, and send none of them."""
    if "/manifests/" not in request.path:
        _answer(request, 404, b"")
        return
    kind = "application/vnd.oci.image.layer.v1.tar"
    layers = [{"mediaType": kind, "size": size, "digest": "sha256:" + "0" * 64} for size in (-1, 1 << 62)]
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", "size": 2, "digest": _EMPTY_CONFIG}
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
    _answer(request, 200, json.dumps(manifest).encode(), Content_Type=_MANIFEST)


HARMS: dict[str, Callable[[BaseHTTPRequestHandler, threading.Event], None]] = {
    "never-answers": _never_answers,
    "answers-without-end": _answers_without_end,
    "shouts": _shouts,
    "goes-in-circles": _goes_in_circles,
    "lies": _lies,
}
"""The attacks by the first part of a repository's name."""
