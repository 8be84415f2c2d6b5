"""Row 54: hooks that need no container: httpGet with and without TLS, and sleep. Hooks with commands are in e2e."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
from aiohttp import web

from syncpod.cri.port import CriRuntime
from syncpod.handlers.hook import HookFailed, failure_message, run_hook
from syncpod.pod import ExecAction, HTTPGetAction, LifecycleHandler, SleepAction, TCPSocketAction
from tests.handlers.test_probe_handlers import answering, raw, serving, target

ABOUT = 'for Container "web" in Pod "pod_default(uid)" failed - error:'


async def carried_out(handler: LifecycleHandler, port: int = 0) -> str:
    return await run_hook(handler, target(web=port), create_autospec(CriRuntime, instance=True))


def get(scheme: str = "HTTP") -> LifecycleHandler:
    return LifecycleHandler(http_get=HTTPGetAction.model_validate({"path": "/bye", "port": "web", "scheme": scheme}))


async def test_an_http_hook_sends_the_kubelets_headers_and_reports_nothing_on_success() -> None:
    """Row 54: httpGet."""
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers["User-Agent"]))
        return web.Response(text="bye")

    async with serving(answer) as port:
        assert await carried_out(get(), port) == ""
    [(path, agent)] = asked
    assert path == "/bye"
    assert agent.startswith("kube-lifecycle/")


async def test_an_https_hook_falls_back_to_http_once_and_reports_it() -> None:
    """Row 54: LifecycleHTTPFallback, once."""
    async with serving(answering(200)) as port:
        told = await carried_out(get("HTTPS"), port)
    assert told == "request to HTTPS lifecycle hook 127.0.0.1:web got HTTP response, retry with HTTP succeeded"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 20000\r\n\r\nhalf",
        b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n",
    ],
)
async def test_any_http_response_counts_as_a_successful_hook(answer: bytes) -> None:
    """Row 54: the status of the response does not matter."""
    async with raw(answer) as (port, _):
        assert await carried_out(get(), port) == ""


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
async def test_an_unanswered_http_hook_fails(scheme: str) -> None:
    with pytest.raises(HookFailed, match="connection refused"):
        await carried_out(get(scheme), port=1)


async def test_a_redirect_to_an_invalid_url_fails_the_hook() -> None:
    async with raw(b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n") as (port, _):
        with pytest.raises(HookFailed, match="failed to parse Location header"):
            await carried_out(get(), port)


async def test_a_sleep_hook_succeeds_after_its_seconds() -> None:
    """Row 54: sleep, even for zero seconds."""
    assert await carried_out(LifecycleHandler(sleep=SleepAction(seconds=0))) == ""


async def test_a_tcp_hook_is_refused() -> None:
    with pytest.raises(HookFailed, match="invalid handler"):
        await carried_out(LifecycleHandler(tcp_socket=TCPSocketAction(port=80)))


@pytest.mark.parametrize(
    ("handler", "failed", "said"),
    [
        (
            LifecycleHandler(exec=ExecAction(command=("sh", "-c", "exit 3"))),
            HookFailed("command 'sh -c exit 3' exited with 3: no\n", 'one "two"\nno\n'),
            f"Exec lifecycle hook ([sh -c exit 3]) {ABOUT} command 'sh -c exit 3' exited with 3: no\n"
            r', message: "one \"two\"\nno\n"',
        ),
        (get(), HookFailed("no answer"), f"HTTP lifecycle hook (/bye) {ABOUT} no answer"),
        (LifecycleHandler(sleep=SleepAction(seconds=5)), HookFailed("cut"), f"Sleep lifecycle hook (5) {ABOUT} cut"),
        (LifecycleHandler(tcp_socket=TCPSocketAction(port=80)), HookFailed("none"), "Cannot run handler: none"),
    ],
)
def test_the_message_of_a_failed_hook_is_the_kubelets(handler: LifecycleHandler, failed: HookFailed, said: str) -> None:
    """Row 53: the waiting message of a container whose postStart hook has failed."""
    assert failure_message(handler, "web", "pod_default(uid)", failed) == said
