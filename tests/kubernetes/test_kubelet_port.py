"""The kubelet's port: authorization, answers, and limits for hostile clients.

Holds: The kubelet's port answers nobody whom the API server has not let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from syncpod.agent.kubelet_port import listener as module
from syncpod.agent.kubelet_port.access import ANONYMOUS, Guard
from syncpod.api.statuses import ApiError
from syncpod.kubernetes.reviews import access_of, known_user
from syncpod.settings.node import PortAccess
from tests.agent.waiting import until
from tests.kubernetes.api_server import Fault
from tests.kubernetes.kubelet_port import Authority, Node, node, read_answer
from tests.unpacking import BODY, recorded


@pytest_asyncio.fixture
async def n1(tmp_path: Path) -> AsyncIterator[Node]:
    async with node(tmp_path) as found:
        yield found


# --- who may ask ------------------------------------------------------------------------------------------------------


async def test_whoever_is_not_known_is_refused(n1: Node) -> None:
    for answered in (await n1.ask("/healthz"), await n1.ask("/healthz", token="x"), await n1.ask("/nothing")):
        assert (answered.code, answered.text) == (401, "Unauthorized")
        assert "www-authenticate" in answered.headers


async def test_a_certificate_of_the_cluster_is_whose_name_it_has_with_its_organizations_as_groups(n1: Node) -> None:
    answered = await n1.ask("/healthz", pair=n1.master)
    assert (answered.code, answered.text) == (200, "ok")
    (review, *_) = n1.api.reviews
    assert review["spec"]["groups"] == ["system:masters", "system:authenticated"]
    assert review["spec"]["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


async def test_a_certificate_of_somebody_else_or_one_that_has_ended_is_not_taken(n1: Node) -> None:
    for pair in (Authority().issue("admin", "system:masters"), n1.authority.issue("admin", "system:masters", days=-1)):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await n1.ask("/healthz", pair=pair)
    assert n1.api.reviews == []
    nameless = await n1.ask("/healthz", pair=n1.authority.issue("", "system:masters"))
    assert nameless.code == 401


async def test_a_token_is_reviewed_once_and_what_its_owner_may_do_is_asked_once(n1: Node) -> None:
    n1.api.users["good"] = {"username": "reader", "uid": "7", "groups": ["readers"], "extra": {"scope": ["a"]}}
    n1.api.allowed.add(("reader", "get", "metrics"))
    for _ in range(3):
        assert (await n1.ask("/metrics/probes", token="good")).code == 200
    assert [review["kind"] for review in n1.api.reviews] == ["TokenReview", "SubjectAccessReview"]
    spec = n1.api.reviews[1]["spec"]
    assert (spec["user"], spec["uid"], spec["extra"]) == ("reader", "7", {"scope": ["a"]})
    assert spec["groups"] == ["readers", "system:authenticated"]
    refused = await n1.ask("/pods", token="good")
    said = "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[pods proxy])"
    assert (refused.code, refused.text) == (403, said)


async def test_an_answer_holds_for_as_long_as_with_a_kubelet(n1: Node) -> None:
    now = 0.0
    async with contextlib.AsyncExitStack() as stack:
        from syncpod.kubernetes.client import ApiClient
        from syncpod.kubernetes.kubeconfig import read_kubeconfig

        config = read_kubeconfig(n1.directory / "node.conf")
        client = await stack.enter_async_context(ApiClient(config, user_agent="test"))
        guard = Guard(client, "n1", clock=lambda: now)
        n1.api.users["good"] = {"username": "reader"}
        await guard.user(None, "Bearer good")
        del n1.api.users["good"]
        now = 119.0
        await guard.user(None, "Bearer good")
        now = 121.0
        with pytest.raises(ApiError):
            await guard.user(None, "Bearer good")
        user, pods = known_user("reader"), access_of("GET", "/pods")
        with pytest.raises(ApiError):
            await guard.require(user, pods)
        n1.api.allowed.add(("reader", "get", "pods"))
        now += 29
        with pytest.raises(ApiError):
            await guard.require(user, pods)
        now += 2
        await guard.require(user, pods)
        n1.api.allowed.clear()
        now += 299
        await guard.require(user, pods)
        now += 2
        with pytest.raises(ApiError):
            await guard.require(user, pods)


async def test_while_the_api_server_does_not_answer_nobody_is_let_in(n1: Node) -> None:
    n1.api.faults.append(Fault("POST", "tokenreviews", "500"))
    assert (await n1.ask("/healthz", token="good")).code == 401
    n1.api.faults.append(Fault("POST", "subjectaccessreviews", "500"))
    refused = await n1.ask("/healthz", pair=n1.master)
    assert refused.code == 500 and refused.text.startswith("Authorization error (user=kube-apiserver-kubelet-client")
    assert (await n1.ask("/healthz", pair=n1.master)).code == 200


@pytest.mark.parametrize(
    ("method", "path", "verb", "subresources"),
    [
        ("GET", "/healthz", "get", ("healthz", "proxy")),
        ("GET", "/pods", "get", ("pods", "proxy")),
        ("GET", "/runningpods", "get", ("pods", "proxy")),
        ("GET", "/configz", "get", ("configz", "proxy")),
        ("GET", "/metrics/cadvisor", "get", ("metrics",)),
        ("GET", "/metricsx", "get", ("proxy",)),
        ("GET", "/stats/summary", "get", ("stats",)),
        ("GET", "/logs/kubelet.log", "get", ("log",)),
        ("POST", "/checkpoint/a/b/c", "create", ("checkpoint",)),
        ("GET", "/containerLogs/a/b/c", "get", ("proxy",)),
        ("POST", "/exec/a/b/c", "create", ("proxy",)),
        ("GET", "/exec/a/b/c", "create", ("proxy",)),
        ("GET", "/attach/a/b/c", "create", ("proxy",)),
        ("GET", "/portForward/a/b", "create", ("proxy",)),
        ("DELETE", "/pods", "delete", ("pods", "proxy")),
    ],
)
def test_each_path_needs_its_own_permission(method: str, path: str, verb: str, subresources: tuple[str, ...]) -> None:
    found = access_of(method, path)
    assert (found.verb, found.subresources) == (verb, subresources)


async def test_where_a_person_has_opened_it_nobody_in_particular_may_ask_and_the_api_server_still_says_what(
    tmp_path: Path,
) -> None:
    async with node(tmp_path, PortAccess(anonymous=True)) as opened:
        assert (await opened.ask("/metrics")).code == 403
        opened.api.allowed.add(("system:anonymous", "get", "healthz"))
        assert (await opened.ask("/healthz")).code == 200
        assert opened.api.reviews[-1]["spec"]["groups"] == ["system:unauthenticated"]
        assert (await opened.ask("/healthz", token="nobody's")).code == 401


async def test_without_reviews_a_token_is_nobodys(tmp_path: Path) -> None:
    async with node(tmp_path, PortAccess(reviews_tokens=False)) as n1:
        n1.api.users["good"] = {"username": "reader"}
        assert (await n1.ask("/healthz", token="good")).code == 401
        assert n1.api.reviews == []


async def test_a_node_without_a_cluster_asks_nobody_where_everything_is_allowed() -> None:
    access = PortAccess(anonymous=True, reviews_tokens=False, always_allow=True)
    guard = Guard(None, "n1", access)
    user = await guard.user(None, "Bearer something")
    assert user == ANONYMOUS
    await guard.require(user, access_of("POST", "/exec/default/web/app"))
    with pytest.raises(ApiError):
        await Guard(None, "n1", replace(access, anonymous=False)).user(None, "")


async def test_at_the_port_for_reading_anybody_reads_and_nothing_else(n1: Node) -> None:
    running = asyncio.create_task(n1.port.run_readable(["127.0.0.1"], 0))
    await until(lambda: n1.port.readable is not None and bool(n1.port.readable.ports))
    for path in ("/healthz", "/pods", "/pods/", "/stats/summary", "/metrics", "/metrics/resource", "/metrics/cadvisor"):
        assert (await n1.read(path)).code == 200, path
    for path in ("/configz", "/containerLogs/default/web/app", "/exec/default/web/app", "/runningpods", "/nothing"):
        assert (await n1.read(path)).code == 404, path
    assert n1.api.reviews == []
    running.cancel()


# --- what is answered -------------------------------------------------------------------------------------------------


async def test_each_reader_of_a_kubelet_finds_what_it_reads(n1: Node) -> None:
    n1.api.allowed |= {("kube-apiserver-kubelet-client", "get", name) for name in ("metrics", "stats")}
    pair = n1.master
    for path, content in (
        ("/metrics", "kubelet_running_pods"),
        ("/metrics/cadvisor", "machine_cpu_cores"),
        ("/metrics/resource", "node_cpu_usage_seconds_total"),
        ("/metrics/probes", ""),
        ("/pods", '"kind":"PodList"'),
        ("/pods/", '"kind":"PodList"'),
        ("/runningpods/", '"kind":"PodList"'),
        ("/stats/summary", '"nodeName":"n1"'),
        ("/stats/summary?only_cpu_and_memory=true", '"nodeName":"n1"'),
        ("/configz", '{"kubeletconfig":{"kind":"KubeletConfiguration"}}'),
        ("/healthz", "ok"),
    ):
        answered = await n1.ask(path, pair=pair)
        assert answered.code == 200 and content in answered.text, path
    short = (await n1.ask("/stats/summary?only_cpu_and_memory=true", pair=pair)).json
    assert set(short["node"]) <= {"nodeName", "startTime", "cpu", "memory"}


async def test_what_is_not_offered_is_refused_with_a_sentence(n1: Node) -> None:
    n1.api.allowed |= {
        ("kube-apiserver-kubelet-client", verb, name)
        for verb in ("get", "create", "delete")
        for name in ("log", "checkpoint", "pods", "proxy")
    }
    pair, log = n1.master, "/containerLogs/default/web/app"
    for method, path, code, said in (
        ("GET", "/logs/", 405, "logs endpoint is disabled."),
        ("POST", "/logs/", 405, "logs endpoint is disabled."),
        ("POST", log, 405, f"405: Method Not Allowed: {log} answers GET"),
        ("POST", "/checkpoint/default/web/app", 404, "containers are not checkpointed on this node"),
        ("GET", "/debug/pprof/", 404, "404 page not found"),
        ("GET", "/allocatedPods", 404, "404 page not found"),
        ("DELETE", "/pods", 405, "405: Method Not Allowed: /pods answers GET"),
        ("GET", "/exec/default/web/app", 400, "Upgrade request required"),
    ):
        answered = await n1.ask(path, pair=pair, method=method)
        assert (answered.code, answered.text) == (code, said)


async def test_http_1_is_spoken_and_a_connection_is_used_again(n1: Node) -> None:
    reader, writer = await n1.connect(n1.master)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    for _ in range(3):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\n\r\n")
        answer = await read_answer(reader)
        assert answer.body == b"ok"
        assert "server" not in {name.lower() for name in answer.headers}, "no versions for strangers"
    writer.close()


# --- hostile peers ----------------------------------------------------------------------------------------------------


async def test_a_peer_that_says_nothing_is_given_up(n1: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, in and after the handshake."""
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.3)
    silent, _ = await asyncio.open_connection("127.0.0.1", n1.number)
    with contextlib.suppress(ConnectionError):
        assert await silent.read() == b""


