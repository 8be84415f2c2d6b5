"""Runs a command on a node of the fleet: through the node's own endpoint or, piece by piece, through its polls."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import TimeoutError as TooLate
from temporalio.service import RPCError

from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_endpoint import EndpointUnreachable, reached
from syncpod.cli.streams.command_streams import Output, Write
from syncpod.cli.temporal.fleet_answers import silence
from syncpod.messages.fleet import FLEET_QUEUE, FleetNodeView
from syncpod.messages.remote_command import (
    PIECE_BYTES,
    REMOTE_COMMAND_WORKFLOW,
    WAIT_SECONDS,
    RemoteCommand,
    RemoteCommandPiece,
    remote_command_id,
    to_bytes,
    to_text,
    why_not,
)

_OUTPUT_BYTES: Final = 16 * 2**20
_AT_ONCE: Final = 16
"""Maximum number of nodes that run a command for us at the same time."""
_PIECE_SECONDS: Final = WAIT_SECONDS + 60
"""Seconds to wait for the answer to one piece. A worker that is alive answers sooner."""
_LIFE: Final = timedelta(seconds=_PIECE_SECONDS)
_RPC: Final = timedelta(seconds=10)
_GONE: Final = ("Unknown", "Joining")
_AT_THE_POD: Final = frozenset({"logs", "exec", "attach", "cp", "port-forward", "debug"})
"""Commands that need the pod's node. The others print the fleet's own records of the pod while its node is away."""


class Silent(Failure):
    """The node has not accepted a request in time, although the fleet does not count the node as Unknown yet."""


def why_away(node: FleetNodeView) -> str:
    """Return why a node cannot run a command now, in one sentence; "" if it can."""
    if node.presence not in _GONE:
        return ""
    if node.presence == "Joining":
        return f"node {node.name} has not joined yet, so it cannot be asked"
    since = f" since {node.since.astimezone():%Y-%m-%d %H:%M:%S}" if node.since else ""
    return f"node {node.name} has been Unknown{since}: it cannot be asked until it is back"


def _way_on(words: Sequence[str], typed: str = "") -> str:
    """Return a clause about what can be done while a node is away, with a semicolon before it.

    "" for a command that prints the fleet's own records of the pod instead. `typed` is the command that the user typed,
    if the node runs a different one.
    """
    command, name = typed or words[0], next((each for each in words[1:] if not each.startswith("-")), "POD")
    if command == "explain" and needs_journal(words[1:]):
        return (
            f"; its journal is on that machine, where `syncpod explain {name}` with the same flags reads it; without "
            "these flags the answer comes from the fleet"
        )
    if command not in _AT_THE_POD:
        return ""
    there = f"syncpod {command}" if typed else f"syncpod {command} {name}"
    worker = "" if command == "logs" else ", if its worker runs there"
    return (
        f"; its pods may run on meanwhile: on that machine `{there}` reaches them{worker}. `syncpod fleet explain "
        f"pod/{name}` shows the fleet's own records, and `syncpod fleet get nodes` shows when the node is back"
    )


def needs_journal(flags: Sequence[str]) -> bool:
    """Return whether an `explain` has flags for a part of the past, which only the journal of the pod's node has."""
    return any(each.startswith("-") and not each.startswith(("--output=", "--namespace=")) for each in flags)


async def run_there(
    client: Client,
    node: FleetNodeView,
    words: Sequence[str],
    *,
    write: Write,
    stdin: AsyncIterator[bytes] | None = None,
    state_dir: str | None = None,
    typed: str = "",
) -> int:
    """Run a node's own ``syncpod`` with these words on the node; return its exit code.

    `write` gets the output as it arrives. If this call fails or is cancelled, the node ends the command. With a
    `state_dir` (the fleet's; "" = this user's), the node's own endpoint is tried first. `typed` is the command that the
    user typed, if the node runs a different one. Raises Failure if the node does not answer, or refuses.
    """
    if why := why_not(tuple(words)):
        raise Failure(why)
    if node.endpoint and state_dir is not None:
        try:
            async with reached(state_dir, node) as way:
                return await way.run(words, write=write, stdin=stdin)
        except EndpointUnreachable as unreachable:
            remark(f"Note: {unreachable}; so the request goes through its polls")
    if why := why_away(node):
        raise Failure(f"{why}{_way_on(words, typed)}")
    try:
        return await _RemoteCommand(client, node, tuple(words), with_input=stdin is not None).run(stdin, write)
    except Silent as silent:
        raise Silent(f"{silent}{_way_on(words, typed)}") from None


async def output_on(client: Client, node: FleetNodeView, words: Sequence[str]) -> tuple[int, str, str]:
    """Run a short command on a node; return its exit code, standard output and standard error. Raises Failure."""
    said = {Output.STDOUT: bytearray(), Output.STDERR: bytearray()}

    async def keep(which: Output, data: bytes) -> None:
        said[which] += data
        if sum(map(len, said.values())) > _OUTPUT_BYTES:
            raise Failure(
                f"the answer from node {node.name} has more than {_OUTPUT_BYTES // 2**20} MiB: it is not read further"
            )

    code = await run_there(client, node, words, write=keep)
    return code, said[Output.STDOUT].decode(errors="replace"), said[Output.STDERR].decode(errors="replace")


