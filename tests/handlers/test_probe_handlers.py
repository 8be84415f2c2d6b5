"""Each probe handler against a real server: success, and the messages of failures."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import grpc
import pytest
from aiohttp import web
from grpc_health.v1 import health_pb2

from syncpod.cri.errors import CommandTimedOut, CriError
from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import NoAnswer, Target
from syncpod.handlers.grpc_health import grpc_health
from syncpod.handlers.http_get import http_get
from syncpod.handlers.probes import run_command, tcp_socket
from syncpod.pod import ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, TCPSocketAction
from tests.agent.waiting import turns_of_others

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A web server on loopback that answers everything with `handler`; yields its port."""
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]  # an Awaitable is what it takes
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def target(**ports: int) -> Target:
    return Target("u1", "c1", "127.0.0.1", ports)


def answering(status: int, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, **more)

    return handler


@pytest.mark.parametrize(
    ("status", "result"),
    [(200, "success"), (299, "success"), (300, "warning"), (399, "warning"), (400, "failure"), (503, "failure")],
)
async def test_200_to_399_is_success(status: int, result: str) -> None:
    """Row 87: 200 to 399 is success; 300 to 399 without a redirect on the same host is a warning."""
    async with serving(answering(status)) as port:
        answer = await http_get(HTTPGetAction(path="/healthz", port="web"), target(web=port), 5)
    assert answer.result == result
    if result == "failure":
        assert answer.text == f"HTTP probe failed with statuscode: {status}"


async def test_headers_of_the_probe_override_those_of_the_kubelet() -> None:
    """Row 87: User-Agent and Accept are the kubelet's, unless the probe sets them."""
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


@asynccontextmanager
async def raw(*answers: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers each connection with the next of these bytes, and closes it; yields its port and
    requests."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        for byte in answers[len(requests) - 1 : len(requests)]:
            writer.write(byte)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


async def test_repeated_headers_are_all_sent_and_no_others_are_added() -> None:
    """Row 87: repeated headers are all sent, an empty Accept removes the default, and framing headers are ours."""
    async with raw(b"HTTP/1.1 200 OK\r\n\r\n") as (port, requests):
        given = (("x-tag", "a"), ("X-Tag", "b"), ("ACCEPT", ""), ("Content-Length", "9"), ("user-agent", "me"))
        headers = tuple(HTTPHeader(name=name, value=value) for name, value in given)
        action = HTTPGetAction(path="/a b?q=ü#part", port=port, http_headers=headers)
        assert (await http_get(action, target(), 5)).result == "success"
    assert requests == [
        f"GET /a%20b?q=%C3%BC HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Tag: a\r\nX-Tag: b\r\nUser-Agent: me\r\n"
        "Connection: close\r\n\r\n".encode()
    ]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("x-a", "b\r\nX-Evil: 1", 'invalid header field value for "X-A"'),
        ("Host", "a\nb", 'invalid header field value for "Host"'),
        ("X\nA", "b", 'invalid header field name "X\\nA"'),
        ("", "b", 'invalid header field name ""'),
    ],
)
async def test_an_invalid_header_is_not_sent_and_fails_the_probe(name: str, value: str, why: str) -> None:
    """Row 87: a probe that can never succeed must not look as if it had not run."""
    async with raw(b"HTTP/1.1 200 OK\r\n\r\n") as (port, requests):
        headers = (HTTPHeader(name=name, value=value),)
        answer = await http_get(HTTPGetAction(port=port, http_headers=headers), target(), 5)
    assert (answer.result, answer.text) == ("failure", f'Get "http://127.0.0.1:{port}": net/http: {why}')
    assert requests == []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("healthz", "/healthz"),
        ("//healthz", "/"),
        ("//healthz/live?a#b", "/live?a"),
        ("///healthz", "///healthz"),
        ("http://other:99/live", "/live"),
        ("//a b/c", "//a%20b/c"),
        ("//h:x/c", "//h:x/c"),
        ("//u:p@h/c", "/c"),
        ("//%@h/c", "//%25@h/c"),
        ("/%zz", "/%25zz"),
        ("/%zz?a=b#c", "/%25zz%3Fa=b%23c"),
        ("/a?%zz", "/a?%zz"),
        ("/a#%zz", "/a%23%25zz"),
        ("/a%20b", "/a%20b"),
        ("/a%41 b", "/aA%20b"),
        ("/a\tb?c", "/a%09b%3Fc"),
        ("/[a]'(b)!*;,", "/[a]'(b)!*;,"),
        ("/[a]'(b)!*;, ", "/%5Ba%5D%27%28b%29%21%2A;,%20"),
        ("9a:b", "/9a:b"),
        (":b", "/:b"),
        ("?a", "/?a"),
    ],
)
async def test_a_path_is_parsed_as_by_the_kubelet(path: str, asked: str) -> None:
    """Row 87: the path is parsed as a URL, whose server is ignored; an invalid one is escaped as a whole
    (formatURL)."""
    async with raw(b"HTTP/1.1 200 OK\r\n\r\n") as (port, requests):
        assert (await http_get(HTTPGetAction(path=path, port=port), target(), 5)).result == "success"
    assert [request.split(b" HTTP/")[0].decode() for request in requests] == [f"GET {asked}"]


