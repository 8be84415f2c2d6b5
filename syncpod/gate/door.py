"""The door of the gate: it terminates TLS, and records which node each connection belongs to.

It listens for nodes, checks the certificate of each, and passes bytes to a gRPC server on a unix socket in a directory
that only the gate's user may enter. gRPC identifies a call's connection by the name of the socket that the call comes
from. So the door gives each of its sockets a name, and remembers which node the name stands for. In this way the gate
can count a node's connections, and end them as soon as its certificate is revoked. gRPC's own TLS offers neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import socket
import ssl
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from syncpod.gate.authority import Fleet, node_of
from syncpod.gate.bounds import NodeBounds
from syncpod.gate.handshakes import HANDSHAKE_SECONDS, Client, ConnectionRoom, Handshakes, accept, listen, refusal_of
from syncpod.gate.hello import hello_name
from syncpod.gate.refusals import Refusals
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.http2_frames import Frames, HeadersTooLarge
from syncpod.settings.values import SettingsInvalid

log = logging.getLogger(__name__)

ROOM: Final = ConnectionRoom(
    silent=1024,
    silent_of_one_address=512,
    handshakes=512,
    handshakes_of_one_address=128,
    of_one_address=4096,
)
FIRST_SECONDS = 10.0
"""Seconds within which a node must make its first call."""
LOOK_SECONDS: Final = 0.5
"""Seconds between two checks of the fleet's files; a revocation takes effect within this time."""
_RENEW: Final = timedelta(hours=12)
"""The gate makes itself a new certificate after this time by the wall clock. Nodes check the certificate by that clock,
which also runs while the machine is suspended."""
_BLOCK: Final = 64 * 1024


@dataclass(frozen=True)
class NodeConnection:
    """A connection of a node."""

    node: str
    serial: str
    not_after: datetime
    address: str
    """The address of the node's machine."""
    is_dismissed: bool = False
    """The node was removed from the fleet while it was away: the gate answers that it was removed, and nothing else."""