async def test_heads_and_headers_are_bounded(n1: Node) -> None:
    for head in (
        b"GET /" + b"x" * 2**20,
        b"GET / HTTP/1.1\r\nHost: n1\r\nX: " + b"x" * 2**20,
        b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 10_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n" + (b"X: " + b"x" * 30_000 + b"\r\n") * 60 + b"\r\n",
    ):
        reader, writer = await n1.connect(n1.master)
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            answered = await reader.read()
            assert answered == b"" or answered.startswith(b"HTTP/1.0 400") or answered.startswith(b"HTTP/1.1 400")
        writer.transport.abort()
    assert (await n1.ask("/healthz", pair=n1.master)).code == 200


async def refused(n1: Node) -> None:
    """Assert that a connection is closed at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", n1.number)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_strangers_have_only_so_many_connections_and_whoever_is_known_has_more(
    n1: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OF_ONE_ADDRESS", 3)
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 600.0)
    known = []
    for _ in range(5):  # each is trusted before the next comes
        reader, writer = await n1.connect(n1.master)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\n\r\n")
        assert (await read_answer(reader)).code == 200
        known.append(writer)
    listener = n1.port.listener
    assert listener is not None
    strangers = [(await asyncio.open_connection("127.0.0.1", n1.number))[1] for _ in range(3)]
    await until(lambda: listener._open == 8)
    await refused(n1)
    for writer in known:
        writer.transport.abort()
    await until(lambda: listener._open == 3)
    await refused(n1)  # who was known has left no room for one more stranger
    for writer in strangers:
        writer.transport.abort()
    await until(lambda: listener._open == 0 and listener._strangers.total() == 0)
    assert (await n1.ask("/healthz", pair=n1.master)).code == 200


async def test_a_body_that_nobody_asked_for_is_not_kept(n1: Node) -> None:
    reader, writer = await n1.connect(n1.master)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: n1\r\nContent-Length: 1000000000\r\n\r\n")
    assert (await read_answer(reader)).code == 200
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"x" * 2**16)
            await writer.drain()
            await asyncio.sleep(0.001)


async def test_a_compressed_body_is_not_unpacked(n1: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of 11 MB from strangers, unpacked on the event loop, stopped it for 41 s."""
    sizes = recorded(monkeypatch)
    for pair in ("", n1.master):
        reader, writer = await n1.connect(pair)
        head = f"POST /healthz HTTP/1.1\r\nHost: n1\r\nContent-Encoding: gzip\r\nContent-Length: {len(BODY)}"
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + BODY)
        assert (await read_answer(reader)).code == (405 if pair else 401)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()
    assert sizes == []
