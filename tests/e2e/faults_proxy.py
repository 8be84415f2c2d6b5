"""A CRI socket between worker and runtime, where a test can hold a call or its answer.

runc and CNI can be held by the runtime's gates; this proxy simulates calls that were never sent and lost answers. Calls
are passed on as bytes; if a caller dies, its call is cancelled, as it is without a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self

import grpc
import grpc.aio

from protos.cri.v1 import api_pb2 as cri

When = Literal["before", "after"]
_STREAMS: Final = frozenset(
    f"/{service.full_name}/{method.name}"
    for service in cri.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.server_streaming
)
"""The methods whose answer is a stream. containerd 2.4 waits for a reader of its events that lets its window fill up,
and with it each call that has an event to announce: sandboxes and containers are neither made nor removed then."""
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
)


class Stopped:
    """A point at which calls wait until the test's `with` block ends."""

    def __init__(self, calls: int | None) -> None:
        self._left = calls
        self._arrived = 0
        self._arrival = asyncio.Condition()
        self._opened = asyncio.Event()

    @property
    def arrived(self) -> int:
        """The number of calls that have arrived."""
        return self._arrived

    async def reached(self, calls: int = 1, *, patience: float = 60.0) -> None:
        """Wait until this many calls have arrived; raises TimeoutError."""
        async with asyncio.timeout(patience), self._arrival:
            await self._arrival.wait_for(lambda: self._arrived >= calls)

    def open(self) -> None:
        """Let everything through again."""
        self._opened.set()

    async def passing(self) -> None:
        if self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        async with self._arrival:
            self._arrived += 1
            self._arrival.notify_all()
        try:
            await self._opened.wait()
        except asyncio.CancelledError:  # its caller is dead, or has given it up
            if self._left is not None:
                self._left += 1
            raise


class CriProxy(grpc.GenericRpcHandler):
    """The proxy's socket; `async with` serves and closes it. The worker uses `endpoint`."""

    def __init__(self, socket: Path, target: str) -> None:
        self._socket = socket
        self.endpoint = f"unix://{socket}"
        self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self._server = grpc.aio.server(handlers=[self], options=_OPTIONS)
        self._stops: dict[tuple[str, When], Stopped] = {}
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.allowed: dict[str, float] = {}
        """The deadline, in seconds, of the last call of each method."""
        self.under_way = 0
        """The number of pending calls of live callers."""

    async def __aenter__(self) -> Self:
        self._socket.unlink(missing_ok=True)
        self._server.add_insecure_port(self.endpoint)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)
        await self._channel.close()

    @contextlib.contextmanager
    def stop(self, method: str, when: When, *, calls: int | None = None) -> Iterator[Stopped]:
        """Hold calls of a method (`CreateContainer`) before they reach the runtime, or their answers after.

        All that come, or so many at once as `calls` says: in the place of one whose caller dies, the next one is held.
        """
        stopped = self._stops[method, when] = Stopped(calls)
        try:
            yield stopped
        finally:
            del self._stops[method, when]
            stopped.open()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Handle any method by making the same call to the runtime."""
        path = handler_call_details.method
        if path in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(partial(self._stream, path))

        async def forward(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            method = path.rpartition("/")[2]
            self.calls[method] += 1
            self.allowed[method] = context.time_remaining() or math.inf
            self.under_way += 1
            try:
                await self._pass(method, "before")
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)
                answer: bytes = await call(request, timeout=context.time_remaining(), metadata=_passed_on(context))
                await self._pass(method, "after")
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            finally:
                self.under_way -= 1
            return answer

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _stream(
        self, path: str, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        """Pass on the runtime's events as they come: if nobody reads them, the runtime makes no more containers."""
        self.calls[path.rpartition("/")[2]] += 1
        open_stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(path)
        call = open_stream(request, metadata=_passed_on(context))
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        finally:
            call.cancel()

    async def _pass(self, method: str, when: When) -> None:
        stopped = self._stops.get((method, when))
        if stopped is not None:
            await stopped.passing()


def _passed_on(context: grpc.aio.ServicerContext[bytes, bytes]) -> tuple[tuple[str, str | bytes], ...]:
    """The headers that the runtime requires: containerd's own API needs a namespace."""
    return tuple((name, value) for name, value in context.invocation_metadata() or () if name.startswith("containerd-"))
