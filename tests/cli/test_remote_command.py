"""The streams of a remote command, through the embedded runtime's streaming server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator

import pytest

from syncpod.cli.streams.command_streams import NeverRan, Output, StreamBroken, exit_code, stream
from syncpod.streaming.pipe import Pipe
from tests.runtime.local_streams import Commands, commands_of_a_server

MUCH = 24_000_000
"""Many times more bytes than the buffers of a connection hold."""


@pytest.fixture
async def commands() -> AsyncIterator[Commands]:
    async with commands_of_a_server() as commands:
        yield commands


class Written:
    """Collects the received data, by stream."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()

    async def __call__(self, which: Output, data: bytes) -> None:
        (self.err if which is Output.STDERR else self.out).extend(data)


async def lines(*several: bytes) -> AsyncIterator[bytes]:
    for line in several:
        yield line


async def nothing_for_ever() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def test_a_successful_command_has_exit_code_0() -> None:
    assert exit_code(b'{"metadata":{},"status":"Success"}') == 0


def test_the_exit_code_of_a_command_is_passed_on() -> None:
    causes = [{"reason": "ExitCode", "message": "7"}]
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    assert exit_code(json.dumps(status).encode()) == 7


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (b'{"status":"Failure","message":"no such file"}', "no such file"),
        (b'{"status":"Failure","details":null}', "not why"),
        (b"plain words\n", "plain words"),
    ],
)
def test_a_command_that_could_not_run_reports_the_reason(status: bytes, sentence: str) -> None:
    with pytest.raises(NeverRan, match=sentence):
        exit_code(status)


async def test_stdout_stderr_and_the_exit_code_are_separate(commands: Commands) -> None:
    written = Written()
    url = commands.exec("sh", "-c", "read line; echo $line; echo err >&2; exit 4", stdin=True)
    assert await stream(url, stdin=lines(b"typed\n"), sizes=None, write=written) == 4
    assert written.out == b"typed\n" and written.err == b"err\n"


async def test_large_data_goes_both_ways_at_once_and_ends_with_the_input(commands: Commands) -> None:
    data = os.urandom(1_000_000) * (MUCH // 1_000_000)
    written = Written()
    url = commands.exec("cat", stdin=True)
    assert await stream(url, stdin=lines(data[: MUCH // 2], data[MUCH // 2 :]), sizes=None, write=written) == 0
    assert hashlib.sha256(written.out).digest() == hashlib.sha256(data).digest()


async def test_a_slow_reader_delays_the_command_without_loss(commands: Commands) -> None:
    given, released, taken = asyncio.Event(), asyncio.Event(), bytearray()

    async def write(_which: Output, data: bytes) -> None:
        given.set()
        await released.wait()
        taken.extend(data)

    script = f"head -c {MUCH} /dev/zero; echo done >&2"
    streaming = asyncio.create_task(stream(commands.exec("sh", "-c", script), stdin=None, sizes=None, write=write))
    process = (await commands.one()).process
    await given.wait()  # the rest is more than the buffers in between hold
    assert process.returncode is None and not streaming.done()
    released.set()
    assert await streaming == 0
    assert len(taken) == MUCH + len("done\n")


async def test_output_is_complete_if_a_command_does_not_read_all_input(commands: Commands) -> None:
    async def without_end() -> AsyncIterator[bytes]:
        while True:
            yield bytes(100_000)

    written = Written()
    script = "head -c 10 >/dev/null; head -c 3000000 /dev/zero; exit 3"
    assert (
        await stream(commands.exec("sh", "-c", script, stdin=True), stdin=without_end(), sizes=None, write=written) == 3
    )
    assert len(written.out) == 3_000_000


async def test_an_ended_command_does_not_wait_for_its_input(commands: Commands) -> None:
    written = Written()
    url = commands.exec("echo", "done", stdin=True)
    assert await stream(url, stdin=nothing_for_ever(), sizes=None, write=written) == 0
    assert written.out == b"done\n"


async def test_a_remote_terminal_follows_the_local_size(commands: Commands) -> None:
    written = Written()
    changed = asyncio.Event()

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield 101, 31
        await changed.wait()
        yield 120, 40

    async def write(which: Output, data: bytes) -> None:
        await written(which, data)
        if b"31 101" in written.out:
            changed.set()

    script = 'while size=$(stty size); do echo "$size"; test "$size" = "40 120" && exit 6; sleep 0.05; done'
    url = commands.exec("sh", "-c", script, tty=True, stdin=True)
    assert await stream(url, stdin=nothing_for_ever(), sizes=sizes(), write=write, tty=True) == 6
    assert b"40 120" in written.out


async def test_a_missing_program_is_reported_as_not_run(commands: Commands) -> None:
    with pytest.raises(NeverRan, match="not found"):
        await stream(commands.exec("no-such-program"), stdin=None, sizes=None, write=Written())


async def test_an_input_error_is_not_taken_for_its_end(commands: Commands) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"some"
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="gone"):
        await stream(commands.exec("cat", stdin=True), stdin=broken(), sizes=None, write=Written())


async def test_a_refused_url_is_reported_with_the_servers_message_without_the_token(commands: Commands) -> None:
    url = commands.exec("true")
    assert await stream(url, stdin=None, sizes=None, write=Written()) == 0
    with pytest.raises(StreamBroken, match="no such URL, or it has been used") as refused:
        await stream(url, stdin=None, sizes=None, write=Written())
    assert url.rpartition("/")[2] not in str(refused.value)


async def test_an_unreachable_streaming_server_is_reported(unused_tcp_port_of_the_machine: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port_of_the_machine}/exec/x"
    with pytest.raises(StreamBroken, match=r"does not stream from http://127.0.0.1:[0-9]+: .*refused"):
        await stream(url, stdin=None, sizes=None, write=Written())


async def test_a_broken_connection_leaves_the_exit_code_unknown() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StreamBroken, match="broke"):
            await stream(f"http://127.0.0.1:{port}/exec/x", stdin=None, sizes=None, write=Written())


@pytest.fixture
async def unused_tcp_port_of_the_machine() -> int:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        return int(server.sockets[0].getsockname()[1])


async def test_a_short_text_is_read_completely_however_it_is_split() -> None:
    pipe = Pipe()
    reading = asyncio.create_task(pipe.whole())
    for part in (b"exit", b" code", b" 3"):
        pipe.put(part)
        await asyncio.sleep(0)
    assert not reading.done()
    pipe.end()
    assert await reading == b"exit code 3"