async def test_a_path_that_is_a_url_without_a_host_is_a_failure() -> None:
    answer = await http_get(HTTPGetAction(path="healthz:ready", port=1), target(), 5)
    assert (answer.result, answer.text) == ("failure", 'Get "http:ready": http: no Host in request URL')


@pytest.mark.parametrize("host", ["a b", "a/b", "a@b", "a:b", "[::1]", "a\nb"])
async def test_a_host_that_is_invalid_in_a_url_gives_no_result(host: str) -> None:
    """Row 87: no request can be made (NewRequestForHTTPGetAction), so it is no result."""
    with pytest.raises(NoAnswer, match="invalid character in host name"):
        await http_get(HTTPGetAction(port=80, host=host), target(), 5)


@pytest.mark.parametrize(
    ("answer", "result", "text"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nwel\r\n1\r\nl\r\n0\r\n\r\n",
            "success",
            "well",
        ),
        (b"HTTP/1.0 200 OK\n\nuntil the end", "success", "until the end"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "success", ""),
        (b"HTTP/1.1 302 Found\r\n\r\nnowhere", "warning", "Probe terminated redirects, Response body: nowhere"),
        (b"220 mail.example ESMTP\r\n", "failure", 'malformed HTTP response "220 mail.example ESMTP"'),
        (b"HTTP/1.1 many\r\n\r\n", "failure", "malformed HTTP response"),
        (b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/\r\n\r\n", "failure", 'unsupported protocol scheme "ftp"'),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", "failure", 'parse Location header "http://["'),
        (
            b"HTTP/1.1 302 Found\r\nLocation: //127.0.0.1:x/\r\n\r\n",
            "failure",
            'parse Location header "//127.0.0.1:x/"',
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "failure", 'bad Content-Length "999'),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", "failure", "bad Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: four\r\n\r\nwell", "failure", 'bad Content-Length "four"'),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: -1\r\n\r\n", "failure", 'bad Content-Length "-1"'),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nwell", "failure", "invalid empty Content-Length"),
        (b"HTTP/1.1 302 Found\r\nLocation: /a%2\r\n\r\n", "failure", 'header "/a%2": invalid URL escape "%2"'),
        (b"HTTP/1.1 302 Found\r\nLocation: /#%zz\r\n\r\n", "failure", 'invalid URL escape "%zz"'),
        (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/?%zz\r\n\r\n", "warning", "Response body: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5000 + b"4\r\n\r\nwell", "success", "well"),
        (b"", "failure", "EOF"),
    ],
)
async def test_any_http_response_yields_a_result(answer: bytes, result: str, text: str) -> None:
    async with raw(answer) as (port, _):
        said = await http_get(HTTPGetAction(port=port), target(), 5)
    assert said.result == result
    assert said.text.endswith(text) if result != "failure" else text in said.text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "unexpected EOF"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nhalf", "unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nwe", "unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid byte in chunk length"),
    ],
)
async def test_a_response_whose_body_is_cut_off_gives_no_result(answer: bytes, why: str) -> None:
    """Row 87: neither a success nor a failure, whatever the status."""
    async with raw(answer) as (port, _):
        with pytest.raises(NoAnswer, match=why):
            await http_get(HTTPGetAction(port=port), target(), 5)


async def test_a_response_that_stalls_in_its_body_gives_no_result() -> None:
    """Row 87: only a server that does not start to answer in time has failed."""
    enough = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await enough.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NoAnswer, match="cancellation while reading body"):
            await http_get(HTTPGetAction(port=port), target(), 1)  # the header has arrived already
        enough.set()


