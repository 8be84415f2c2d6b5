"""Asking the gRPC health service (pkg/probe/grpc, v1.36)."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2

from syncpod.handlers.answer import Answer, NoAnswer, Target, port_number
from syncpod.pod import GRPCAction

_CHECK = "/grpc.health.v1.Health/Check"


async def grpc_health(action: GRPCAction, target: Target, timeout_seconds: float) -> Answer:
    """Call Check once, in clear text: SERVING is success. Raises :class:`NoAnswer`."""
    if not target.ip:
        raise NoAnswer("the pod has no address yet")
    port = port_number(action.port, target)
    service = action.service or ""
    where = f"[{target.ip}]:{port}" if ":" in target.ip else f"{target.ip}:{port}"
    async with grpc.aio.insecure_channel(where, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        check = channel.unary_unary(
            _CHECK,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            response = await check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            return Answer("failure", _reason(error, where, service, timeout_seconds))
    known = {number: name for name, number in health_pb2.HealthCheckResponse.ServingStatus.items()}
    # The number is the container's: one that this version has no name for is answered like any other.
    status = known.get(response.status, str(response.status))
    if status == "SERVING":
        return Answer("success")
    return Answer("failure", f'service unhealthy (responded with "{status}")')


def _reason(error: grpc.aio.AioRpcError, where: str, service: str, timeout_seconds: float) -> str:
    match error.code():
        case grpc.StatusCode.UNIMPLEMENTED:
            return "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"timeout: health rpc did not complete within {timeout_seconds:g}s"
        case grpc.StatusCode.UNAVAILABLE:
            return f'timeout: failed to connect service "{where}" within {timeout_seconds:g}s'
        case _:
            return f"error: health rpc probe failed for service {service!r}: {error.details()}"