async def output_on_all(
    client: Client, nodes: Sequence[FleetNodeView], words: Sequence[str]
) -> list[tuple[FleetNodeView, tuple[int, str, str] | Failure]]:
    """Run the same short command on several nodes; return for each node the result of `output_on`, or its Failure."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def ask(node: FleetNodeView) -> tuple[int, str, str] | Failure:
        async with few:
            try:
                return await output_on(client, node, words)
            except Failure as failure:
                return failure

    return list(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))


async def print_there(client: Client, node: FleetNodeView, words: Sequence[str]) -> None:
    """Run a short command on a node, and print its output, escaped as in :func:`~syncpod.cli.console.say`.

    Raises Failure with the command's exit code if that is not 0.
    """
    code, out, err = await output_on(client, node, words)
    print_output(out, err)
    if code:
        raise Failure("", code)


def print_output(out: str, err: str) -> None:
    """Print the output of a command on a node, escaped as in :func:`~syncpod.cli.console.say`."""
    for text, tell in ((err, remark), (out, say)):
        if text:
            tell(text.removesuffix("\n"))


class _RemoteCommand:
    """One command on one node."""

    def __init__(self, client: Client, node: FleetNodeView, words: tuple[str, ...], *, with_input: bool) -> None:
        self._client, self._session = client, secrets.token_hex(16)
        self._asked = RemoteCommand(
            fleet=node.fleet, node=node.name, session=self._session, words=words, with_input=with_input
        )
        self._number = 0

    async def run(self, stdin: AsyncIterator[bytes] | None, write: Write) -> int:
        """Run the command to its end, and return its exit code. If this fails or is cancelled, the node ends it."""
        is_over = False
        try:
            if stdin is None:
                code = await self._take(write, begin=True)
            else:
                await self._ask(begin=True)  # answered at once; otherwise the input would wait for the first output
                code = await self._both(stdin, write)
            is_over = True
            return code
        finally:
            if not is_over:
                await self._end()

    async def _both(self, stdin: AsyncIterator[bytes], write: Write) -> int:
        """Send input and receive output, until the command has ended; return its exit code."""
        taking, giving = asyncio.create_task(self._take(write, begin=False)), asyncio.create_task(self._give(stdin))
        try:
            await asyncio.wait({taking, giving}, return_when=asyncio.FIRST_COMPLETED)
            if giving.done() and not taking.done():
                giving.result()
            return await taking
        finally:
            for task in (taking, giving):
                task.cancel()
            await asyncio.gather(taking, giving, return_exceptions=True)

    async def _take(self, write: Write, *, begin: bool) -> int:
        received = 0
        while True:
            piece = await self._ask(begin=begin, received=received, wait=WAIT_SECONDS)
            begin = False
            for chunk in piece.chunks:
                try:
                    data = to_bytes(chunk.data)
                except ValueError:
                    raise Failure(f"the answer from node {self._asked.node} cannot be read") from None
                received += len(data)
                await write(Output(chunk.stream), data)
            if piece.code is not None:
                return piece.code if 0 <= piece.code < 256 else 1

    async def _give(self, stdin: AsyncIterator[bytes]) -> None:
        at = 0
        async for data, ends in _together(stdin):
            while data or ends:
                piece = await self._ask(give=True, input_at=at, input=to_text(data), input_ends=ends, wait=WAIT_SECONDS)
                if piece.input_over:
                    return
                taken = min(max(0, piece.input_taken - at), len(data))
                at, data = at + taken, data[taken:]

    async def _ask(self, **asked: object) -> RemoteCommandPiece:
        """Send one request for a piece, and return the piece. Raises Failure."""
        self._number += 1
        whole = self._asked.model_copy(update=asked)
        if whole.begin:
            whole = whole.model_copy(update={"asked_at": time.time()})
        else:
            whole = whole.model_copy(update={"words": self._asked.words[:1]})
        handle = await self._start(whole, str(self._number))
        try:
            async with asyncio.timeout(_PIECE_SECONDS):
                piece = RemoteCommandPiece.model_validate(await handle.result())
        except TimeoutError:
            raise Failure(await silence(self._client)) from None
        except WorkflowFailureError as failed:
            if isinstance(failed.cause, TooLate):
                raise Failure(await silence(self._client)) from None
            raise Failure(f"the request was not passed on to node {whole.node}: {failed.cause}") from None
        if piece.refused:
            raise (Silent if piece.silent else Failure)(piece.refused)
        return piece

    async def _start(self, asked: RemoteCommand, part: str) -> WorkflowHandle[Any, Any]:
        return await self._client.start_workflow(
            REMOTE_COMMAND_WORKFLOW,
            asked,
            id=remote_command_id(asked.node, asked.session, part),
            task_queue=FLEET_QUEUE,
            execution_timeout=_LIFE,
            result_type=dict,
            rpc_timeout=_RPC,
        )

    async def _end(self) -> None:
        """Send the request to end the command, without waiting until it has ended."""
        with contextlib.suppress(RPCError):
            await self._start(self._asked.model_copy(update={"end": True, "words": ()}), "end")


async def _together(stdin: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield the input in pieces as it arrives. Each comes with a flag: whether the input ends there."""
    waiting, news, room, is_over = bytearray(), asyncio.Event(), asyncio.Event(), False

    async def read() -> None:
        nonlocal is_over
        try:
            async for data in stdin:
                waiting.extend(data)
                news.set()
                while len(waiting) >= PIECE_BYTES:
                    room.clear()
                    await room.wait()
        finally:
            is_over = True
            news.set()

    reading = asyncio.create_task(read())
    try:
        while True:
            await news.wait()
            news.clear()
            while waiting:
                data = bytes(waiting[:PIECE_BYTES])
                del waiting[:PIECE_BYTES]
                room.set()
                yield data, False
            if is_over:
                await reading
                yield b"", True
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
