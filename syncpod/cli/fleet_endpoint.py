"""Connects to a node's own endpoint, which streams a command's input and output directly.

The client certificate is issued for one command, by the fleet's authority on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from cryptography import x509

from syncpod.cli.failure import Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.streams.command_streams import Output, Write
from syncpod.cli.streams.forwarded_ports import Connected, ForwardingOver
from syncpod.gate.authority import Fleet, node_of, now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.hello import hello_name
from syncpod.kernel.memory_file import memory_file
from syncpod.kernel.os_errors import sentence_of
from syncpod.messages.endpoint import (
    INPUT,
    STDERR,
    STDOUT,
    Begin,
    Ended,
    Forward,
    Hello,
    Resized,
    why_not_direct,
)
from syncpod.messages.fleet import FleetNodeView
from syncpod.settings.invitation import is_address
from syncpod.settings.values import SettingsInvalid
from syncpod.streaming.multiplex import Multiplex, PeerGone

_CONNECT_SECONDS: Final = 4.0
"""Seconds to wait for the node's greeting, if the request can otherwise go through the node's polls."""
_ONLY_WAY_SECONDS: Final = 20.0
"""Seconds to wait for the node's greeting, if the request can only go through the endpoint."""


class EndpointUnreachable(Exception):
    """The endpoint cannot be reached, so nothing was run. The text is the reason, without a full stop."""


class Way:
    """An open connection to a node's endpoint, for one command."""

    def __init__(self, link: Multiplex, node: str) -> None:
        self._link, self._node = link, node

    async def run(
        self,
        words: Sequence[str],
        *,
        write: Write,
        stdin: AsyncIterator[bytes] | None = None,
        sizes: AsyncIterator[tuple[int, int]] | None = None,
        term: str = "",
    ) -> int:
        """Run the node's own ``syncpod`` with these words; return its exit code.

        `sizes` yields the columns and rows of our terminal, at the start and on each change. With it, the command has a
        terminal of the kind `term`. Raises Failure if the node refuses, or the connection breaks.
        """
        if why := why_not_direct(tuple(words)):
            raise Failure(why)
        first = await anext(sizes) if sizes is not None else None
        begin = Begin(words=tuple(words), with_input=stdin is not None, terminal=first, term=term)
        sending = []
        if stdin is not None:
            sending.append(self._give(stdin))
        if sizes is not None:
            sending.append(self._resize(sizes))
        outputs = {STDOUT: Output.STDOUT} if sizes is not None else {STDOUT: Output.STDOUT, STDERR: Output.STDERR}
        taking = [self._take(number, which, write) for number, which in outputs.items()]
        ended = await self._ask(begin, sending, taking)
        if ended.refused:
            raise Failure(ended.refused)
        return ended.code if 0 <= ended.code < 256 else 1

    async def forward(self, connected: Connected, forward: Forward) -> None:
        """Forward a connection to a port of a pod until the connection ends.

        Raises ForwardingOver if the pod is gone, so that no further connection can be forwarded to it; Failure for
        another refusal; and OSError if our end breaks.
        """

        async def give() -> None:
            while data := await connected.read():
                await self._link.write(INPUT, data)
            await self._link.end(INPUT)

        async def take() -> None:
            while data := await self._link.read(STDOUT):
                await connected.write(data)
            if not self._link.is_over:
                await connected.finish()

        ended = await self._ask(Begin(forward=forward), [give()], [take()])
        if ended.is_pod_gone:
            raise ForwardingOver(ended.refused)
        if ended.refused:
            raise Failure(ended.refused)

    async def _ask(
        self, begin: Begin, sending: list[Coroutine[Any, Any, None]], taking: list[Coroutine[Any, Any, None]]
    ) -> Ended:
        """Return the node's answer, once all output is written. Raises Failure, and the errors of our own streams."""
        senders = [asyncio.create_task(_until_gone(each)) for each in sending]
        takers = [asyncio.create_task(_until_gone(each)) for each in taking]
        answer = asyncio.create_task(self._answer(begin))
        pending: set[asyncio.Future[Any]] = {answer, *takers, *senders}
        try:
            while not answer.done() or not (answer.result().refused or all(each.done() for each in takers)):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            return answer.result()
        finally:
            for task in (answer, *takers, *senders):
                task.cancel()
            await asyncio.gather(answer, *takers, *senders, return_exceptions=True)

    async def _answer(self, begin: Begin) -> Ended:
        try:
            await self._link.tell(begin.model_dump_json())
            return Ended.model_validate_json(await self._link.message())
        except PeerGone:
            raise Failure(f"the connection to node {self._node} broke; the command is ended there") from None
        except ValueError:
            raise Failure(f"the answer of node {self._node} cannot be read") from None

    async def _take(self, number: int, which: Output, write: Write) -> None:
        while data := await self._link.read(number):
            await write(which, data)

    async def _give(self, stdin: AsyncIterator[bytes]) -> None:
        async for data in stdin:
            await self._link.write(INPUT, data)
        await self._link.end(INPUT)

    async def _resize(self, sizes: AsyncIterator[tuple[int, int]]) -> None:
        async for columns, rows in sizes:
            await self._link.tell(Resized(columns=columns, rows=rows).model_dump_json())