@asynccontextmanager
async def endless(block: bytes) -> AsyncIterator[int]:
    """A server in a thread of its own that answers with this block again and again; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(30)
                    connection.recv(65536)
                    while True:
                        connection.sendall(block * 1000)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            await asyncio.to_thread(serving.join)


@pytest.mark.parametrize("block", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"])
async def test_endless_headers_fail_the_probe_without_blocking_the_event_loop(block: bytes) -> None:
    async with endless(block) as port, turns_of_others() as turns:
        said = await http_get(HTTPGetAction(port=port), target(), None)
    assert (said.result, "headers exceeded 1048576 bytes" in said.text, turns() > 10) == ("failure", True, True)


async def test_a_body_with_too_much_chunk_overhead_gives_no_result() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with raw(head + (b"1;" + b"x" * 200 + b"\r\n.\r\n") * 200) as (port, _):
        with pytest.raises(NoAnswer, match="too much non-data"):
            await http_get(HTTPGetAction(port=port), target(), 5)


async def test_the_beginning_of_a_long_redirect_that_is_not_a_url_is_reported() -> None:
    async with raw(b"HTTP/1.1 302 Found\r\nLocation: //h:" + b"x" * 100_000 + b"\r\n\r\n") as (port, _):
        said = await http_get(HTTPGetAction(port=port), target(), 5)
    assert (said.result, len(said.text) < 1000) == ("failure", True)


async def test_tls_certificates_are_not_verified(tmp_path: Path) -> None:
    """Row 87: TLS is not verified; a server without TLS has failed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    command = (
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=other -days 1 "
        f"-keyout {tmp_path}/key -out {tmp_path}/cert"
    )
    made = await asyncio.create_subprocess_exec(*command.split(), stderr=subprocess.DEVNULL)
    assert await made.wait() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)  # the body comes by itself
        writer.write(b"well")
        await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server, raw(b"") as (plain, _):
        port = server.sockets[0].getsockname()[1]
        said = await http_get(HTTPGetAction(port=port, scheme="HTTPS"), target(), 5)
        refused = await http_get(HTTPGetAction(port=plain, scheme="HTTPS"), target(), 1)
    assert (said.result, said.text) == ("success", "well")
    assert refused.result == "failure"


async def test_a_redirect_is_followed_on_the_same_host_and_gives_a_warning_otherwise() -> None:
    """Row 87: at most ten requests, and none to another host."""

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


async def test_a_hung_or_absent_server_fails_the_probe() -> None:
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
    """Row 87: 10 KiB of the body are read."""
    async with serving(answering(200, body=b"x" * 1_000_000)) as port:
        answer = await http_get(HTTPGetAction(path="/", port=port), target(), 5)
    assert (answer.result, len(answer.text) <= 10 * 1024) == ("success", True)


async def test_an_opened_tcp_connection_is_success() -> None:
    """Row 89: a TCP probe is a connection."""
    async with serving(answering(200)) as port:
        assert (await tcp_socket(TCPSocketAction(port="web"), target(web=port), 5)).result == "success"
    answer = await tcp_socket(TCPSocketAction(port=port), target(), 5)
    assert (answer.result, answer.text) == ("failure", f"dial tcp 127.0.0.1:{port}: connect: connection refused")
    nowhere = await tcp_socket(TCPSocketAction(host="255.255.255.255", port=port), target(), 5)
    assert nowhere.text == f"dial tcp 255.255.255.255:{port}: connect: network is unreachable"


@pytest.mark.parametrize("port", ["nobody", 0, 70000])
async def test_an_unknown_port_name_gives_no_result(port: str | int) -> None:
    with pytest.raises(NoAnswer, match="port"):
        await tcp_socket(TCPSocketAction(port=port), target(web=1), 1)


async def test_a_grpc_probe_asks_for_the_named_service() -> None:
    """Row 89: a gRPC probe is a call of Check at the pod's address."""
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
    assert (unknown.result, unknown.text) == (
        "failure", "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
    )  # fmt: skip
    gone = await grpc_health(GRPCAction(port=port), target(), 1)
    late = f'timeout: failed to connect service "127.0.0.1:{port}" within 1s: context deadline exceeded'
    assert (gone.result, gone.text) == ("failure", late)


