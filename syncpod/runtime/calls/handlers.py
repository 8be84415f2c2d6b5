"""gRPC handlers for the services: they answer each error with a status code and a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from syncpod.runtime.calls.faults import CallFailed
from syncpod.runtime.refusals import Refusal
from syncpod.runtime.state import exhausted, log, log_error

_UNFORESEEN: Final = "the runtime failed in a way that it did not foresee; its log has the details"

Answer = Message | bytes
"""A message, or a serialised one."""


def handler(service: ServiceDescriptor, *calls: object) -> grpc.GenericRpcHandler:
    """Return the gRPC handler of a service.

    Each object in `calls` has methods for some of the service's calls, named as on the wire. A method takes the
    request; for a streamed answer, the method is an asynchronous generator. Methods may raise Refusal. A call without a
    method is answered with UNIMPLEMENTED.
    """
    return grpc.method_handlers_generic_handler(
        service.full_name, {each.name: _method(each, _find(calls, each.name)) for each in service.methods}
    )


def _find(calls: Iterable[object], name: str) -> Callable[[Any], Any] | None:
    return next((getattr(each, name) for each in calls if hasattr(each, name)), None)


def _method(method: MethodDescriptor, serve: Callable[[Any], Any] | None) -> grpc.RpcMethodHandler[Any, Any]:
    request_type = GetMessageClass(method.input_type)
    if serve is None:
        return _handler_of(method, _unimplemented(method.name))
    return _handler_of(method, (_stream if method.server_streaming else _single)(request_type, serve))


def _handler_of(method: MethodDescriptor, behaviour: Any) -> grpc.RpcMethodHandler[Any, Any]:
    # Requests are decoded here, so that an undecodable one is answered like any other invalid request.
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(behaviour, None, _serialised)
    return grpc.unary_unary_rpc_method_handler(behaviour, None, _serialised)


def _single(
    request_type: type[Message], serve: Callable[[Any], Awaitable[Answer]]
) -> Callable[[bytes, grpc.aio.ServicerContext[Any, Any]], Awaitable[Answer]]:
    async def behaviour(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Answer:
        try:
            return await serve(_decoded(request_type, request))
        except Exception as error:  # noqa: BLE001 - an unexpected error is logged and answered, and ends no server
            code, sentence = _code_and_sentence(error)
        await context.abort(code, sentence)

    return behaviour


def _stream(
    request_type: type[Message], serve: Callable[[Any], AsyncIterator[Answer]]
) -> Callable[[bytes, grpc.aio.ServicerContext[Any, Any]], AsyncIterator[Answer]]:
    async def behaviour(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Answer]:
        try:
            async for answer in serve(_decoded(request_type, request)):
                yield answer
            return
        except Exception as error:  # noqa: BLE001 - as above
            code, sentence = _code_and_sentence(error)
        await context.abort(code, sentence)

    return behaviour


def _unimplemented(name: str) -> Callable[[bytes, grpc.aio.ServicerContext[Any, Any]], Awaitable[Answer]]:
    async def behaviour(_: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Answer:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{name}: not served by the embedded runtime")

    return behaviour


def _decoded(request_type: type[Message], request: bytes) -> Message:
    try:
        return request_type.FromString(request)
    except DecodeError as error:
        raise Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"the request is not a {request_type.DESCRIPTOR.name}: it cannot be decoded",
        ) from error


def _serialised(answer: Answer) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _code_and_sentence(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Return status and text for an error; an unexpected error is logged, and the server keeps serving."""
    match error:
        case Refusal():
            return error.code, error.sentence
        case CallFailed():
            return error.code, str(error)
    lacking = exhausted(error)
    if lacking is not None:
        log(f"a call was refused: {lacking}")
        return grpc.StatusCode.RESOURCE_EXHAUSTED, lacking
    log_error(error)
    return grpc.StatusCode.INTERNAL, _UNFORESEEN
