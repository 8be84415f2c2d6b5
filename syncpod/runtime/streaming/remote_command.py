"""Exec and attach, independent of the client's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime.port import StartFailed, Stream, Streams
from syncpod.runtime.streaming.terminal_sizes import TerminalSizes
from syncpod.runtime.streaming.wire import CLOSING_SECONDS
from syncpod.streaming.pipe import Pipe

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class RemoteCommand:
    """The request behind an exec or attach URL."""

    open: Callable[[], Awaitable[Streams]]
    """Starts the command, or attaches; raises StartFailed."""
    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool
    attach: bool
    """True for an attachment to the container's main process, whose exit code is no failure of the call."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended, or why it did not start."""

    exit_code: int = 0
    failure: str = ""
    """The reason why the command did not start; empty if it did."""

    def status(self) -> bytes:
        """Return the outcome as a v1.Status in JSON, which protocols since version 4 send."""
        status: dict[str, Any] = {"metadata": {}, "status": "Success"}
        if self.failure:
            status |= {
                "status": "Failure",
                "message": self.failure,
                "reason": "InternalError",
                "code": 500,
            }
        elif self.exit_code:
            status |= {
                "status": "Failure",
                "message": self._nonzero(),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": str(self.exit_code)}]},
            }
        return json.dumps(status, separators=(",", ":")).encode()

    def text(self) -> bytes:
        """Return the outcome as older protocols send it: a sentence, or nothing on success."""
        return (self.failure or (self._nonzero() if self.exit_code else "")).encode()

    def _nonzero(self) -> str:
        return f"command terminated with exit code {self.exit_code}"


class Client(Protocol):
    """The client of a command, with any protocol."""

    @property
    def stdin(self) -> Pipe:
        """The client's input."""

    @property
    def sizes(self) -> TerminalSizes:
        """The sizes of the client's terminal."""

    @property
    def gone(self) -> asyncio.Event:
        """Set once the client will neither send nor receive anything more."""

    async def send(self, stream: Stream, data: bytes) -> None:
        """Pass output on, waiting while the client does not read. Raises ConnectionError once it has disconnected."""

    async def finish(self, outcome: Outcome) -> None:
        """Send the command's outcome. Raises ConnectionError once the client has disconnected."""


async def serve(command: RemoteCommand, client: Client) -> None:
    """Run the command for the client, or attach, until either has ended.

    If the client disconnects first, an executed command is killed and a container runs on (see `Streams.close`). A
    connected client always gets an outcome, since a SPDY client treats an end without one as success.
    """
    try:
        outcome = await _outcome(command, client)
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await _while_there(client, client.finish(Outcome(failure="the runtime's server ends")))
        raise
    except Exception:
        logger.exception("a command was lost")
        outcome = Outcome(failure="the runtime failed, and its log says how")
    if outcome is not None:
        await _while_there(client, client.finish(outcome))


async def _outcome(command: RemoteCommand, client: Client) -> Outcome | None:
    """Run the command to its end; None if the client disconnects first."""
    try:
        streams = await command.open()
        try:
            return await _while_there(client, _run(command, streams, client))
        finally:
            await streams.close()
    except (StartFailed, OSError) as error:
        return Outcome(failure=where_and_why(error))
    finally:
        client.stdin.discard()


async def _run(command: RemoteCommand, streams: Streams, client: Client) -> Outcome:
    """Pass data both ways until the output has ended."""
    wanted = {Stream.STDOUT: command.stdout, Stream.STDERR: command.stderr and not command.tty}
    passing = [asyncio.create_task(_pass_sizes(streams, client.sizes))]
    if command.stdin:
        passing.append(asyncio.create_task(_pass_input(streams, client.stdin)))
    try:
        async for stream, data in streams.output():
            if wanted[stream]:
                await client.send(stream, data)
        return Outcome() if command.attach else Outcome(exit_code=await streams.wait())
    finally:
        for task in passing:
            task.cancel()
        for ended in await asyncio.gather(*passing, return_exceptions=True):
            if isinstance(ended, Exception):
                logger.error("input to a command was lost", exc_info=ended)


async def _pass_input(streams: Streams, stdin: Pipe) -> None:
    while data := await stdin.get():
        await streams.write(data)
    streams.end_input()


async def _pass_sizes(streams: Streams, sizes: TerminalSizes) -> None:
    while True:
        streams.resize(*await sizes.changed())


async def _while_there(client: Client, work: Coroutine[Any, Any, T]) -> T | None:
    """Await `work`; if the client disconnects first, cancel it and return None."""
    doing = asyncio.create_task(work)
    going = asyncio.create_task(client.gone.wait())
    try:
        await asyncio.wait({doing, going}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return None
        return await doing
    except ConnectionError:
        return None
    finally:
        for task in (doing, going):
            task.cancel()
        await asyncio.gather(doing, going, return_exceptions=True)
