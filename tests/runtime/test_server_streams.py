"""Attach, port-forward and stop of real containers, through a real server that is killed."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from protos.cri.v1 import api_pb2 as cri
from tests.agent.waiting import until
from tests.runtime.real_pods import Pod
from tests.runtime.spdy_client import SpdyClient
from tests.runtimes.embedded import Embedded
from tests.traps import until_trapped

PATIENCE = 60.0
ECHO = "echo ready; while read -r line; do echo got $line; done; echo end of input"


class Attached:
    """A client that is attached to a container's streams."""

    def __init__(self, client: SpdyClient, *types: str) -> None:
        self.client = client
        self.ids = {name: client.open(streamtype=name) for name in types}
        self._reading: asyncio.Task[bool] | None = None

    @property
    def output(self) -> bytes:
        """The output that was read so far."""
        return bytes(self.client.data.get(self.ids["stdout"], b""))

    async def hears(self, seconds: float) -> None:
        """Read the output that arrives within a short time."""
        self._reading = self._reading or asyncio.create_task(self.client.frame())
        done, _ = await asyncio.wait({self._reading}, timeout=seconds)
        if done:
            assert self._reading.result()
            self._reading = None

    def send(self, data: bytes, *, fin: bool = False) -> None:
        self.client.send(self.ids["stdin"], data, fin=fin)

    async def says(self, text: bytes) -> None:
        """Read until the output contains this."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.output:
                await self.hears(PATIENCE)

    async def closed(self) -> None:
        """Read until the server has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            if self._reading is None or await self._reading:
                await self.client.until_closed()

    async def ends(self) -> dict[str, object]:
        """Read to the end, and return its status."""
        async with asyncio.timeout(PATIENCE):
            if self._reading is not None:
                await self._reading
            await self.client.until_ended(self.ids["error"], self.ids["stdout"])
        status: dict[str, object] = json.loads(self.client.data[self.ids["error"]])
        self.client.close()
        return status


async def attach(pod: Pod, container: str, *, stdin: bool = True, tty: bool = False) -> Attached:
    request = cri.AttachRequest(container_id=container, stdin=stdin, stdout=True, tty=tty)
    url = (await pod.calls.Attach(request, wait_for_ready=True)).url
    types = ["error", "stdout", *(["stdin"] if stdin else []), *(["resize"] if tty else [])]
    return Attached(await SpdyClient.connect(url, "v4.channel.k8s.io"), *types)


async def reading(pod: Pod, script: str, **fields: bool) -> str:
    """Start a container that reads its input."""
    config = pod.container("sh", "-c", script)
    config.stdin = True
    config.log_path = "main.log"
    for name, value in fields.items():
        setattr(config, name, value)
    container = await pod.create(config)
    await pod.start(container)
    return container


def logged(tmp_path: Path) -> str:
    log = tmp_path / "logs" / "main.log"
    return log.read_text() if log.exists() else ""


async def test_several_clients_attach_to_a_container_which_outlives_the_server(
    server: Embedded, pod: Pod, tmp_path: Path
) -> None:
    container = await reading(pod, ECHO)
    await until(lambda: "ready" in logged(tmp_path))
    first, second = await attach(pod, container), await attach(pod, container)
    watcher = await attach(pod, container, stdin=False)
    for each in (first, second, watcher):
        async with asyncio.timeout(PATIENCE):
            while b"got one\n" not in each.output:  # Only what is said once it is attached.
                first.send(b"one\n")
                await each.hears(0.05)
        assert b"ready" not in each.output
    second.send(b"two\n", fin=True)
    await first.says(b"got two\n")
    assert (await second.ends())["status"] == "Success"  # Its input has ended, and so has it: not the container's.
    pid = await pod.pid(container)
    await asyncio.to_thread(server.restart)
    for each in (first, watcher):
        await each.closed()
    later = await attach(pod, container)
    later.send(b"three\n")
    await later.says(b"got three\n")
    assert await pod.pid(container) == pid
    later.client.close()
    assert "end of input" not in logged(tmp_path)


async def test_with_stdin_once_input_ends_with_the_first_client(pod: Pod, tmp_path: Path) -> None:
    container = await reading(pod, ECHO, stdin_once=True)
    client = await attach(pod, container)
    client.send(b"all of it\n", fin=True)
    assert (await client.ends())["status"] == "Success"
    assert (await pod.ended(container)).exit_code == 0
    assert "got all of it" in logged(tmp_path)
    assert "end of input" in logged(tmp_path)


async def test_an_attached_terminal_has_the_clients_size_and_input(pod: Pod) -> None:
    container = await reading(pod, 'until [ "$(stty size)" = "33 77" ]; do sleep 0.01; done; stty size; cat', tty=True)
    client = await attach(pod, container, tty=True)
    client.client.send(client.ids["resize"], b'{"Width":77,"Height":33}')
    await client.says(b"33 77\r\n")
    client.send(b"a\n")
    await client.says(b"33 77\r\na\r\na\r\n")  # Echoed by the terminal, and then by cat, which therefore runs.
    client.send(b"\x03")
    assert (await client.ends())["status"] == "Success"  # It ended, by a signal: that is not a failure of attaching.
    assert (await pod.ended(container)).exit_code == 130


async def test_a_port_is_forwarded_to_the_pods_address_or_else_to_localhost(pod: Pod) -> None:
    address = (
        await pod.calls.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox))
    ).status.network.ip

    async def say(word: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    # A free port of 127.0.0.1 is free at the pod's address too, which nobody else uses; not the other way round.
    local = await asyncio.start_server(lambda _, writer: say(b"local", writer), "127.0.0.1", 0)
    port = local.sockets[0].getsockname()[1]
    own = await asyncio.start_server(lambda _, writer: say(b"own", writer), address, port)
    assert await forwarded(pod, port) == (b"own", b"")
    own.close()
    assert await forwarded(pod, port) == (b"local", b"")
    local.close()
    assert await forwarded(pod, port) == (b"", b"cannot connect to port %d: Connection refused" % port)


async def forwarded(pod: Pod, port: int) -> tuple[bytes, bytes]:
    """Connect to a port of a pod; return the received data and the text of the error stream."""
    url = (await pod.calls.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod.sandbox))).url
    client = await SpdyClient.connect(url, "portforward.k8s.io")
    error, data = (client.open(streamtype=kind, port=str(port), requestid="0") for kind in ("error", "data"))
    for stream in (error, data):
        client.send(stream, b"", fin=True)
    async with asyncio.timeout(PATIENCE):
        await client.until_ended(error)
    client.close()
    return bytes(client.data.get(data, b"")), bytes(client.data.get(error, b""))


async def test_a_container_is_stopped_by_its_configured_signal(server: Embedded, pod: Pod) -> None:
    config = pod.container("sh", "-c", "trap '' TERM; trap 'exit 10' USR1; while :; do sleep 600 & wait $!; done")
    config.stop_signal = cri.SIGNAL_SIGUSR1
    container = await pod.create(config)
    await pod.start(container)
    await until_trapped(await pod.pid(container), signal.SIGTERM, signal.SIGUSR1)
    await asyncio.to_thread(server.restart)
    assert (await pod.status(container)).stop_signal == cri.SIGNAL_SIGUSR1
    await pod.stop(container, 20)
    assert (await pod.status(container)).exit_code == 10
