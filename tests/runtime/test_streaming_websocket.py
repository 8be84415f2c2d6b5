"""Exec and attach over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.runtime.local_streams import Commands, commands_of_a_server

SUCCESS = {"metadata": {}, "status": "Success"}


@pytest.fixture
async def commands(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Commands]:
    async with commands_of_a_server() as commands:
        yield commands
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def websocket(url: str, *protocols: str) -> connect:
    return connect(
        url.replace("http", "ws", 1),
        subprotocols=[Subprotocol(protocol) for protocol in protocols] or None,
        compression=None,
        proxy=None,
    )


async def everything(connection: ClientConnection) -> dict[int, bytes]:
    """Read to the close, and return the data of each channel."""
    channels: dict[int, bytearray] = {}
    async for message in connection:
        assert isinstance(message, bytes)
        channels.setdefault(message[0], bytearray()).extend(message[1:])
    assert connection.close_code == 1000
    return {channel: bytes(data) for channel, data in channels.items()}


async def test_a_command_has_its_output_and_its_code(commands: Commands) -> None:
    url = commands.exec("sh", "-c", "echo out; echo err >&2; exit 7")
    async with websocket(url, "v5.channel.k8s.io", "v4.channel.k8s.io") as connection:
        assert connection.subprotocol == "v5.channel.k8s.io"
        said = await everything(connection)
    assert (said[1], said[2]) == (b"out\n", b"err\n")
    status = json.loads(said[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}


async def test_protocol_version_5_can_close_stdin(commands: Commands) -> None:
    async with websocket(commands.exec("cat", stdin=True), "v5.channel.k8s.io") as connection:
        await connection.send(b"\0some ")
        await connection.send(b"\0input")
        await connection.send(b"\xff\0")
        said = await everything(connection)
    assert said[1] == b"some input"
    assert json.loads(said[3]) == SUCCESS


async def test_protocol_version_4_treats_a_close_message_as_an_unknown_channel(commands: Commands) -> None:
    async with websocket(commands.exec("head", "-n1", stdin=True), "v4.channel.k8s.io") as connection:
        await connection.send(b"\xff\0")
        await connection.send(b"\0line\n")
        assert (await everything(connection))[1] == b"line\n"


@pytest.mark.parametrize("protocols", [(), ("channel.k8s.io",), ("v3.channel.k8s.io",)])
async def test_older_protocol_versions_end_with_a_message_or_nothing(
    commands: Commands, protocols: tuple[str, ...]
) -> None:
    async with websocket(commands.exec("sh", "-c", "exit 3"), *protocols) as connection:
        assert (await everything(connection))[3] == b"command terminated with exit code 3"
    async with websocket(commands.exec("true"), *protocols) as connection:
        assert 3 not in await everything(connection)


async def test_the_base64_version_is_text(commands: Commands) -> None:
    async with websocket(commands.exec("head", "-n1", stdin=True), "v4.base64.channel.k8s.io") as connection:
        await connection.send("0?no base64?")
        await connection.send("0" + base64.b64encode(b"line\n").decode())
        received = [message async for message in connection]
    assert received[:2] == ["1", "1" + base64.b64encode(b"line\n").decode()]
    status = received[-1]
    assert isinstance(status, str)
    assert json.loads(base64.b64decode(status[1:])) == SUCCESS


async def test_a_command_that_cannot_be_started_says_why(commands: Commands) -> None:
    async with websocket(commands.exec("no-such-program"), "v5.channel.k8s.io") as connection:
        status = json.loads((await everything(connection))[3])
    assert status["reason"] == "InternalError"
    assert status["message"] == 'exec: "no-such-program": executable file not found in $PATH'


async def test_a_terminal_has_the_clients_size(commands: Commands) -> None:
    waiting = 'until [ "$(stty size)" = "33 77" ]; do sleep 0.01; done; tty'
    async with websocket(commands.exec("sh", "-c", waiting, tty=True, stdin=True), "v5.channel.k8s.io") as connection:
        await connection.send(b'\4{"Width":77,"Height":33}')
        said = await everything(connection)
    assert said[1].startswith(b"/dev/pts/")
    assert 2 not in said


async def test_large_data_goes_both_ways_without_loss(commands: Commands) -> None:
    data = bytes(range(256)) * 20_000
    async with websocket(commands.exec("cat", stdin=True), "v5.channel.k8s.io") as connection:

        async def send() -> None:
            for start in range(0, len(data), 100_000):
                await connection.send(b"\0" + data[start : start + 100_000])
            await connection.send(b"\xff\0")

        said, _ = await asyncio.gather(everything(connection), send())
    assert said[1] == data


async def test_a_command_is_killed_when_its_client_disconnects(commands: Commands) -> None:
    async with websocket(commands.exec("sleep", "600"), "v5.channel.k8s.io"):
        streams = await commands.one()
    await streams.closed.wait()
    assert streams.process.returncode == -9


async def test_a_command_is_killed_when_its_client_dies_with_unread_input(commands: Commands) -> None:
    async with websocket(commands.exec("sleep", "600", stdin=True), "v5.channel.k8s.io") as connection:
        streams = await commands.one()

        async def send() -> None:
            while True:
                await connection.send(b"\0" + bytes(100_000))

        sending = asyncio.create_task(send())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(sending)
        connection.transport.abort()
        await streams.closed.wait()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_command_waits_for_a_client_that_does_not_read(commands: Commands) -> None:
    url = commands.exec("sh", "-c", "head -c 20000000 /dev/zero; echo all >&2")
    async with websocket(url, "v5.channel.k8s.io") as connection:
        streams = await commands.one()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await streams.process.wait()
        assert len((await everything(connection))[1]) == 20_000_000


async def test_attach_ends_with_success_whatever_the_exit_code(commands: Commands) -> None:
    async with websocket(commands.attach("sh", "-c", "cat; exit 3"), "v5.channel.k8s.io") as connection:
        await connection.send(b"\0hello")
        await connection.send(b"\xff\0")
        said = await everything(connection)
    assert (said[1], json.loads(said[3])) == (b"hello", SUCCESS)


async def test_a_container_keeps_running_when_an_attached_client_disconnects(commands: Commands) -> None:
    async with websocket(commands.attach("sleep", "600"), "v5.channel.k8s.io"):
        streams = await commands.one()
    await streams.closed.wait()
    assert streams.process.returncode is None


async def test_a_server_shutdown_is_not_reported_as_success(commands: Commands) -> None:
    async with websocket(commands.exec("sleep", "600"), "v5.channel.k8s.io") as connection:
        streams = await commands.one()
        reading = asyncio.create_task(connection.recv())
        assert await reading == b"\1"
        await commands.streaming.close()
        said = await connection.recv()
    assert json.loads(said[1:])["message"] == "the runtime's server ends"
    assert streams.process.returncode == -9