class Door:
    """Listens for nodes of the fleet, and forwards their bytes to gRPC."""

    def __init__(
        self, fleet: Fleet, names: list[str], bounds: NodeBounds, refusals: Refusals, directory: Path, behind: str
    ) -> None:
        """Begin closed. `directory` is the gate's own, for the files of TLS; `behind` is gRPC's socket."""
        self._fleet, self._names, self._bounds, self._refusals = fleet, names, bounds, refusals
        self._directory, self._behind = directory, behind
        self._connections: dict[str, tuple[NodeConnection, Callable[[], None]]] = {}
        """Each connection, and the function that ends it, by the name of its socket behind the door."""
        self._handshakes = Handshakes(ROOM.within_descriptors(), self._refused, lambda name: self._hellos.get(name, ""))
        self._name, self._numbers = f"syncpod-gate-{secrets.token_hex(8)}", itertools.count(1)
        self._seen, self._issued = fleet.changed(), fleet.issued_changed()
        self._context, self._revoked, self._dismissed = self._read()
        self._hellos = self._read_hellos()
        self._listener: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._served: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        self._listener = listen(host, port)
        self._listener.setblocking(False)
        accepting = accept(self._listener, self._handshakes, self._serve, self._served)
        self._tasks += [asyncio.create_task(accepting), asyncio.create_task(self._look())]
        return int(self._listener.getsockname()[1])

    async def failed(self) -> None:
        """Wait until the door fails, and raise the reason. The caller must then close the door."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Close the door and all connections."""
        for task in (*self._tasks, *self._served):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._served, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def connection(self, peer: str) -> NodeConnection | None:
        """Return the connection of a call by the peer's name in gRPC; None if it has ended."""
        found = self._connections.get(peer)
        return found[0] if found is not None and self._counts(found[0]) else None

    def _read(self) -> tuple[ssl.SSLContext, frozenset[str], frozenset[str]]:
        """Return a TLS context from the fleet's present files, the revoked serials, and the dismissed serials.

        Blocks. Raises SettingsInvalid, OSError (an ssl.SSLError is one).
        """
        pair = self._fleet.issue_gate(self._names, datetime.now(UTC))
        own, trusted = self._directory / "gate.pem", self._directory / "trusted.pem"
        replace_file(own, pair.certificate + pair.key, durable=False)
        replace_file(trusted, self._fleet.trusted_pem(), durable=False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        # Without its list, an authority's certificates are not trusted.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        context.load_cert_chain(own)
        context.load_verify_locations(cafile=trusted)
        # The server offers only this group: a client might choose a finite-field one, which costs 130 ms of each
        # handshake.
        context.set_ecdh_curve("prime256v1")
        context.set_alpn_protocols(["h2"])
        context.num_tickets = 0  # a resumed session would not show its certificate again
        issued = self._fleet.issued()
        dismissed = frozenset(each.serial for each in issued if each.dismissed)
        return context, frozenset(each.serial for each in issued if each.revoked) - dismissed, dismissed

    def _read_hellos(self) -> dict[str, str]:
        """Return the node of each valid certificate, by the name that the node requests in its hello.

        Blocks, and raises as `_read`. Dismissed certificates are included: their nodes must connect to learn of their
        removal.
        """
        valid = (each for each in self._fleet.issued() if each.dismissed or not each.revoked)
        return {hello_name(int(each.serial, 16), self._fleet.server_name): each.node for each in valid}

    async def _look(self) -> None:
        """Read the fleet's files when they change, and end connections whose certificates are not valid any more."""
        read_at, complained = datetime.now(UTC), False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                changed = await asyncio.to_thread(self._fleet.changed)
                issued = await asyncio.to_thread(self._fleet.issued_changed)
                has_changed = changed != self._seen or abs(datetime.now(UTC) - read_at) > _RENEW
                if has_changed or issued != self._issued:
                    self._hellos, self._issued = await asyncio.to_thread(self._read_hellos), issued
                if has_changed:
                    self._context, self._revoked, self._dismissed = await asyncio.to_thread(self._read)
                    self._seen, read_at = changed, datetime.now(UTC)
                complained = False
            except (SettingsInvalid, OSError) as error:
                if not complained:
                    log.warning("the fleet's certificates cannot be read, so the earlier ones stay in use: %s", error)
                complained = True
            for connection, end in list(self._connections.values()):
                if self._counts(connection):
                    continue
                node, serial = connection.node, connection.serial
                log.warning("node %s: connection ended: its certificate %s is not valid any more", node, serial)
                end()

    def _counts(self, connection: NodeConnection) -> bool:
        if connection.serial in self._revoked or connection.not_after <= datetime.now(UTC):
            return False
        # A dismissed node's polls must end, so that it connects again and learns of its removal.
        return connection.is_dismissed == (connection.serial in self._dismissed)

    def _refused(self, address: str, why: str) -> None:
        self._refusals.refused("unknown", f"connection from {address}", why)

    async def _serve(self, taken: socket.socket, client: Client) -> None:
        loop = asyncio.get_running_loop()
        reader = StreamReader(limit=_BLOCK)
        protocol = StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, taken, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # an ssl.SSLError is one too
            # asyncio sends no alert to the client, so only this log says why.
            self._refusals.refused("unknown", f"handshake from {client.address}", refusal_of(error))
            return
        finally:
            self._handshakes.end(_this_task())
        try:
            shown: Any = transport.get_extra_info("ssl_object")
            connection = self._connection_of(shown.getpeercert(binary_form=True), client.address)
            # The certificate may have been revoked during the handshake.
            if connection is None or not self._counts(connection):
                return
            if sentence := self._bounds.connected(connection.node, loop.time()):
                self._refusals.refused(connection.node, "connection", sentence)
                return
            self._handshakes.let_in(client, loop.time())
            try:
                await self._connect(connection, reader, StreamWriter(transport, protocol, reader, loop))
            finally:
                self._bounds.disconnected(connection.node)
        finally:
            transport.abort()

    def _connection_of(self, shown: bytes | None, address: str) -> NodeConnection | None:
        try:
            certificate = x509.load_der_x509_certificate(shown or b"")
        except ValueError:
            return None
        node, serial = node_of(certificate, self._fleet.id), f"{certificate.serial_number:x}"
        if node is None or not self._fleet.has_issued(serial):
            return None
        return NodeConnection(node, serial, certificate.not_valid_after_utc, address, serial in self._dismissed)

    async def _connect(self, connection: NodeConnection, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass bytes both ways until one side closes, or the certificate expires or is revoked."""
        name = f"{self._name}-{next(self._numbers)}"
        # A name in the abstract namespace: gRPC reports it as the peer, and nobody can connect to it.
        near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        ways: list[asyncio.Task[None]] = []
        behind: StreamWriter | None = None

        def end() -> None:
            self._connections.pop(f"unix-abstract:{name}", None)
            for way in ways:
                way.cancel()

        self._connections[f"unix-abstract:{name}"] = connection, end
        try:
            near.bind(f"\0{name}")
            await asyncio.get_running_loop().sock_connect(near, self._behind)
            answers, behind = await asyncio.open_unix_connection(sock=near)
            ways += [
                asyncio.create_task(self._pass_in(connection.node, reader, behind)),
                asyncio.create_task(_pass_on(answers, writer)),
            ]
            if f"unix-abstract:{name}" in self._connections:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except OSError:  # the gate is just stopping
            near.close()
        finally:
            end()
            await asyncio.gather(*ways, return_exceptions=True)
            if behind is not None:
                behind.transport.abort()

    async def _pass_in(self, node: str, reader: StreamReader, writer: StreamWriter) -> None:
        """Forward a node's bytes for as long as the node keeps to its limits."""
        try:
            async with asyncio.timeout(FIRST_SECONDS) as until_its_first_call:
                sentence = await self._pass_rightful(node, reader, writer, until_its_first_call)
        except TimeoutError:
            sentence = f"it made no call within {FIRST_SECONDS:g} seconds"
        if sentence:
            self._refusals.refused(node, "connection closed", sentence)

    async def _pass_rightful(
        self, node: str, reader: StreamReader, writer: StreamWriter, until_its_first_call: asyncio.Timeout
    ) -> str:
        """Forward a node's bytes; return "" when they end, or why the connection is closed."""
        frames, clock = Frames(), asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while block := await reader.read(_BLOCK):
                try:
                    counted = frames.read(block)
                except HeadersTooLarge as why:
                    return str(why)
                if sentence := self._bounds.sent(node, counted, clock()):
                    return sentence
                if counted.calls:
                    until_its_first_call.reschedule(None)
                writer.write(block)
                await writer.drain()
        return ""


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
