"""CRI's calls that open streams into containers and sandboxes: ExecSync, Exec, Attach and PortForward."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc

from protos.cri.v1 import api_pb2
from syncpod.runtime import statuses
from syncpod.runtime.calls import validation
from syncpod.runtime.calls.lookup import Lookup, running
from syncpod.runtime.exec_sync import exec_sync
from syncpod.runtime.port import Process, StartFailed, Streams
from syncpod.runtime.refusals import Refusal, failed, invalid
from syncpod.runtime.state import Container, Runtime
from syncpod.runtime.streaming import StreamingServer, TooManyTickets

_LOCALHOST: Final = ("127.0.0.1", "::1")


class StreamCalls:
    """One method for each call, named as on the wire. All raise Refusal."""

    def __init__(self, runtime: Runtime, lookup: Lookup, streaming: StreamingServer) -> None:
        self._runtime = runtime
        self._lookup = lookup
        self._streaming = streaming

    async def ExecSync(self, request: api_pb2.ExecSyncRequest) -> api_pb2.ExecSyncResponse:  # noqa: N802
        """Run a command in a container, and return its output and exit code."""
        container = self._lookup.container(request.container_id)
        command = _command(request.cmd)
        timeout = validation.timeout(request.timeout, "timeout")
        await self._lookup.before("ExecSync", container.sandbox, container.short_name)
        return await exec_sync(running(container), container.id, command, timeout)

    async def Exec(self, request: api_pb2.ExecRequest) -> api_pb2.ExecResponse:  # noqa: N802
        """Return the URL for running a command."""
        container = self._lookup.container(request.container_id)
        command = _command(request.cmd)
        _check_streams(request)
        await self._lookup.before("Exec", container.sandbox, container.short_name)
        running(container)

        async def open_streams() -> Streams:
            return await _still_running(container).execute(command, terminal=request.tty, stdin=request.stdin)

        with _tickets():
            url = self._streaming.exec_url(
                open_streams, tty=request.tty, stdin=request.stdin, stdout=request.stdout, stderr=request.stderr
            )
        return api_pb2.ExecResponse(url=url)

    async def Attach(self, request: api_pb2.AttachRequest) -> api_pb2.AttachResponse:  # noqa: N802
        """Return the URL for attaching to a container's main process."""
        container = self._lookup.container(request.container_id)
        _check_streams(request)
        await self._lookup.before("Attach", container.sandbox, container.short_name)
        running(container)
        _, config = statuses.container_record(self._runtime, container)
        if request.tty != config.tty:
            raise invalid("tty", f"the container was made with{'' if config.tty else 'out'} a terminal")
        if request.stdin and not config.stdin:
            raise invalid("stdin", "the container was made without: it reads nothing")

        async def open_streams() -> Streams:
            return await _still_running(container).attach()

        with _tickets():
            url = self._streaming.attach_url(
                open_streams, tty=request.tty, stdin=request.stdin, stdout=request.stdout, stderr=request.stderr
            )
        return api_pb2.AttachResponse(url=url)

    async def PortForward(self, request: api_pb2.PortForwardRequest) -> api_pb2.PortForwardResponse:  # noqa: N802
        """Return the URL for connecting to a sandbox's ports."""
        sandbox = self._lookup.sandbox(request.pod_sandbox_id)
        for index, port in enumerate(request.port):
            if not 0 < port < 65536:
                raise invalid(f"port[{index}]", "must be a port, from 1 to 65535")
        await self._lookup.before("PortForward", sandbox)
        if not sandbox.ready:
            raise failed(f'sandbox "{sandbox.id}" is not ready')

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await _connect((sandbox.address, *_LOCALHOST) if sandbox.address else _LOCALHOST, port)

        with _tickets():
            url = self._streaming.port_forward_url(connect, tuple(request.port))
        return api_pb2.PortForwardResponse(url=url)


async def _connect(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port on the first address that accepts. Raises the first address's OSError.

    containerd tries localhost in the pod's network (sandbox_portforward_linux.go). Here that is the machine's
    localhost, so the pod's own address comes first.
    """
    problem: OSError | None = None
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            problem = problem or error
    assert problem is not None
    raise problem


@contextmanager
def _tickets() -> Iterator[None]:
    try:
        yield
    except TooManyTickets as error:
        raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from error


def _command(words: Iterable[str]) -> tuple[str, ...]:
    command = tuple(words)
    if not command:
        raise invalid("cmd", "required")
    validation.command(command, "cmd")
    return command


def _check_streams(request: api_pb2.ExecRequest | api_pb2.AttachRequest) -> None:
    if request.tty and request.stderr:
        raise invalid("stderr", "must be false with tty: a terminal has only one output")
    if not (request.stdin or request.stdout or request.stderr):
        raise invalid("stdin", "one of stdin, stdout and stderr must be true")


def _still_running(container: Container) -> Process:
    if container.process is None:
        raise StartFailed(f'container "{container.id}" has ended')
    return container.process
