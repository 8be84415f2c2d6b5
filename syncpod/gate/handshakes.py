"""Limits TLS handshakes, so that clients that send nothing, or fail again and again, do not keep others out.

A connection takes two steps until its client has shown a certificate. First the client sends its hello
(:mod:`syncpod.gate.hello`), for which the server computes nothing. If too many connections have sent nothing, the
oldest is ended for each new one. Then the server computes its part of the handshake. A node that the hello names has a
budget of its own, so it gets in even while others at its address fail without end. All other clients of an address
share one budget.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from syncpod.gate.hello import requested_name
from syncpod.kernel.callers import Budget, machine_of
from syncpod.kernel.listening import BACKLOG

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 1.0
"""A handshake that is older than this may be ended in favor of a new one. If none is older, the new one is closed."""
HANDSHAKE_SECONDS: Final = 10.0
"""Maximum seconds of a handshake."""
FAILURES_PER_SECOND: Final = 16
"""Maximum failed handshakes from one address per second, on average."""
FAILURES_BURST: Final = 256
"""Maximum failed handshakes from one address in one burst. Any further connection is closed before its handshake."""
FAILURES_OF_ONE_PER_SECOND: Final = 1
"""Maximum failed handshakes with the hello of one certificate per second, on average."""
FAILURES_OF_ONE_BURST: Final = 64
HANDSHAKES_OF_ONE: Final = 16
"""Maximum concurrent handshakes with the hello of one certificate."""
SILENT: Final = "it sent nothing"
_DESCRIPTORS_OF_ONE_ADDRESS: Final = 8
"""One address may have one connection for every eight descriptors of the process. A connection takes three descriptors:
one for the client, and two for the socket behind the door."""


@dataclass(frozen=True)
class ConnectionRoom:
    """The maximum numbers of a server's connections, by their state."""

    silent: int
    """Connections that have not sent their hello."""
    silent_of_one_address: int
    handshakes: int
    """Handshakes of clients whose hello names no node."""
    handshakes_of_one_address: int
    """Handshakes of one address. A whole site may share an address, and reconnect at once."""
    of_one_address: int
    """Connections of one address, whatever their state."""

    def within_descriptors(self) -> ConnectionRoom:
        """Return these maximums, each cut to its share of the descriptors that the process may have open now."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = most if most != resource.RLIM_INFINITY else 2**20
        part = max(16, most // _DESCRIPTORS_OF_ONE_ADDRESS)
        return ConnectionRoom(
            min(self.silent, part),
            min(self.silent_of_one_address, part // 4),
            min(self.handshakes, part),
            min(self.handshakes_of_one_address, part // 4),
            min(self.of_one_address, part),
        )


@dataclass(frozen=True)
class Client:
    """A client that has sent its hello."""

    address: str
    """The address of the client's machine."""
    who: str
    """The owner of its handshake's budget: the node that its hello names, or else its address."""


Serve = Callable[[socket.socket, Client], Coroutine[Any, Any, None]]
"""Serves a connection after its hello, until its end. It owns the socket."""


