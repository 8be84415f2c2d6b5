"""exec, attach and port-forward at the kubelet's port: raw to the runtime's streaming server, over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.kubelet_port import relay as module
from syncpod.cri.errors import RuntimeFailure, Unavailable
from tests.agent.waiting import until
from tests.kubernetes.kubelet_port import Node, node, read_answer
from tests.runtime.local_streams import Commands, commands_of_a_server
from tests.runtime.spdy_client import SpdyClient

LABELS = {"io.kubernetes.pod.uid": "u1"}
WEB: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
    "spec": {"containers": [{"name": "app"}, {"name": "shell", "tty": True}]},
    "status": {},
}
EXEC = "/exec/default/web/app?command=sh&command=-c&command=x&input=1&output=1&error=1"


def running(name: str, attempt: int = 0, state: str = "running") -> SimpleNamespace:
    return SimpleNamespace(id=f"{name}-{attempt}", name=name, attempt=attempt, state=state, labels=LABELS, log_path="")


@pytest_asyncio.fixture
async def n1(tmp_path: Path) -> AsyncIterator[Node]:
    async with node(tmp_path) as found:
        found.pods.pods.append(WEB)
        every = (running("app", 0, "exited"), running("app", 1), running("shell"))
        found.runtime.containers = {each.id: each for each in every}
        found.runtime.sandboxes = [
            SimpleNamespace(id="old", attempt=0, state="SANDBOX_NOTREADY", labels=LABELS),
            SimpleNamespace(id="new", attempt=1, state="SANDBOX_READY", labels=LABELS),
        ]
        yield found


@pytest_asyncio.fixture
async def commands() -> AsyncIterator[Commands]:
    async with commands_of_a_server() as found:
        yield found


async def upgraded(n1: Node, path: str, method: str = "POST", **headers: str) -> tuple[Any, Any, str]:
    """Request an upgrade; return the connection and the head of the answer."""
    reader, writer = await n1.connect(n1.master)
    given = {
        "Host": "n1",
        "Authorization": "Bearer secret",
        "Connection": "Upgrade",
        "Content-Length": "0",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    return reader, writer, (await reader.readuntil(b"\r\n\r\n")).decode()


async def spdy(n1: Node, path: str, protocol: str) -> SpdyClient:
    reader, writer, head = await upgraded(n1, path, Upgrade="SPDY/3.1", X_Stream_Protocol_Version=protocol)
    assert head.startswith("HTTP/1.1 101 "), head
    assert f"X-Stream-Protocol-Version: {protocol}" in head
    return SpdyClient(reader, writer)


async def test_a_command_has_its_input_its_output_and_its_code_over_spdy(n1: Node, commands: Commands) -> None:
    n1.runtime.url = commands.exec("sh", "-c", "cat; echo err >&2; exit 7", stdin=True)
    client = await spdy(n1, EXEC, "v4.channel.k8s.io")
    ids = {name: client.open(streamtype=name) for name in ("error", "stdin", "stdout", "stderr")}
    client.send(ids["stdin"], b"some input", fin=True)
    await client.until_ended(ids["error"], ids["stdout"], ids["stderr"])
    assert client.data[ids["stdout"]] == b"some input" and client.data[ids["stderr"]] == b"err\n"
    assert json.loads(client.data[ids["error"]])["details"]["causes"][0]["message"] == "7"
    (asked,) = n1.runtime.asked
    streams = {"tty": False, "stdin": True, "stdout": True, "stderr": True}
    assert asked == ("exec", "app-1", ("sh", "-c", "x"), streams)
    client.close()


async def test_megabytes_pass_both_ways(n1: Node, commands: Commands) -> None:
    n1.runtime.url = commands.exec("cat", stdin=True)
    client = await spdy(n1, EXEC, "v4.channel.k8s.io")
    ids = {name: client.open(streamtype=name) for name in ("error", "stdin", "stdout", "stderr")}
    sent = bytes(range(256)) * 2**14

    async def send() -> None:
        for at in range(0, len(sent), 2**16):
            client.send(ids["stdin"], sent[at : at + 2**16], fin=at + 2**16 == len(sent))
            await client.writer.drain()

    sending = asyncio.create_task(send())
    await client.until_ended(ids["stdout"], ids["error"])
    await sending
    assert client.data[ids["stdout"]] == sent
    client.close()


async def test_a_websocket_is_passed_on_as_it_is(n1: Node, commands: Commands) -> None:
    """With the client's protocol version: the runtime's streaming server answers, not the node."""
    n1.runtime.url = commands.exec("echo", "hello")
    reader, writer, head = await upgraded(
        n1,
        EXEC,
        "GET",
        Upgrade="websocket",
        Origin="https://console.example.com",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key=base64.b64encode(b"0123456789abcdef").decode(),
        Sec_WebSocket_Protocol="v5.channel.k8s.io",
    )
    assert head.startswith("HTTP/1.1 101 ") and "Sec-WebSocket-Protocol: v5.channel.k8s.io" in head
    said = await reader.read()
    assert b"\x01hello\n" in said and b'"status":"Success"' in said.replace(b" ", b"")
    writer.close()


async def test_what_the_runtime_is_asked_has_no_token_of_the_client(n1: Node) -> None:
    heads = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b"HTTP/1.1 403 Forbidden\r\nX-Accepted-Stream-Protocol-Versions: v4\r\nContent-Length: 2\r\n\r\nno"
        )
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        n1.runtime.url = f"http://{address}/exec/ticket?a=b"
        reader, writer, head = await upgraded(n1, EXEC, Upgrade="SPDY/3.1", X_Stream_Protocol_Version="v9")
        assert head.startswith("HTTP/1.1 403 ") and "X-Accepted-Stream-Protocol-Versions: v4" in head
        assert (await reader.readexactly(3)) == b"no\n"
        writer.close()
    lines = heads[0].split("\r\n")
    assert lines[0] == "POST /exec/ticket?a=b HTTP/1.1" and f"Host: {address}" in lines
    assert "secret" not in heads[0] and "Upgrade: SPDY/3.1" in lines and "X-Stream-Protocol-Version: v9" in lines


async def test_when_one_end_is_gone_the_other_is_closed(n1: Node) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nlast words")
        await reader.readexactly(5)
        writer.write(b"!")
        if not (await reader.read(1)).startswith(b"x"):
            ended.set()
        writer.close()

    listener = n1.port.listener
    assert listener is not None
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        n1.runtime.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        reader, writer, _ = await upgraded(n1, EXEC, Upgrade="SPDY/3.1")
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"last words!"
        writer.write(b"x")  # then the runtime closes
        assert await reader.read() == b""
        reader, writer, _ = await upgraded(n1, EXEC, Upgrade="SPDY/3.1")
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"last words!"
        writer.close()
        await ended.wait()
        await until(lambda: listener._open == 0)


async def test_a_stream_in_which_nothing_moves_ends(n1: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        n1.runtime.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        reader, _, _ = await upgraded(n1, EXEC, Upgrade="SPDY/3.1")
        assert await reader.read() == b""


async def test_attach_has_the_terminal_that_the_container_has(n1: Node, commands: Commands) -> None:
    n1.runtime.url = commands.exec("true")
    for container, tty in (("app", False), ("shell", True)):
        path = f"/attach/default/web/{container}?input=1&output=1&error={int(not tty)}"
        client = await spdy(n1, path, "v4.channel.k8s.io")
        client.close()
        kind, _, streams = n1.runtime.asked[-1]
        assert kind == "attach" and streams == {"tty": tty, "stdin": True, "stdout": True, "stderr": not tty}
        n1.runtime.url = commands.exec("true")


async def test_ports_are_those_of_the_newest_sandbox_that_is_ready(n1: Node) -> None:
    for path in ("/portForward/default/web", "/portForward/default/web/u1", "/portForward/default/web?port=80&port=81"):
        await upgraded(n1, path, Upgrade="SPDY/3.1", X_Stream_Protocol_Version="portforward.k8s.io")
    assert n1.runtime.asked == [
        ("port_forward", "new", ()),
        ("port_forward", "new", ()),
        ("port_forward", "new", (80, 81)),
    ]


async def refused(n1: Node, path: str) -> tuple[int, str]:
    reader, writer, head = await upgraded(n1, path, Upgrade="SPDY/3.1")
    try:
        code = int(head.split(" ")[1])
        rest = asyncio.StreamReader()
        rest.feed_data(head.encode() + await reader.read(10_000))
        rest.feed_eof()
        return code, (await read_answer(rest)).text
    finally:
        writer.transport.abort()


async def test_refusals_have_the_kubelets_words(n1: Node) -> None:
    some = "input=1"
    for path, code, said in (
        (f"/exec/default/other/app?{some}", 404, "pod does not exist"),
        (f"/exec/default/web/u2/app?{some}", 404, "pod does not exist"),
        (f"/exec/default/web/gone?{some}", 500, 'container not found ("gone")'),
        ("/exec/default/web/app", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (f"/attach/default/web/gone?{some}", 500, "container gone not found in pod web_default"),
        ("/portForward/default/other", 404, "pod does not exist"),
        ("/portForward/default/web?port=x", 400, 'unable to parse "x" as a port: must be a number from 1 to 65535'),
    ):
        assert await refused(n1, path) == (code, said)
    n1.runtime.sandboxes.pop()
    assert await refused(n1, "/portForward/default/web") == (500, 'pod not found ("web_default")')
    n1.runtime.failure = RuntimeFailure("exec", "RESOURCE_EXHAUSTED", "too many")
    assert await refused(n1, EXEC) == (429, "too many")
    n1.runtime.failure = Unavailable("exec", "UNAVAILABLE", "")
    assert await refused(n1, EXEC) == (500, "UNAVAILABLE")


async def test_to_read_the_node_is_not_enough_for_a_command(n1: Node) -> None:
    """Difference: with a kubelet, `get nodes/proxy` runs commands by a WebSocket."""
    n1.api.allowed.discard(("kube-apiserver-kubelet-client", "create", "proxy"))
    for method in ("GET", "POST"):
        _, writer, head = await upgraded(n1, EXEC, method, Upgrade="websocket")
        assert head.startswith("HTTP/1.1 403 ")
        writer.close()
    assert n1.runtime.asked == []
