"""The door of the gate: it ends TLS, and knows which node each connection belongs to.

It listens where nodes come, takes the certificate of each, and passes bytes to a gRPC server on a unix socket of a
directory that only the gate's user may enter. gRPC tells a call's connection by the name of the socket that it comes
from. So each connection has a name there, and the name has a node here. The connections of a node can be counted, and
ended at the moment in which its certificate is revoked: gRPC's own TLS offers neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import secrets
import socket
import ssl
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from syncpod.gate.authority import Fleet, node_of
from syncpod.gate.bounds import CONNECTIONS, NodeBounds
from syncpod.gate.refusals import Refusals
from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.errors import SettingsInvalid

log = logging.getLogger(__name__)

HANDSHAKES: Final = 512
"""Connections at once that have not shown a certificate."""
HANDSHAKES_OF_ONE_ADDRESS: Final = 128
"""How many of them may come from one address: a whole site may be behind it, and come back at once."""
PATIENCE_SECONDS: Final = 1.0
"""A handshake older than this is ended for a new one. If none is, the new one is closed: its crowd comes again."""
HANDSHAKE_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.5
"""How long a revocation may take until it counts."""
_RENEW_SECONDS: Final = 12 * 3600.0
"""After this the gate makes itself another certificate."""
_BLOCK: Final = 64 * 1024


@dataclass(frozen=True)
class Guest:
    """A connection of a node."""

    node: str
    serial: str
    not_after: datetime


class Door:
    """Listens, and passes on what nodes of the fleet send."""

    def __init__(
        self, fleet: Fleet, names: list[str], bounds: NodeBounds, refusals: Refusals, directory: Path, behind: str
    ) -> None:
        """`directory` is the gate's own, for the files from which TLS reads; `behind` is gRPC's socket."""
        self._fleet, self._names, self._bounds, self._refusals = fleet, names, bounds, refusals
        self._directory, self._behind = directory, behind
        self._guests: dict[str, tuple[Guest, Callable[[], None]]] = {}
        """By the connection's name behind the door: whose it is, and what ends it."""
        self._handshakes: dict[asyncio.Task[Any], tuple[str, float]] = {}
        """Connections without a certificate yet, the oldest first, their addresses and since when."""
        self._name, self._numbers = f"syncpod-gate-{secrets.token_hex(8)}", itertools.count(1)
        self._seen = fleet.changed()
        self._context, self._revoked = self._read()
        self._listener: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._served: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=512)
        self._listener.setblocking(False)
        self._tasks += [asyncio.create_task(self._accept(self._listener)), asyncio.create_task(self._look())]
        return int(self._listener.getsockname()[1])

    async def failed(self) -> None:
        """Wait until the door can no longer do its work, and raise why. It must not stay open then."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """End, with all connections."""
        for task in (*self._tasks, *self._served):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._served, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def guest(self, peer: str) -> Guest | None:
        """Return whose a call is, by gRPC's name of its connection; None if that has ended."""
        found = self._guests.get(peer)
        return found[0] if found is not None and self._counts(found[0]) else None

    def _read(self) -> tuple[ssl.SSLContext, frozenset[str]]:
        """Return TLS as the fleet's files have it now, and the serials of what no longer counts.

        Blocks. Raises SettingsInvalid, OSError (an ssl.SSLError is one).
        """
        pair = self._fleet.issue_gate(self._names, datetime.now(UTC))
        own, trusted = self._directory / "gate.pem", self._directory / "trusted.pem"
        replace_file(own, pair.certificate + pair.key, durable=False)
        replace_file(trusted, self._fleet.trusted_pem(), durable=False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        # Without its list, an authority's certificates count as nobody's.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        context.load_cert_chain(own)
        context.load_verify_locations(cafile=trusted)
        context.set_alpn_protocols(["h2"])
        context.num_tickets = 0  # who resumed a session would show no certificate again
        return context, frozenset(each.serial for each in self._fleet.issued() if each.revoked)

    async def _look(self) -> None:
        """Read the fleet's files when they change, and end connections whose certificates no longer count."""
        loop = asyncio.get_running_loop()
        read_at, complained = loop.time(), False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                changed = await asyncio.to_thread(self._fleet.changed)
                if changed != self._seen or loop.time() - read_at > _RENEW_SECONDS:
                    self._context, self._revoked = await asyncio.to_thread(self._read)
                    self._seen, read_at = changed, loop.time()
                complained = False
            except (SettingsInvalid, OSError) as error:
                if not complained:
                    log.warning("the fleet's certificates cannot be read again, what is known goes on: %s", error)
                complained = True
            for guest, end in list(self._guests.values()):
                if self._counts(guest):
                    continue
                log.warning("node %s: a connection ends, its certificate %s no longer counts", guest.node, guest.serial)
                end()

    def _counts(self, guest: Guest) -> bool:
        return guest.serial not in self._revoked and guest.not_after > datetime.now(UTC)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, peer = await loop.sock_accept(listener)
            except OSError as error:  # such as no descriptor left: those that are open go on
                log.warning("a connection cannot be accepted: %s", error)
                await asyncio.sleep(1)
                continue
            address = _machine(peer[0])
            if not self._make_room(address, loop.time()):
                taken.close()
                continue
            task = asyncio.create_task(self._serve(taken, address))
            self._handshakes[task] = address, loop.time()
            self._served.add(task)
            task.add_done_callback(self._served.discard)
            await asyncio.sleep(0)  # an accept that succeeds at once lets nothing else run

    def _make_room(self, address: str, now: float) -> bool:
        """Say whether there is room for one more handshake; the oldest one that waited too long ends for it."""
        waiting = [task for task, (place, _) in self._handshakes.items() if place == address]
        if len(waiting) < HANDSHAKES_OF_ONE_ADDRESS:
            if len(self._handshakes) < HANDSHAKES:
                return True
            waiting = list(self._handshakes)
        _, since = self._handshakes[waiting[0]]
        if now - since < PATIENCE_SECONDS:
            return False
        self._handshakes.pop(waiting[0])
        waiting[0].cancel()
        return True

    async def _serve(self, taken: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        reader = StreamReader(limit=_BLOCK)
        protocol = StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, taken, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # an ssl.SSLError is one too
            # asyncio sends no alert, so only this log says why.
            self._refusals.refused("unknown", f"handshake from {address}", _reason(error), loop.time())
            return
        finally:
            self._handshakes.pop(_this_task(), None)
        try:
            shown: Any = transport.get_extra_info("ssl_object")
            guest = self._guest(shown.getpeercert(binary_form=True))
            # Within the handshake it may have been revoked.
            if guest is None or not self._counts(guest):
                return
            if not self._bounds.connected(guest.node):
                sentence = f"a node may have {CONNECTIONS} connections at once"
                self._refusals.refused(guest.node, "connection", sentence, loop.time())
                return
            try:
                await self._connect(guest, reader, StreamWriter(transport, protocol, reader, loop))
            finally:
                self._bounds.disconnected(guest.node)
        finally:
            transport.abort()

    def _guest(self, shown: bytes | None) -> Guest | None:
        try:
            certificate = x509.load_der_x509_certificate(shown or b"")
        except ValueError:
            return None
        node, serial = node_of(certificate, self._fleet.id), f"{certificate.serial_number:x}"
        if node is None or not self._fleet.has_issued(serial):
            return None
        return Guest(node, serial, certificate.not_valid_after_utc)

    async def _connect(self, guest: Guest, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass bytes both ways until one side ends, or the certificate does."""
        name = f"{self._name}-{next(self._numbers)}"
        # A name in the abstract namespace: gRPC hears of it, and nobody can connect to it.
        near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        ways: list[asyncio.Task[None]] = []
        behind: StreamWriter | None = None

        def end() -> None:
            self._guests.pop(f"unix-abstract:{name}", None)
            for way in ways:
                way.cancel()

        self._guests[f"unix-abstract:{name}"] = guest, end
        try:
            near.bind(f"\0{name}")
            await asyncio.get_running_loop().sock_connect(near, self._behind)
            answers, behind = await asyncio.open_unix_connection(sock=near)
            ways += [asyncio.create_task(_pass_on(reader, behind)), asyncio.create_task(_pass_on(answers, writer))]
            if f"unix-abstract:{name}" in self._guests:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except OSError:  # the gate ends just now
            near.close()
        finally:
            end()
            await asyncio.gather(*ways, return_exceptions=True)
            if behind is not None:
                behind.transport.abort()


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()


def _reason(error: OSError) -> str:
    said = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or "it ended"
    return str(said).lower().replace("_", " ")


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _machine(host: str) -> str:
    """Return the address of whoever connects; for IPv6 its /64, since one machine has many addresses there."""
    address = ipaddress.ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address if address.version == 4 else ipaddress.IPv6Network(f"{address}/64", strict=False))
