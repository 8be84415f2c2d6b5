"""The port arguments of `port-forward`, and one of several forwarded connections.

Holds: A forwarded connection delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from syncpod.cli.actions.port_forward import forwarded_ports
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.streams.forwarded_ports import ForwardedPort, Forwarder
from syncpod.cli.streams.pod_ports import OurPodPorts
from syncpod.pod import Pod
from syncpod.runtime.streaming import StreamingServer


@pytest.fixture
def pod() -> Pod:
    ports = [
        {"name": "http", "containerPort": 80},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        {"name": "both", "containerPort": 54, "protocol": "UDP"},
        {"containerPort": 54, "protocol": "TCP"},
    ]
    return Pod.model_validate(
        {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "x", "ports": ports}]}}
    )


@pytest.mark.parametrize(
    ("word", "local", "remote"),
    [
        ("8080:80", 8080, 80),
        ("80", 80, 80),
        (":80", 0, 80),
        ("8080:http", 8080, 80),
        (":http", 0, 80),
        ("http", 80, 80),
        ("54", 54, 54),
        ("65535:1", 65535, 1),
    ],
)
def test_ports_are_read_as_kubectl_reads_them(word: str, local: int, remote: int, pod: Pod) -> None:
    assert forwarded_ports(pod, [word]) == [ForwardedPort(local, remote)]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("0", "'0' is not a port"),
        ("80:", "'' is not a port number"),
        ("65536:80", "'65536' is not a port"),
        ("8080:https", "nor the name of a port of the pod, which has both, dns, http"),
        ("a:80", "'a' is not a port"),
        ("dns", "port 53 is for UDP"),
        ("53", "port 53 is for UDP"),
        ("1:2:3", "'2:3' is not a port number"),
    ],
)
def test_an_invalid_port_is_refused_as_it_was_typed(word: str, sentence: str, pod: Pod) -> None:
    with pytest.raises(BadInput, match=sentence) as refused:
        forwarded_ports(pod, [word])
    assert str(refused.value).startswith(f"{word}: ")


@dataclass
class Sandbox:
    """A sandbox as an entry of a list."""

    id: str
    attempt: int
    state: str = "SANDBOX_READY"


@dataclass
class Runtime:
    """The calls that forwarding makes, and a streaming server behind their URLs."""

    streaming: StreamingServer
    sandboxes: list[Sandbox] = field(default_factory=lambda: [Sandbox("first", 0)])
    asked_for: list[str] = field(default_factory=list)

    async def list_pod_sandboxes(self, *, labels: dict[str, str]) -> list[Sandbox]:
        assert labels == {"io.kubernetes.pod.uid": "u"}
        return self.sandboxes

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        self.asked_for.append(sandbox_id)

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", port)

        return self.streaming.port_forward_url(connect)


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    streaming = await StreamingServer.start()
    yield Runtime(streaming)
    await streaming.close()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """Yield the port at which connections are served, as in a pod."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield int(server.sockets[0].getsockname()[1])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def forwarded(
    runtime: Runtime, capsys: pytest.CaptureFixture[str], *remote: int
) -> AsyncIterator[tuple[list[int], asyncio.Task[None]]]:
    """Forward to these ports; yield the local ports and the forwarding."""
    pod = Pod.model_validate({"metadata": {"name": "web", "uid": "u"}, "spec": {"containers": []}})
    forwarder = Forwarder(OurPodPorts(runtime, pod).carry)  # type: ignore[arg-type]
    forwarding = asyncio.create_task(forwarder.forward(["127.0.0.1"], [ForwardedPort(0, port) for port in remote]))
    said = ""
    while said.count("Forwarding from") < len(remote):
        await asyncio.wait({forwarding}, timeout=0.01)
        assert not forwarding.done(), forwarding.exception()
        said += capsys.readouterr().out
    try:
        yield [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+) ->", said)], forwarding
    finally:
        forwarding.cancel()
        await asyncio.gather(forwarding, return_exceptions=True)


async def test_a_connection_that_does_not_read_blocks_no_other(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    async def echoed(port: int, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        back = await reader.readexactly(len(data))
        writer.close()
        return back

    async with listening(echo) as port, forwarded(runtime, capsys, port) as ((here,), _):
        _, held = await asyncio.open_connection("127.0.0.1", here)
        held.write(bytes(20_000_000))
        data = [os.urandom(100_000) for _ in range(50)]
        assert await asyncio.gather(*(echoed(here, each) for each in data)) == data
        held.transport.abort()


async def test_each_end_of_a_connection_may_close_first(runtime: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    async def answer_when_all_is_heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        writer.write(b"%d bytes" % len(heard))
        writer.close()

    async with listening(answer_when_all_is_heard) as port, forwarded(runtime, capsys, port) as ((here,), _):
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        writer.write(bytes(1_000_000))
        writer.write_eof()
        assert await reader.read() == b"1000000 bytes"
        writer.close()


async def test_a_port_without_a_listener_is_reported_and_the_others_are_forwarded(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    async with listening(lambda *_: None) as dead:
        pass
    async with listening(echo) as port, forwarded(runtime, capsys, dead, port) as ((nobody, here), forwarding):
        reader, writer = await asyncio.open_connection("127.0.0.1", nobody)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        said = capsys.readouterr().err
        assert f"an error occurred forwarding {nobody} -> {dead}: " in said and "refused" in said.lower()
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x" and not forwarding.done()
        writer.close()


async def test_forwarding_follows_a_new_sandbox_and_ends_with_the_pod(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    async with listening(echo) as port, forwarded(runtime, capsys, port) as ((here,), forwarding):
        runtime.sandboxes = [Sandbox("first", 0, "SANDBOX_NOTREADY"), Sandbox("second", 1)]
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x" and runtime.asked_for == ["second"]
        writer.close()
        runtime.sandboxes = []
        _, writer = await asyncio.open_connection("127.0.0.1", here)
        with pytest.raises(Failure, match='pod "web" is gone'):
            await forwarding
        writer.close()
