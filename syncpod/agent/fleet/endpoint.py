"""The node's own endpoint, at which the fleet's commands reach the node directly.

The endpoint runs the same commands as the node's polls of the fleet's server do, but streams their input and output.

The node listens only if its settings name an address. Mutual TLS 1.3: the node presents its invitation's certificate,
and accepts only clients with a commander's certificate. The fleet's authority issues that certificate for some minutes.
Each connection carries one command, or one connection to a port of a pod, and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cryptography import x509

from syncpod.agent.background import cancel_all
from syncpod.agent.fleet.endpoint_command import run_command
from syncpod.gate.authority import is_commander
from syncpod.gate.handshakes import HANDSHAKE_SECONDS, Client, ConnectionRoom, Handshakes, accept, listen, refusal_of
from syncpod.gate.hello import hello_name
from syncpod.gate.refusals import Refusals
from syncpod.kernel.memory_file import memory_file
from syncpod.messages.endpoint import INPUT, Begin, Ended, Forward, Hello, why_not_direct
from syncpod.settings.invitation import Invitation
from syncpod.streaming.multiplex import Multiplex, PeerGone

log = logging.getLogger(__name__)

COMMANDS: Final = 32
"""The most concurrent commands. Each is a process."""
CONNECTIONS: Final = 128
"""The most concurrent connections to ports of pods."""
ROOM: Final = ConnectionRoom(
    silent=128, silent_of_one_address=64, handshakes=64, handshakes_of_one_address=32, of_one_address=256
)
_FIRST_SECONDS: Final = 10.0
"""Seconds that a client may take to send its request."""
_LAST_SECONDS: Final = 60.0
"""Seconds that a client may take to receive the end of an answer before the connection is closed."""

Carry = Callable[[Multiplex, Forward], Awaitable[Ended]]
"""Forwards a connection to a port of a pod until the connection ends."""


class Endpoint:
    """The listener for the fleet's commands. All methods belong to one event loop."""

    def __init__(self, invitation: Invitation, environment: Mapping[str, str], carry: Carry) -> None:
        """Run commands with `environment`, and forward connections with `carry`.

        Blocks briefly. Raises OSError (an ssl.SSLError is one).
        """
        self._environment, self._carry = environment, carry
        self._handshakes, self._refusals = Handshakes(ROOM.within_descriptors(), self._refused, self._known), Refusals()
        self._commands = self._connections = 0
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._served: set[asyncio.Task[None]] = set()
        self.port = 0
        """The port on which it listens; 0 before `start`."""
        self.show(invitation)

    def show(self, invitation: Invitation) -> None:
        """Present the certificate of this invitation from now on. It must be for the same node and fleet.

        Running commands continue. Blocks briefly. Raises OSError (an ssl.SSLError is one).
        """
        self._tls, self._node, self._fleet = _tls(invitation), invitation.node, invitation.fleet
        serial = x509.load_pem_x509_certificate(invitation.certificate.encode()).serial_number
        self._hello = hello_name(serial, invitation.server_name)

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        self._listener = listen(host, port)
        self._listener.setblocking(False)
        accepting = accept(self._listener, self._handshakes, self._serve, self._served)
        self._accepting = asyncio.create_task(accepting)
        self.port = int(self._listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end all commands and connections."""
        tasks = [*self._served, *([self._accepting] if self._accepting is not None else [])]
        await cancel_all(tasks)
        if self._listener is not None:
            self._listener.close()

    def _known(self, name: str) -> str:
        """Return "of the fleet" if the TLS server name is the hello name, which only fleet and node have; else ""."""
        return "of the fleet" if name == self._hello else ""

    async def _serve(self, taken: socket.socket, client: Client) -> None:
        loop, this = asyncio.get_running_loop(), asyncio.current_task()
        assert this is not None
        reader = StreamReader()
        protocol = StreamReaderProtocol(reader)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, taken, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # an ssl.SSLError is one too
            # asyncio sends no alert to the client, so only this log has the reason.
            self._refused(client.address, refusal_of(error))
            return
        finally:
            self._handshakes.end(this)
        try:
            shown: Any = transport.get_extra_info("ssl_object")
            if not _is_let_in(shown.getpeercert(True), self._fleet):
                self._refused(client.address, "its certificate is not that of who commands the fleet")
                return
            self._handshakes.let_in(client, loop.time())
            link = Multiplex(reader, StreamWriter(transport, protocol, reader, loop), [INPUT])
            await self._while_there(link)
        finally:
            transport.abort()

    async def _while_there(self, link: Multiplex) -> None:
        """Answer a connection. Return once the client has received the answer, or has disconnected."""
        hearing, answering = asyncio.create_task(link.run()), asyncio.create_task(self._answer(link))
        try:
            await asyncio.wait({hearing, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done() and answering.exception() is None:
                await asyncio.wait({hearing}, timeout=_LAST_SECONDS)
        finally:
            for task in (hearing, answering):
                task.cancel()
            for outcome in await asyncio.gather(hearing, answering, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, PeerGone):
                    log.error("a command for the fleet failed", exc_info=outcome)

    async def _answer(self, link: Multiplex) -> None:
        """Answer one connection. Raises PeerGone once its other end is gone."""
        await link.tell(Hello(node=self._node).model_dump_json())
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                asked = Begin.model_validate_json(await link.message())
        except TimeoutError:
            return
        except ValueError:
            ended = Ended(refused="the request cannot be read")
        else:
            ended = await (self._forward(link, asked.forward) if asked.forward else self._run(link, asked))
        await link.tell(ended.model_dump_json())

    async def _run(self, link: Multiplex, asked: Begin) -> Ended:
        if why := why_not_direct(asked.words):
            return Ended(refused=why)
        if self._commands >= COMMANDS:
            return Ended(refused=f"node {self._node} runs {COMMANDS} commands over its endpoint: wait until one ends")
        log.info("for the fleet, over the node's endpoint: syncpod %s", asked.words[0])
        self._commands += 1
        try:
            return await run_command(link, asked, self._environment)
        finally:
            self._commands -= 1

    async def _forward(self, link: Multiplex, asked: Forward) -> Ended:
        if self._connections >= CONNECTIONS:
            return Ended(refused=f"node {self._node} forwards {CONNECTIONS} connections: wait until one ends")
        log.info("for the fleet, over the node's endpoint: port %d of pod %.253r", asked.port, asked.pod)
        self._connections += 1
        try:
            return await self._carry(link, asked)
        finally:
            self._connections -= 1

    def _refused(self, address: str, why: str) -> None:
        self._refusals.refused("unknown", f"a connection from {address}", why)


def _is_let_in(shown: bytes | None, fleet: str) -> bool:
    try:
        return is_commander(x509.load_der_x509_certificate(shown or b""), fleet)
    except ValueError:
        return False


def _tls(invitation: Invitation) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=invitation.authorities)
    # Otherwise a client could choose a finite-field group, which costs 130 ms per handshake.
    context.set_ecdh_curve("prime256v1")
    context.num_tickets = 0  # a resumed session would not check the client's certificate again
    with memory_file(invitation.certificate + invitation.key) as path:
        context.load_cert_chain(path)
    return context
