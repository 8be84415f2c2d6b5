"""gRPC probes, which call the health service (pkg/probe/grpc, v1.36)."""

from __future__ import annotations

from datetime import timedelta

import grpc
from grpc_health.v1 import health_pb2

from syncpod.cri.answers import readable
from syncpod.cri.errors import go_status
from syncpod.go_durations import go_duration
from syncpod.handlers.answer import NoAddress, ProbeAnswer, Target, port_number
from syncpod.handlers.dialing import host_and_port
from syncpod.pod import GRPCAction

_CHECK = "/grpc.health.v1.Health/Check"
_CONNECTED = grpc.ChannelConnectivity.READY
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_retries", 0),
    ("grpc.primary_user_agent", "kube-probe/1.36"),
)
"""Disables shared connections, lookups of service configurations, retries, and a proxy between a node and its pods."""
_UNREADABLE = "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data"
"""Go's words for an answer that is not a valid message."""


async def grpc_health(action: GRPCAction, target: Target, timeout_seconds: float) -> ProbeAnswer:
    """Call Check once, in clear text, on a new connection: SERVING is success. Raises :class:`NoAnswer`.

    A kept connection would report success for a server that accepts no new ones, and would wait for gRPC's back-off
    after a restart of the server. The kubelet dials each time too, and retries until the timeout with that back-off
    (`grpc.WithBlock`): a server that starts within the timeout passes.
    """
    if not target.ip:
        raise NoAddress("the pod has no address yet")
    port = port_number(action.port, target)
    service = action.service or ""
    where = host_and_port(target.ip, port)
    async with grpc.aio.insecure_channel(where, options=_OPTIONS) as channel:
        check = channel.unary_unary(
            _CHECK,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=readable(health_pb2.HealthCheckResponse.FromString),
        )
        try:
            question = health_pb2.HealthCheckRequest(service=service)
            response = await check(question, timeout=timeout_seconds, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            limit = go_duration(timedelta(seconds=timeout_seconds))
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and channel.get_state() != _CONNECTED:
                late = "context deadline exceeded"
                return ProbeAnswer("failure", f'timeout: failed to connect service "{where}" within {limit}: {late}')
            return ProbeAnswer("failure", _reason(error, limit))
    if response is None:
        return ProbeAnswer("failure", f"error: health rpc probe failed: {go_status('INTERNAL', _UNREADABLE)}")
    known = {number: name for name, number in health_pb2.HealthCheckResponse.ServingStatus.items()}
    # The container chooses the number; a number that has no name here is a failure like any other.
    status = known.get(response.status, str(response.status))
    if status == "SERVING":
        return ProbeAnswer("success")
    return ProbeAnswer("failure", f'service unhealthy (responded with "{status}")')


def _reason(error: grpc.aio.AioRpcError, limit: str) -> str:
    said = error.details() or ""
    match error.code():
        case grpc.StatusCode.UNIMPLEMENTED:
            return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {said}"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"timeout: health rpc did not complete within {limit}"
        case code:
            return f"error: health rpc probe failed: {go_status(code.name, said)}"