def health_server(check: Callable[..., Awaitable[bytes]], port: int = 0) -> tuple[grpc.aio.Server, int]:
    """A health service on loopback that answers with `check`, not yet started, and its port."""
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        check, request_deserializer=health_pb2.HealthCheckRequest.FromString, response_serializer=bytes
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    return server, server.add_insecure_port(f"127.0.0.1:{port}")


async def test_a_health_service_that_starts_before_the_timeout_is_healthy() -> None:
    """Row 89: a refused connection is retried until the timeout (grpc.WithBlock)."""

    async def check(*_: Any) -> bytes:
        return b"\x08\x01"

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    asking = asyncio.create_task(grpc_health(GRPCAction(port=port), target(), 30))
    await asyncio.sleep(0.2)
    assert not asking.done(), "a refusal is not the answer"
    server, _ = health_server(check, port)
    await server.start()
    try:
        assert (await asking).result == "success"
    finally:
        await server.stop(0)


async def test_a_hung_health_service_and_an_absent_one_fail_with_different_messages() -> None:
    async def check(*_: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    server, port = health_server(check)
    await server.start()
    try:
        answer = await grpc_health(GRPCAction(port=port), target(), 1)
    finally:
        await server.stop(0)
    assert (answer.result, answer.text) == ("failure", "timeout: health rpc did not complete within 1s")


async def test_a_server_without_the_health_service_fails_with_its_own_message() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        answer = await grpc_health(GRPCAction(port=port), target(), 5)
    finally:
        await server.stop(0)
    lacks = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
    assert answer.result == "failure"
    assert answer.text.startswith(lacks) and len(answer.text) > len(lacks)


async def test_a_command_that_times_out_fails_with_the_runtimes_message() -> None:
    """Row 88: a timeout is a failure."""
    cri = create_autospec(CriRuntime, instance=True)
    cri.exec_sync.side_effect = CommandTimedOut("exec_sync", "DEADLINE_EXCEEDED", "late")
    answer = await run_command(ExecAction(command=("sh", "-c", 'echo "x"')), target(), 90, cri)
    said = 'command timed out: "sh -c echo \\"x\\"" timed out after 1m30s'
    assert (answer.result, answer.text) == ("failure", said)
    cri.exec_sync.side_effect = CriError("exec_sync", "UNKNOWN", "no such process")
    with pytest.raises(NoAnswer, match=r"^rpc error: code = Unknown desc = no such process$"):
        await run_command(ExecAction(command=("true",)), target(), 1, cri)


async def test_an_unknown_serving_status_is_a_failure() -> None:
    async def check(*_: Any) -> bytes:
        return b"\x08\x63"

    server, port = health_server(check)
    await server.start()
    try:
        answer = await grpc_health(GRPCAction(port=port), target(), 5)
    finally:
        await server.stop(0)
    assert (answer.result, answer.text) == ("failure", 'service unhealthy (responded with "99")')


async def test_a_malicious_health_service_fails_the_probe() -> None:
    """Bytes that are no message, a huge message, a text that fills a screen, endless answers."""

    async def nonsense(*_: Any) -> bytes:
        return b"\xff\xff"

    async def bomb(*_: Any) -> bytes:
        return b"\x08\x01\x1a\x80\x80\x80\x04" + bytes(8 << 20)

    async def endless(*_: Any) -> AsyncIterator[bytes]:
        while True:
            yield b"\x08\x01"

    said = {
        nonsense: "code = Internal desc = grpc: failed to unmarshal the received message: ",
        bomb: "code = ResourceExhausted desc = ",
        endless: "timeout: health rpc did not complete within 1s",
    }
    for check, words in said.items():
        make = grpc.unary_stream_rpc_method_handler if check is endless else grpc.unary_unary_rpc_method_handler
        limits = [("grpc.max_send_message_length", -1)]
        server = grpc.aio.server(options=limits, compression=grpc.Compression.Gzip)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": make(check)}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            answer = await grpc_health(GRPCAction(port=port), target(), 1 if check is endless else 30)
        finally:
            await server.stop(0)
        assert answer.result == "failure"
        assert words in answer.text


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example"])
async def test_an_unresolvable_host_name_is_a_failure(host: str) -> None:
    asked = [
        await tcp_socket(TCPSocketAction(port=80, host=host), target(), 5),
        await http_get(HTTPGetAction(path="/", port=80, host=host), target(), 5),
    ]
    assert [answer.result for answer in asked] == ["failure", "failure"]
