"""A server that is reached but fails each call: the output of commands has their own messages, not the server's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.cli.conftest import program

ANSWERED = ("/GetSystemInfo", "/DescribeNamespace")
"""The calls that a client makes when it connects."""


class Failing(grpc.GenericRpcHandler):
    """A server that answers only the calls of a connection."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        answers = handler_call_details.method.endswith(ANSWERED)
        return grpc.unary_unary_rpc_method_handler(self.answer if answers else self.fail)

    @staticmethod
    def answer(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        return b""

    @staticmethod
    def fail(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        raise AssertionError


@pytest.fixture
def failing() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Failing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("command", [("describe", "pod", "web"), ("get", "nodes")])
def test_a_failing_server_is_named_and_the_sdk_prints_nothing_of_its_tries(
    failing: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    """Its core logs each call that it has tried five times, in colours, and on standard output."""
    environ = {"TEMPORAL_ADDRESS": failing, "SYNCPOD_STATE_DIR": str(tmp_path)}
    told = program(*command, environ=environ)
    assert (told.code, told.out, told.err) == (1, "", f"syncpod: the Temporal server at {failing} fails: later\n")
