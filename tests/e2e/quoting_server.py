"""A server whose answers repeat a text in every form that can end up in a message about a probe or a hook."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc

WAYS = {
    "malformed": "{text} and more\r\n\r\n",
    "cut-line": "{pad:50}{text}\r\n\r\n",
    "wrong-length": "HTTP/1.1 200 OK\r\nContent-Length: {text}\r\n\r\n",
    "cut-length": "HTTP/1.1 200 OK\r\nContent-Length: {pad:55}{text}\r\n\r\n",
    "wrong-location": "HTTP/1.1 302 Found\r\nLocation: http://x/%zz{text}\r\nContent-Length: 0\r\n\r\n",
    "cut-location": "HTTP/1.1 302 Found\r\nLocation: http://x/%zz{pad:235}{text}\r\nContent-Length: 0\r\n\r\n",
    "wrong-scheme": "HTTP/1.1 302 Found\r\nLocation: {text}://x/\r\nContent-Length: 0\r\n\r\n",
    "elsewhere": "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\nContent-Length: {length}\r\n\r\n{text}",
    "cut-body": "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\nContent-Length: 2000\r\n\r\n"
    "{pad:940}{text}{pad:2000}",
}
"""The answers by path."""


class QuotingServer:
    """Answers HTTP on `port` and gRPC's health check on `grpc_port`, with `text` in each answer."""

    def __init__(self, text: str) -> None:
        self.answered: Counter[str] = Counter()
        self._text = text
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._grpc = grpc.server(ThreadPoolExecutor(2))
        check: Any = grpc.unary_unary_rpc_method_handler(self._check)
        handler = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})
        self._grpc.add_generic_rpc_handlers((handler,))
        self.grpc_port: int = self._grpc.add_insecure_port("0.0.0.0:0")

    def probe(self, way: str) -> dict[str, Any]:
        """A probe that gets this answer."""
        asks: dict[str, Any] = {"httpGet": self.get(way)} if way in WAYS else {"grpc": {"port": self.grpc_port}}
        return {**asks, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 5}

    def get(self, way: str) -> dict[str, Any]:
        """A request that gets this answer."""
        return {"host": "127.0.0.1", "port": self.port, "path": f"/{way}"}

    def _check(self, _request: Any, context: grpc.ServicerContext) -> None:
        self.answered["grpc"] += 1
        context.abort(grpc.StatusCode.INTERNAL, f"cannot use {self._text} here")

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            asked = connection.recv(4096).split(b" ")
            way = asked[1].decode().strip("/")
            answer = WAYS[way].replace("{text}", self._text).replace("{length}", str(len(self._text)))
            for size in (50, 55, 235, 940, 2000):
                answer = answer.replace(f"{{pad:{size}}}", "x" * size)
            connection.sendall(answer.encode())
            connection.shutdown(socket.SHUT_WR)
            self.answered[way] += 1
            connection.recv(4096)
        except (OSError, IndexError, KeyError):
            return

    def __enter__(self) -> Self:
        self._thread.start()
        self._grpc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._grpc.stop(None).wait()
