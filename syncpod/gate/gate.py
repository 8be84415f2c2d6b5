"""The gate: a gRPC server in front of the fleet's Temporal server. It identifies and checks each node's calls.

A restart loses nothing: the gate keeps nothing of value in memory. When a node cancels a poll, the gate cancels its own
poll at the server too. Otherwise the server would give the node a task that nobody receives, and the task would wait
for its timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import grpc

from syncpod.gate.authority import Fleet
from syncpod.gate.bounds import CALLS, NodeBounds
from syncpod.gate.calls import GREETING, POLL, CallRefused, CallUnreadable, Forwarded, NodeCalls, unknown
from syncpod.gate.door import Door, NodeConnection
from syncpod.gate.introduction import Introductions
from syncpod.gate.machines import Machines
from syncpod.gate.ownership import Ownership
from syncpod.gate.refusals import Refusals
from syncpod.gate.tokens import task_tokens
from syncpod.kernel.http2_frames import GRPC_OPTIONS
from syncpod.messages.fleet import MACHINE_HEADER, dismissal, used_elsewhere
from syncpod.messages.signature import Keys
from syncpod.settings.directories import FLEET
from syncpod.settings.values import SettingsInvalid

log = logging.getLogger(__name__)

DIRECTORY: Final = "gate"
"""The directory for the gate's own files, in the fleet's directory."""
_SOCKET: Final = "gate.sock"
_LARGEST: Final = 4 * 2**20
"""Maximum bytes of a request: twice Temporal's limit of one payload."""
READ_AT_ONCE: Final = 4
"""Maximum number of requests of one node that are read at once."""
READ_SECONDS = 10.0
"""Seconds within which a call's message must arrive."""
_LARGEST_ANSWER: Final = 16 * 2**20
_PASSED_ON: Final = ("client-name", "client-version", "supported-server-versions")
"""Metadata that the gate passes on with a node's request. It leaves out metadata that a server may trust, such as
authorization."""
_DETAILS: Final = "grpc-status-details-bin"
_SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.max_send_message_length", _LARGEST_ANSWER),
    ("grpc.max_concurrent_streams", CALLS),
    # Detects a node that is cut off, so that its polls are given up.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # this limit decides, and its default is 60 s
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # During a poll, a worker sends a ping every 30 seconds, and receives only the replies.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    *GRPC_OPTIONS,
)
_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_ANSWER),
    ("grpc.max_send_message_length", _LARGEST_ANSWER),
)
_OWN_SECONDS: Final = 10.0
"""Timeout in seconds of the gate's own calls."""
_AWAY: Final = "the fleet's server cannot be reached"
_OTHERS: Final = "the server behind the fleet's gate holds another fleet"


@dataclass(frozen=True)
class TemporalFrontend:
    """The Temporal frontend of the fleet."""

    address: str
    namespace: str
    tls: bool = False
    """True if the frontend uses TLS. The following three fields are PEM, for TLS only."""
    roots: bytes | None = None
    """The authorities that the gate trusts; None = the machine's own."""
    certificate: bytes | None = None
    """The gate's own client certificate; None = the gate shows none."""
    key: bytes | None = field(default=None, repr=False)
    domain: str = ""
    """The host name in the frontend's certificate; "" = that of the address."""

    def channel(self) -> grpc.aio.Channel:
        """Return a channel to the frontend. Nothing is sent yet."""
        options: list[tuple[str, Any]] = list(_CHANNEL_OPTIONS)
        if not self.tls:
            return grpc.aio.insecure_channel(self.address, options=options)
        if self.domain:
            options.append(("grpc.ssl_target_name_override", self.domain))
        credentials = grpc.ssl_channel_credentials(self.roots, self.key, self.certificate)
        return grpc.aio.secure_channel(self.address, credentials, options=options)


