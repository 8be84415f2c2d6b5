"""Exec and attach over SPDY/3.1, the default of crictl and kubectl."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator

import pytest

from syncpod.runtime.streaming import spdy_command
from tests.runtime.local_streams import Commands, commands_of_a_server
from tests.runtime.spdy_client import GOAWAY, PING, RST_STREAM, SYN_STREAM, SpdyClient, control

SUCCESS = {"metadata": {}, "status": "Success"}
V4 = "v4.channel.k8s.io"


@pytest.fixture
async def commands(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Commands]:
    async with commands_of_a_server() as commands:
        yield commands
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def opened(url: str, *types: str, protocol: str = V4) -> tuple[SpdyClient, dict[str, int]]:
    """Connect, and open a stream of each type."""
    client = await SpdyClient.connect(url, protocol)
    return client, {name: client.open(streamtype=name) for name in types}


async def test_a_command_has_its_input_its_output_and_its_code(commands: Commands) -> None:
    url = commands.exec("sh", "-c", "cat; echo err >&2; exit 7", stdin=True)
    client, ids = await opened(url, "error", "stdin", "stdout", "stderr")
    client.send(ids["stdin"], b"some ")
    client.send(ids["stdin"], b"input", fin=True)
    await client.until_ended(ids["error"], ids["stdout"], ids["stderr"])
    assert client.accepted == set(ids.values())
    assert client.data[ids["stdout"]] == b"some input"
    assert client.data[ids["stderr"]] == b"err\n"
    status = json.loads(client.data[ids["error"]])
    assert status["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}
    client.close()


async def test_the_first_version_that_both_speak_is_chosen(commands: Commands) -> None:
    client = await SpdyClient.connect(commands.exec("true"), "v9.channel.k8s.io", V4, "v3.channel.k8s.io")
    assert client.protocol == V4
    client.close()


async def test_older_protocol_versions_end_with_a_message_or_nothing(commands: Commands) -> None:
    for command, said in (("false", b"command terminated with exit code 1"), ("true", b"")):
        client, ids = await opened(commands.exec(command), "error", "stdout", "stderr", protocol="v2.channel.k8s.io")
        await client.until_ended(*ids.values())
        assert client.data[ids["error"]] == said
        client.close()


async def test_a_terminal_has_the_clients_size(commands: Commands) -> None:
    waiting = 'until [ "$(stty size)" = "33 77" ]; do sleep 0.01; done; tty'
    url = commands.exec("sh", "-c", waiting, tty=True, stdin=True)
    client, ids = await opened(url, "error", "stdin", "stdout", "resize")
    client.send(ids["resize"], b'{"Width":1,"Height":1}\n{"Width":77,')
    client.send(ids["resize"], b'"Height":33}')
    await client.until_ended(ids["error"], ids["stdout"])
    assert client.data[ids["stdout"]].startswith(b"/dev/pts/")
    client.close()


async def test_the_server_lets_the_client_close_the_connection(commands: Commands) -> None:
    client, ids = await opened(commands.exec("true"), "error", "stdout", "stderr")
    await client.until_ended(*ids.values())
    assert client.went_away is None
    client.close()


async def test_a_client_that_does_not_close_is_disconnected(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spdy_command, "CLOSING_SECONDS", 0.05)
    client, _ = await opened(commands.exec("true"), "error", "stdout", "stderr")
    await client.until_closed()
    assert client.went_away == 0


async def test_streams_that_a_command_does_not_have_are_refused(commands: Commands) -> None:
    client, ids = await opened(commands.exec("true"), "error", "stdin", "video", "stdout")
    again = client.open(streamtype="stdout")
    ids["stderr"] = client.open(streamtype="stderr")
    await client.until_ended(ids["error"], ids["stdout"], ids["stderr"])
    assert client.reset == {ids["stdin"]: 3, ids["video"]: 3, again: 3}
    client.close()


async def test_a_client_that_opens_too_few_streams_is_told(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_command, "STREAM_CREATION_SECONDS", 2)
    client, ids = await opened(commands.exec("true"), "error", "stdout")
    await client.until_ended(ids["error"])
    assert "did not open its streams within 2 seconds: stderr" in json.loads(client.data[ids["error"]])["message"]
    assert commands.started == []
    client.close()


async def test_pings_are_answered_and_other_frames_passed_over(commands: Commands) -> None:
    client, _ = await opened(commands.exec("sleep", "600"), "error", "stdout", "stderr")
    client.writer.write(control(PING, struct.pack(">I", 2)))  # ours, if we sent any
    client.writer.write(control(9, struct.pack(">II", 1, 1000)))  # a window update
    client.send(99, b"of a stream that never was")
    client.writer.write(control(PING, struct.pack(">I", 3)))
    while not client.pongs:
        assert await client.frame()
    assert client.pongs == [3]
    client.close()


async def test_a_client_with_another_protocol_gets_one_error(commands: Commands) -> None:
    client, _ = await opened(commands.exec("sleep", "600"), "error", "stdout", "stderr")
    streams = await commands.one()
    client.writer.write(control(SYN_STREAM, b"broken"))
    while client.went_away is None:
        assert await client.frame()
    assert client.went_away == 1
    await streams.closed.wait()
    assert streams.process.returncode == -9
    client.close()


async def test_a_stream_id_is_used_once(commands: Commands) -> None:
    client, ids = await opened(commands.exec("sleep", "600"), "error")
    client.writer.write(client.headers.syn_stream(ids["error"], {"streamtype": "stdout"}))
    client.writer.write(client.headers.syn_stream(4, {"streamtype": "stdout"}))
    while len(client.reset) < 2:
        assert await client.frame()
    assert client.reset == {ids["error"]: 1, 4: 1}
    client.close()


async def test_a_client_may_ignore_one_of_the_outputs(commands: Commands) -> None:
    url = commands.exec("sh", "-c", "head -c 1000000 /dev/zero; echo err >&2")
    client, ids = await opened(url, "error", "stdout", "stderr")
    client.writer.write(control(RST_STREAM, struct.pack(">II", ids["stdout"], 5)))
    await client.until_ended(ids["error"], ids["stderr"])
    assert client.data[ids["stderr"]] == b"err\n"
    assert json.loads(client.data[ids["error"]]) == SUCCESS
    client.close()


@pytest.mark.parametrize("goodbye", [b"", control(GOAWAY, bytes(8))], ids=["hangs up", "says goodbye"])
async def test_a_command_is_killed_when_its_client_disconnects(commands: Commands, goodbye: bytes) -> None:
    client, _ = await opened(commands.exec("sleep", "600"), "error", "stdout", "stderr")
    streams = await commands.one()
    if goodbye:
        client.writer.write(goodbye)
    else:
        client.close()
    await streams.closed.wait()
    assert streams.process.returncode == -9
    client.close()


async def test_a_command_is_killed_when_its_client_dies_with_unread_input(commands: Commands) -> None:
    client, ids = await opened(commands.exec("sleep", "600", stdin=True), "error", "stdin", "stdout", "stderr")
    streams = await commands.one()

    async def send() -> None:
        while True:
            client.send(ids["stdin"], bytes(100_000))
            await client.writer.drain()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await send()
    while not client.settings:  # a frame that means nothing, to see whether anybody is there
        assert await client.frame()
    client.writer.transport.abort()
    await streams.closed.wait()
    assert streams.process.returncode == -9


async def test_output_comes_while_input_waits(commands: Commands) -> None:
    url = commands.exec("sh", "-c", "sleep 0.2; echo here; cat > /dev/null", stdin=True)
    client, ids = await opened(url, "error", "stdin", "stdout", "stderr")
    client.send(ids["stdin"], bytes(3_000_000), fin=True)
    while ids["stdout"] not in client.data:
        assert await client.frame()
    await client.until_ended(ids["error"])
    assert client.data[ids["stdout"]] == b"here\n"
    client.close()


async def test_a_container_keeps_running_when_an_attached_client_disconnects(commands: Commands) -> None:
    client, _ = await opened(commands.attach("sleep", "600"), "error", "stdin", "stdout", "stderr")
    streams = await commands.one()
    client.close()
    await streams.closed.wait()
    assert streams.process.returncode is None


async def test_a_server_shutdown_is_not_reported_as_success(commands: Commands) -> None:
    client, ids = await opened(commands.exec("sleep", "600"), "error", "stdout", "stderr")
    streams = await commands.one()
    closing = asyncio.create_task(commands.streaming.close())
    await client.until_ended(ids["error"])
    assert json.loads(client.data[ids["error"]])["message"] == "the runtime's server ends"
    client.close()
    await closing
    assert streams.process.returncode == -9
