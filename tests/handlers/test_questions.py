"""One question to a real server: what counts as success, and in which words a failure is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from aiohttp import web
from grpc_health.v1 import health_pb2

from syncpod.handlers.answer import NoAnswer, Target
from syncpod.handlers.grpc_health import grpc_health
from syncpod.handlers.http_get import http_get
from syncpod.handlers.tcp_socket import tcp_socket
from syncpod.pod import GRPCAction, HTTPGetAction, HTTPHeader, TCPSocketAction

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A web server on the loopback that answers everything by `handler`; gives its port."""
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]  # an Awaitable is what it takes
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def target(**ports: int) -> Target:
    return Target("c1", "127.0.0.1", ports)


def answering(status: int, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, **more)

    return handler


@pytest.mark.parametrize(("status", "result"), [(200, "success"), (399, "success"), (400, "failure"), (503, "failure")])
async def test_200_to_399_is_success(status: int, result: str) -> None:
    async with serving(answering(status)) as port:
        answer = await http_get(HTTPGetAction(path="/healthz", port="web"), target(web=port), 5)
    assert answer.result == result
    if result == "failure":
        assert answer.text == f"HTTP probe failed with statuscode: {status}"


async def test_headers_are_the_probes_own_and_the_kubelets() -> None:
    seen: dict[str, str] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(request.headers)
        seen["path"] = request.raw_path if hasattr(request, "raw_path") else str(request.rel_url)
        return web.Response()

    async with serving(handler) as port:
        headers = (HTTPHeader(name="X-Token", value="t"), HTTPHeader(name="Host", value="shop.example"))
        action = HTTPGetAction(path="/a%20b?q=1", port=port, http_headers=headers)
        assert (await http_get(action, target(), 5)).result == "success"
    assert (seen["X-Token"], seen["Host"], seen["User-Agent"], seen["Accept"]) == (
        "t",
        "shop.example",
        "kube-probe/1.36",
        "*/*",
    )
    assert seen["path"] == "/a%20b?q=1"


async def test_a_redirect_is_followed_on_the_same_host_and_is_a_warning_elsewhere() -> None:
    async def handler(request: web.Request) -> web.Response:
        match request.path:
            case "/here":
                return web.Response(status=302, headers={"Location": "/there"})
            case "/away":
                return web.Response(status=302, headers={"Location": "http://192.0.2.1/"}, text="moved")
            case "/round":
                return web.Response(status=302, headers={"Location": "/round"})
        return web.Response(status=500 if request.path == "/there" else 200)

    async with serving(handler) as port:
        here, away, around = [
            await http_get(HTTPGetAction(path=path, port=port), target(), 5) for path in ("/here", "/away", "/round")
        ]
    assert (here.result, here.text) == ("failure", "HTTP probe failed with statuscode: 500")
    assert (away.result, away.text) == ("warning", "Probe terminated redirects, Response body: moved")
    assert around.result == "failure"
    assert "stopped after 10 redirects" in around.text


async def test_a_server_that_hangs_or_is_not_there_has_failed() -> None:
    enough = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        await enough.wait()
        return web.Response()

    async with serving(handler) as port:
        hangs = await http_get(HTTPGetAction(path="/", port=port), target(), 0.1)
        enough.set()
    gone = await http_get(HTTPGetAction(path="/", port=port), target(), 5)
    assert (hangs.result, "context deadline exceeded" in hangs.text) == ("failure", True)
    assert (gone.result, gone.text.endswith("connection refused")) == ("failure", True)


async def test_a_long_body_is_not_read_to_its_end() -> None:
    async with serving(answering(200, body=b"x" * 1_000_000)) as port:
        answer = await http_get(HTTPGetAction(path="/", port=port), target(), 5)
    assert (answer.result, len(answer.text) <= 10 * 1024) == ("success", True)


async def test_a_connection_that_opens_is_success() -> None:
    async with serving(answering(200)) as port:
        assert (await tcp_socket(TCPSocketAction(port="web"), target(web=port), 5)).result == "success"
    answer = await tcp_socket(TCPSocketAction(port=port), target(), 5)
    assert (answer.result, answer.text) == ("failure", f"dial tcp 127.0.0.1:{port}: connect: connection refused")


@pytest.mark.parametrize("port", ["nobody", 0, 70000])
async def test_a_port_that_is_none_cannot_be_asked(port: str | int) -> None:
    with pytest.raises(NoAnswer, match="port"):
        await tcp_socket(TCPSocketAction(port=port), target(web=1), 1)


async def test_the_health_service_is_asked_about_the_service_that_is_named() -> None:
    statuses = {"": "SERVING", "slow": "NOT_SERVING"}

    async def check(request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        if request.service not in statuses:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        status = health_pb2.HealthCheckResponse.ServingStatus.Value(statuses[request.service])
        return health_pb2.HealthCheckResponse(status=status)

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        check,
        request_deserializer=health_pb2.HealthCheckRequest.FromString,
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        fine, unwell, unknown = [
            await grpc_health(GRPCAction(port=port, service=service), target(), 5) for service in (None, "slow", "who")
        ]
    finally:
        await server.stop(0)
    assert fine.result == "success"
    assert (unwell.result, unwell.text) == ("failure", 'service unhealthy (responded with "NOT_SERVING")')
    assert unknown.result == "failure"
    gone = await grpc_health(GRPCAction(port=port), target(), 1)
    assert (gone.result, "failed to connect" in gone.text) == ("failure", True)


async def test_a_status_that_the_protocol_has_no_name_for_is_a_failure() -> None:
    async def check(request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        return b"\x08\x63"

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        check, request_deserializer=health_pb2.HealthCheckRequest.FromString, response_serializer=bytes
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        answer = await grpc_health(GRPCAction(port=port), target(), 5)
    finally:
        await server.stop(0)
    assert (answer.result, answer.text) == ("failure", 'service unhealthy (responded with "99")')


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example"])
async def test_a_host_name_that_is_none_is_a_failure(host: str) -> None:
    asked = [
        await tcp_socket(TCPSocketAction(port=80, host=host), target(), 5),
        await http_get(HTTPGetAction(path="/", port=80, host=host), target(), 5),
    ]
    assert [answer.result for answer in asked] == ["failure", "failure"]