class Gate:
    """The gate of one fleet, in front of one Temporal frontend."""

    def __init__(self, fleet: Fleet, keys: Keys, behind: TemporalFrontend, names: list[str]) -> None:
        """Forward calls to the frontend `behind`; `names` are hosts for the gate's certificate.

        The gate signs the starts of nodes' workflows with `keys`, which are the fleet's.

        Blocks. Raises SettingsInvalid, also if another gate uses this directory, and OSError.
        """
        directory = fleet.directory / DIRECTORY
        directory.mkdir(mode=0o700, exist_ok=True)
        # The full path may be too long for a unix socket; a path that begins at the open directory is short.
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path = directory / _SOCKET
            self._socket = f"/proc/self/fd/{self._directory}/{_SOCKET}"
            self._bounds, self._refusals, self._machines = NodeBounds(), Refusals(), Machines(directory)
            self._calls = NodeCalls(behind.namespace, task_tokens(directory))
            self._ownership = Ownership(fleet.id, behind.namespace, self._call_behind)
            self._introductions = Introductions(fleet.id, behind.namespace, keys, self._call_behind)
            self._door = Door(fleet, names, self._bounds, self._refusals, directory=directory, behind=self._socket)
        except BlockingIOError:
            os.close(self._directory)
            raise SettingsInvalid(f"{directory}: another gate serves this fleet from here") from None
        except BaseException:
            os.close(self._directory)
            raise
        self._behind = behind
        self._reading: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """For each node: limits the messages that are read at once. An entry exists while the node has a call."""
        self._server: grpc.aio.Server | None = None
        self._channel: grpc.aio.Channel | None = None

    async def start(self, host: str, port: int) -> int:
        """Serve; return the port. Raises OSError and RuntimeError; SettingsInvalid for another fleet's server."""
        self._channel = self._behind.channel()
        if why := await self._ownership.why_not():
            raise SettingsInvalid(why)
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers((_Handlers(self),))
        self._path.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._path.chmod(0o600)
        await self._server.start()
        return await self._door.start(host, port)

    async def failed(self) -> None:
        """Wait until the gate fails, and raise the reason."""
        await self._door.failed()

    async def close(self) -> None:
        """Stop, and end all calls under way."""
        await self._door.close()
        if self._server is not None:
            await self._server.stop(grace=None)
        if self._channel is not None:
            await self._channel.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._directory)

    def knows(self, method: str) -> bool:
        """Return whether nodes make this call at all."""
        return self._calls.knows(method)

    async def call(self, method: str, messages: AsyncIterator[bytes], context: Any) -> bytes:
        """Answer one call of a node."""
        connection = self._door.connection(context.peer())
        if connection is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the certificate of this node is not valid any more")
            raise AssertionError  # the line before raises
        clock = asyncio.get_running_loop().time
        node = connection.node
        if sentence := self._bounds.begun(node, clock()):
            await self._refuse(context, node, method, grpc.StatusCode.RESOURCE_EXHAUSTED, sentence)
        try:
            if not await self._is_its_machine(connection, context):
                self._bounds.refused(node, clock())
                denied = grpc.StatusCode.PERMISSION_DENIED
                await self._refuse(context, node, method, denied, used_elsewhere(node))
            if connection.is_dismissed and method not in GREETING:
                self._bounds.refused(node, clock())
                await self._refuse(context, node, method, grpc.StatusCode.FAILED_PRECONDITION, dismissal(node))
            try:
                said = await self._read(node, messages)
                forwarded = self._calls.forwarded(node, method, said)
            except CallRefused as why:
                self._bounds.refused(node, clock())
                await self._refuse(context, node, method, grpc.StatusCode.PERMISSION_DENIED, str(why))
            except CallUnreadable:
                self._bounds.refused(node, clock())
                unreadable = grpc.StatusCode.INVALID_ARGUMENT
                await self._refuse(context, node, method, unreadable, "the request cannot be read")
            return await self._ask(connection, method, forwarded, context)
        finally:
            self._bounds.ended(node)

    async def _is_its_machine(self, connection: NodeConnection, context: Any) -> bool:
        """Return whether a call comes from the first machine that used its certificate; if not, record the refusal."""
        shown = next((str(value) for name, value in context.invocation_metadata() or () if name == MACHINE_HEADER), "")
        if self._machines.knows(connection.serial, shown):
            return True
        try:
            if await asyncio.to_thread(self._machines.lets_in, connection.serial, shown):
                return True
            await asyncio.to_thread(self._machines.note_refused, connection.serial, connection.address)
        except OSError as error:
            log.warning("node %s: whose certificate it uses cannot be noted: %s", connection.node, error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the gate cannot note which machine this is")
        return False

    async def _call_behind(self, method: str, request: bytes) -> bytes:
        """Make one of the gate's own calls. Raises grpc.aio.AioRpcError."""
        assert self._channel is not None
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        answered: bytes = await call(request, timeout=_OWN_SECONDS)
        return answered

    async def _read(self, node: str, messages: AsyncIterator[bytes]) -> bytes:
        """Return the message of a call. Raises CallUnreadable if it does not arrive in time.

        gRPC holds a message in memory until it is complete. So only a few messages of each node are read at a time.
        """
        reading = self._reading.setdefault(node, asyncio.Semaphore(READ_AT_ONCE))
        try:
            async with asyncio.timeout(READ_SECONDS), reading:
                return await anext(messages)
        except (StopAsyncIteration, TimeoutError):
            raise CallUnreadable from None

    async def refuse_unknown(self, method: str, context: Any) -> None:
        """Refuse a call that no node may make."""
        connection = self._door.connection(context.peer())
        node = connection.node if connection is not None else ""
        await self._refuse(context, node, method, grpc.StatusCode.PERMISSION_DENIED, unknown(method))

    async def _refuse(self, context: Any, node: str, method: str, code: grpc.StatusCode, sentence: str) -> None:
        self._refusals.refused(node, method, sentence)
        await context.abort(code, sentence)

    async def _ask(self, of: NodeConnection, method: str, forwarded: Forwarded, context: Any) -> bytes:
        """Make a call to the server. Cancelling this cancels the call."""
        assert self._channel is not None
        metadata = tuple((name, value) for name, value in context.invocation_metadata() or () if name in _PASSED_ON)
        remaining = context.time_remaining()
        seconds = forwarded.seconds if remaining is None else min(forwarded.seconds, remaining)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        # The server may have been away when the gate began to serve, so the server's fleet is checked here too.
        if method == POLL and (why := await self._ownership.why_not()):
            self._refusals.refused(of.node, method, why)
            await context.abort(grpc.StatusCode.UNAVAILABLE, _OTHERS)
        try:
            await self._introductions.introduce(of.node, of.serial, method, asyncio.get_running_loop().time())
            answered: bytes = await call(forwarded.request, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            away = error.code() is grpc.StatusCode.UNAVAILABLE  # gRPC's own text would show the server's address
            if away:
                self._introductions.forget()
                self._ownership.forget()
            details = tuple((k, v) for k, v in error.trailing_metadata() or () if k == _DETAILS)
            said = _AWAY if away else error.details() or ""
            # A dismissal ends a node's pods, so only the gate itself may send it; a dismissal from the server is not
            # passed on.
            await context.abort(error.code(), "" if said == dismissal(of.node) else said, details)
        except OSError as error:
            log.warning("node %s cannot be introduced to the fleet: %s", of.node, error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the gate cannot introduce the node to its fleet")
        return forwarded.answer(answered)


class _Handlers(grpc.GenericRpcHandler):
    """Handles every call, whatever its name. The message of a call that no node may make is not read."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # gRPC's name
        method = handler_call_details.method

        async def refuse(_requests: object, context: Any) -> None:
            await self._gate.refuse_unknown(method, context)

        async def answer(messages: AsyncIterator[bytes], context: Any) -> bytes:
            return await self._gate.call(method, messages, context)

        # With unary handlers gRPC would read the message first.
        return grpc.stream_unary_rpc_method_handler(answer if self._gate.knows(method) else refuse)


def fleet_directory(state_dir: Path) -> Path:
    """Return the directory of the fleet in a state directory."""
    return state_dir / FLEET