async def _until_gone(work: Coroutine[Any, Any, None]) -> None:
    """Await the work. A lost connection is ignored: the task that waits for the node's answer reports it."""
    with contextlib.suppress(PeerGone):
        await work


@asynccontextmanager
async def to_endpoint(state_dir: str, node: FleetNodeView, what: str) -> AsyncIterator[Way]:
    """Connect to a node's endpoint for `what`, which cannot go through the node's polls. Raises Failure."""
    if not node.endpoint:
        raise Failure(
            f"{what} needs a node that listens, and {node.name} does not: "
            "run `syncpod join --listen ADDRESS:PORT` there"
        )
    try:
        async with reached(state_dir, node, _ONLY_WAY_SECONDS) as way:
            yield way
    except EndpointUnreachable as why:
        raise Failure(f"{what} needs the node's own endpoint, and {why}") from None


@asynccontextmanager
async def reached(state_dir: str, node: FleetNodeView, patience: float = _CONNECT_SECONDS) -> AsyncIterator[Way]:
    """Connect to a node's endpoint, check its certificate, and wait for its greeting. Raises EndpointUnreachable.

    `state_dir` is the fleet's state directory; "" = this user's. `patience` is in seconds.
    """
    fleet, context, hello = await asyncio.to_thread(_credentials, state_dir, node)
    writer: asyncio.StreamWriter | None = None
    hearing: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(patience):
                host, _, port = node.endpoint.rpartition(":")
                reader, writer = await asyncio.open_connection(
                    host.strip("[]"), int(port), ssl=context, server_hostname=hello
                )
                _require_node(fleet, node, writer)
                link = Multiplex(reader, writer, [STDOUT, STDERR])
                hearing = asyncio.create_task(link.run())
                await _greeted(link, node)
        except (OSError, TimeoutError) as error:  # an ssl.SSLError is an OSError
            raise EndpointUnreachable(
                f"node {node.name} cannot be reached at {node.endpoint}: {_reason(error, patience)}"
            ) from None
        yield Way(link, node.name)
    finally:
        if hearing is not None:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
        if writer is not None:
            writer.transport.abort()


def _credentials(state_dir: str, node: FleetNodeView) -> tuple[Fleet, ssl.SSLContext, str]:
    """Return the fleet, our TLS context, and the server name to send. Blocks. Raises EndpointUnreachable."""
    if not is_address(node.endpoint):
        raise EndpointUnreachable(f"the endpoint of node {node.name} is {node.endpoint[:80]!r}, which is no address")
    try:
        fleet = open_fleet(fleet_directory(settings(state_dir=state_dir).state_dir), now())
        if fleet.id != node.fleet:
            raise EndpointUnreachable(
                f"{fleet.directory} has the authority of another fleet than node {node.name} belongs to"
            )
        return fleet, _tls(fleet), _hello(fleet, node.name)
    except (SettingsInvalid, OSError) as wrong:
        raise EndpointUnreachable(f"the fleet's authority cannot be used: {sentence_of(wrong)}") from None


def _tls(fleet: Fleet) -> ssl.SSLContext:
    pair = fleet.issue_commander(now())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate has no address; `_require_node` checks its name
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    with memory_file(fleet.trusted_pem()) as path:
        context.load_verify_locations(cafile=path)
    with memory_file(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)
    return context


def _hello(fleet: Fleet, node: str) -> str:
    """Return the TLS server name to send: the one made of the serial number of the node's newest certificate.

    By it, the node recognises us before it spends any work on TLS (:func:`syncpod.gate.hello.hello_name`).
    """
    valid = [each for each in fleet.issued() if each.node == node and not each.revoked]
    newest = max(valid, key=lambda each: each.issued, default=None)
    return hello_name(int(newest.serial, 16), fleet.server_name) if newest is not None else fleet.server_name


def _require_node(fleet: Fleet, node: FleetNodeView, writer: asyncio.StreamWriter) -> None:
    """Raise EndpointUnreachable unless the other end has shown a certificate that the fleet issued for this node."""
    shown = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(True))
    if node_of(shown, fleet.id) != node.name or not fleet.has_issued(f"{shown.serial_number:x}"):
        raise EndpointUnreachable(f"the listener at {node.endpoint} is not node {node.name}")


async def _greeted(link: Multiplex, node: FleetNodeView) -> None:
    """Wait for the node's greeting, which it sends once it has accepted us. Raises EndpointUnreachable."""
    try:
        Hello.model_validate_json(await link.message())
    except (PeerGone, ValueError):
        raise EndpointUnreachable(
            f"node {node.name} does not let us in at {node.endpoint} (its worker's log says why)"
        ) from None


def _reason(error: OSError, patience: float) -> str:
    """Return why there is no connection, in a few words."""
    if said := getattr(error, "verify_message", ""):
        return str(said)
    if not error.args:
        return f"it does not answer within {patience:g} s"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()  # asyncio adds the address to the text, in its own words
    return str(error) or type(error).__name__