class Handshakes:
    """The connections that have not shown a certificate yet. All methods belong to one event loop."""

    def __init__(self, room: ConnectionRoom, refused: Callable[[str, str], None], known: Callable[[str], str]) -> None:
        """`refused` is called with the address of a connection that is closed before its handshake, and the reason.

        `known` returns the node that the name in a hello stands for; "" = none.
        """
        self.refused = refused
        self._room, self._known = room, known
        self._silent: defaultdict[str, dict[asyncio.Task[Any], None]] = defaultdict(dict)
        """For each address, the connections that have sent nothing, the oldest first."""
        self._silences = 0
        self._waiting: dict[asyncio.Task[Any], tuple[Client, float]] = {}
        """Handshakes, the oldest first, with the time at which each began."""
        self._open: Counter[str] = Counter()
        """Connections by address."""
        self._failed = Budget(FAILURES_PER_SECOND, FAILURES_BURST)
        self._failed_of_known = Budget(FAILURES_OF_ONE_PER_SECOND, FAILURES_OF_ONE_BURST)

    def __len__(self) -> int:
        """Return the number of connections that have not shown a certificate."""
        return self._silences + len(self._waiting)

    def arrive(self, task: asyncio.Task[Any], address: str) -> bool:
        """Count a connection that has sent nothing yet, and return whether there is room for it. `left` ends the count.

        If this address has too many such connections, its oldest one is ended. If all addresses together have too many,
        the oldest one of the address with the most is ended.
        """
        self._open[address] += 1
        if self._open[address] > self._room.of_one_address:
            self.refused(address, f"one address may have at most {self._room.of_one_address} connections at once")
            return False
        if len(self._silent.get(address, ())) >= self._room.silent_of_one_address:
            self._end_oldest(address)
        elif self._silences >= self._room.silent:
            self._end_oldest(max(self._silent, key=lambda each: len(self._silent[each])))
        self._silent[address][task] = None
        self._silences += 1
        return True

    def begin(self, task: asyncio.Task[Any], address: str, name: str, now: float) -> Client | None:
        """Count the handshake of a client that has sent its hello; return the client, or None if it must not begin.

        If there are too many handshakes, the oldest is ended if it is older than PATIENCE_SECONDS; else the new one
        must not begin. A handshake that begins counts as failed until `let_in`.
        """
        self._has_spoken(task, address)
        known = self._known(name) if name else ""
        client = Client(address, f"node {known}" if known else address)
        rivals = [each for each, (other, _) in self._waiting.items() if other.who == client.who]
        if len(rivals) < (HANDSHAKES_OF_ONE if known else self._room.handshakes_of_one_address):
            strangers = [each for each, (other, _) in self._waiting.items() if other.who == other.address]
            rivals = [] if known or len(strangers) < self._room.handshakes else strangers
        if rivals and now - self._waiting[rivals[0]][1] < PATIENCE_SECONDS:
            self.refused(address, "it has too many handshakes at once")
            return None
        if not (self._failed_of_known if known else self._failed).spend(client.who, now):
            self.refused(address, "too many of its handshakes have failed")
            return None
        if rivals:
            self._waiting.pop(rivals[0])
            rivals[0].cancel()
        self._waiting[task] = client, now
        return client

    def let_in(self, client: Client, now: float) -> None:
        """Record that a connection has shown a valid certificate."""
        (self._failed if client.who == client.address else self._failed_of_known).give_back(client.who, now)

    def end(self, task: asyncio.Task[Any]) -> None:
        """Record that a task's handshake is over, however it ended."""
        self._waiting.pop(task, None)

    def left(self, task: asyncio.Task[Any], address: str) -> None:
        """Record that a connection has ended."""
        self._has_spoken(task, address)
        self.end(task)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def _has_spoken(self, task: asyncio.Task[Any], address: str) -> None:
        silent = self._silent.get(address, {})
        if task in silent:
            del silent[task]
            self._silences -= 1
        if not silent:
            self._silent.pop(address, None)

    def _end_oldest(self, address: str) -> None:
        oldest = next(iter(self._silent[address]))
        self._has_spoken(oldest, address)
        oldest.cancel()
        self.refused(address, SILENT)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; at ``::`` for IPv4 too, where the kernel can. Raises OSError."""
    both = host == "::" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=BACKLOG)


async def accept(
    listener: socket.socket, handshakes: Handshakes, serve: Serve, served: set[asyncio.Task[None]]
) -> None:
    """Accept connections forever, while there is room for their handshakes, and serve each in a task of its own.

    `serve` gets a connection that has sent its hello, owns its socket, and ends its handshake. The tasks are in
    `served` until they end.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            taken, peer = await loop.sock_accept(listener)
        except OSError as error:  # such as no descriptor left: open connections go on
            log.warning("a connection cannot be accepted: %s", error.strerror)
            await asyncio.sleep(1)
            continue
        arrived = _Arrived(taken, machine_of(peer[0]), handshakes, serve)
        task = asyncio.create_task(arrived.hear())
        if handshakes.arrive(task, arrived.address):
            served.add(task)
            task.add_done_callback(served.discard)
        else:
            task.cancel()
        task.add_done_callback(arrived.left)
        await asyncio.sleep(0)  # an accept that succeeds at once does not let other tasks run


class _Arrived:
    """A connection from its beginning."""

    def __init__(self, taken: socket.socket, address: str, handshakes: Handshakes, serve: Serve) -> None:
        self.address = address
        self._taken, self._handshakes, self._serve = taken, handshakes, serve
        self._is_ours = True
        """True if this object closes the socket. It must not close the socket of a transport: asyncio would mistake the
        next socket with the same descriptor for it."""

    async def hear(self) -> None:
        """Wait for the client's hello, and serve it."""
        this = asyncio.current_task()
        assert this is not None
        try:
            name = await requested_name(self._taken)
        except TimeoutError:
            self._handshakes.refused(self.address, SILENT)
            return
        except OSError as error:
            self._handshakes.refused(self.address, refusal_of(error))
            return
        client = self._handshakes.begin(this, self.address, name, asyncio.get_running_loop().time())
        if client is not None:
            self._is_ours = False
            await self._serve(self._taken, client)

    def left(self, task: asyncio.Task[None]) -> None:
        """Record that the connection has ended, also if its task was cancelled before it began."""
        self._handshakes.left(task, self.address)
        if self._is_ours:
            self._taken.close()


def refusal_of(error: OSError) -> str:
    """Return why a handshake failed, for the log."""
    said = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or "it ended"
    return str(said).lower().replace("_", " ")
