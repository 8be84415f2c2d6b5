"""Signs for clients without a codec: a gRPC proxy before the Temporal server, on the loopback address, with a token.

``tctl`` uses a codec server only to display payloads, and not for payloads that it sends. So it connects to this proxy
instead of the server. The proxy signs each command for the workflow that the call names, and passes all other calls on
unchanged. Each call must have the token in its ``authorization``, which the proxy removes.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.workflowservice.v1 import (
    SignalWithStartWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)

from syncpod.kernel.callers import PeerOf
from syncpod.kernel.http2_frames import GRPC_OPTIONS
from syncpod.messages.encryption import is_encrypted
from syncpod.messages.signature import Keys, PayloadPlace, signed_metadata
from syncpod.messages.signed import START
from syncpod.signing.front import Front
from syncpod.temporal.encryption import encrypted

HOST: Final = "127.0.0.1"
SOCKET_NAME: Final = "proxy.sock"
"""The socket in the state directory at which gRPC listens: only the owner can connect to it."""
_SERVICE: Final = "/temporal.api.workflowservice.v1.WorkflowService/"
_LARGEST: Final = (("grpc.max_receive_message_length", 16 * 2**20), ("grpc.max_send_message_length", 16 * 2**20))
_AUTHORIZATION: Final = "authorization"
_TOKEN: Final = "the token is not that of this node: run `syncpod env` as its owner again"


class SigningProxy:
    """The proxy of one node, before one Temporal server."""

    def __init__(self, state_dir: Path, address: str, keys: Keys, token: str, peer_of: PeerOf) -> None:
        """Pass calls on to the server at `address`, without TLS, which a dev server does not have.

        `peer_of` returns the user of a connection.
        """
        self._channel = grpc.aio.insecure_channel(address, options=_LARGEST)
        self._signs = signers(keys)
        self._bearer = f"Bearer {token}".encode()
        self._server = grpc.aio.server(options=(*_LARGEST, *GRPC_OPTIONS))
        self._server.add_generic_rpc_handlers((_Calls(self._call, self._is_owner),))
        self._state_dir = state_dir
        # The directory's own path may be too long for a socket's address.
        self._directory = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._front = Front(self._socket, peer_of)

    def _socket(self) -> str:
        return f"/proc/self/fd/{self._directory}/{SOCKET_NAME}"

    def _bind(self) -> None:
        """Have gRPC listen at the socket, after removing a killed worker's. Raises OSError and RuntimeError."""
        (self._state_dir / SOCKET_NAME).unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{self._socket()}")
        # gRPC creates the socket with the umask's mode. Until this line the directory's mode keeps others out.
        (self._state_dir / SOCKET_NAME).chmod(0o600)

    async def start(self) -> str:
        """Serve on a free port; return its address. Raises OSError and RuntimeError."""
        self._bind()
        await self._server.start()
        return f"{HOST}:{await self._front.start(HOST)}"

    async def close(self) -> None:
        """Stop, and end all calls under way."""
        self._front.close()
        await self._server.stop(grace=None)
        await self._channel.close()
        os.close(self._directory)
        with suppress(OSError):
            (self._state_dir / SOCKET_NAME).unlink()

    def _is_owner(self, details: grpc.HandlerCallDetails) -> bool:
        """Return whether a call has the token."""
        given = [value for name, value in details.invocation_metadata or () if name == _AUTHORIZATION]
        return len(given) == 1 and hmac.compare_digest(_bytes(given[0]), self._bearer)

    async def _call(self, method: str, request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        """Return the server's answer to one call. A command is signed before it is passed on."""
        metadata = tuple(context.invocation_metadata() or ())
        if (sign := self._signs.get(method)) is not None:
            try:
                request = sign(request)
            except ValueError:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be read")
        passed_on = tuple((name, value) for name, value in metadata if name not in (_AUTHORIZATION, "user-agent"))
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        try:
            answer: bytes = await call(request, timeout=context.time_remaining(), metadata=passed_on)
        except grpc.aio.AioRpcError as error:
            trailing = tuple(error.trailing_metadata() or ())
            await context.abort(error.code(), error.details() or "", trailing)
        return answer


class _Calls(grpc.GenericRpcHandler):
    """Accepts unary calls of any name. The message of a call without the token is not read."""

    def __init__(
        self,
        answer: Callable[[str, bytes, Any], Awaitable[bytes]],
        is_owner: Callable[[grpc.HandlerCallDetails], bool],
    ) -> None:
        self._answer, self._is_owner = answer, is_owner

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # gRPC's name
        method = handler_call_details.method
        if not self._is_owner(handler_call_details):
            return grpc.stream_unary_rpc_method_handler(_refuse)  # a unary handler would first wait for the message

        async def answer(request: bytes, context: Any) -> bytes:
            return await self._answer(method, request, context)

        return grpc.unary_unary_rpc_method_handler(answer)


async def _refuse(_requests: object, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, _TOKEN)


def signers(keys: Keys) -> dict[str, Callable[[bytes], bytes]]:
    """Return a function for each call that commands a workflow, by the call's name. It signs the serialized request.

    It raises ValueError for a request that cannot be parsed.
    """

    def sign(place: PayloadPlace, purpose: str, payloads: Payloads) -> None:
        if not payloads.payloads:  # a command without a payload could not be signed
            payloads.payloads.append(Payload(metadata={"encoding": b"json/plain"}, data=b"{}"))
        signed = [signed_payload(keys, place, payload, purpose) for payload in payloads.payloads]
        del payloads.payloads[:]
        payloads.payloads.extend(signed)

    def signal(said: bytes) -> bytes:
        request = SignalWorkflowExecutionRequest.FromString(said)
        place = PayloadPlace(request.namespace, request.workflow_execution.workflow_id)
        sign(place, f"signal/{request.signal_name}", request.input)
        return request.SerializeToString()

    def start(said: bytes) -> bytes:
        request = StartWorkflowExecutionRequest.FromString(said)
        sign(PayloadPlace(request.namespace, request.workflow_id), START, request.input)
        return request.SerializeToString()

    def signal_with_start(said: bytes) -> bytes:
        request = SignalWithStartWorkflowExecutionRequest.FromString(said)
        place = PayloadPlace(request.namespace, request.workflow_id)
        sign(place, START, request.input)
        sign(place, f"signal/{request.signal_name}", request.signal_input)
        return request.SerializeToString()

    def update(said: bytes) -> bytes:
        request = UpdateWorkflowExecutionRequest.FromString(said)
        place = PayloadPlace(request.namespace, request.workflow_execution.workflow_id)
        sign(place, f"update/{request.request.input.name}", request.request.input.args)
        return request.SerializeToString()

    calls: Iterable[tuple[str, Callable[[bytes], bytes]]] = (
        ("SignalWorkflowExecution", signal),
        ("StartWorkflowExecution", start),
        ("SignalWithStartWorkflowExecution", signal_with_start),
        ("UpdateWorkflowExecution", update),
    )
    return {f"{_SERVICE}{name}": _or_invalid(signs) for name, signs in calls}


def signed_payload(keys: Keys, place: PayloadPlace, payload: Payload, purpose: str) -> Payload:
    """Return a payload signed as a command with the next number, and encrypted if the keys encrypt.

    A payload that is already encrypted is returned unchanged. Raises OSError if the number cannot be stored.
    """
    if is_encrypted(payload.metadata):
        return payload
    key = keys.current
    metadata = signed_metadata(key, place, payload.metadata, payload.data, purpose=purpose, number=keys.number())
    signed = Payload(metadata=metadata, data=payload.data)
    return encrypted(key, place, signed) if keys.encrypts else signed


def _or_invalid(signs: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return the same function, which raises ValueError in place of protobuf's DecodeError."""

    def signed(said: bytes) -> bytes:
        try:
            return signs(said)
        except DecodeError as error:
            raise ValueError(str(error)) from None

    return signed


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
