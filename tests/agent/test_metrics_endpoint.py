"""The node's metrics over HTTP: contents, access, and counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from syncpod import http_server
from syncpod.agent import bound_port
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping import readings as module
from syncpod.agent.scraping.endpoint import NodeEndpoint
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.terminations import Terminations
from syncpod.kernel.callers import AT_ONCE, OF_A_STRANGER
from syncpod.kernel.peers import Peer, find_peer
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import PodRef
from tests.agent.node_endpoint import Measuring, node_endpoint, node_of
from tests.agent.published import OfNoPod
from tests.agent.waiting import until

CRASHES = {
    "metadata": {"namespace": "default", "name": "web", "uid": "u1", "creationTimestamp": "2026-11-22T10:00:00Z"},
    "spec": {"containers": [{"name": "app", "image": "busybox"}], "nodeName": "edge"},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {
                "name": "app",
                "restartCount": 7,
                "ready": False,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "containerID": "x://7"}},
            }
        ],
    },
}


@dataclass
class Shown(OfNoPod):
    """A state that a workflow has published."""

    document: dict[str, Any]
    uid: str = "u1"
    at: datetime = datetime(2026, 11, 22, tzinfo=UTC)
    history_length: int = 7
    reads: int = 0
    is_gone: bool = False
    is_unready: bool = False

    def pod(self) -> dict[str, Any]:
        self.reads += 1
        return self.document


def ended(id_: str, code: int, *, uid: str = "u1") -> Shown:
    """Return a pod whose container has ended."""
    state = {"terminated": {"exitCode": code, "reason": "Error", "containerID": id_}}
    return Shown({"metadata": {"uid": uid}, "status": {"containerStatuses": [{"name": "app", "state": state}]}}, uid)


@dataclass
class Node:
    """A node's endpoint, and what it serves."""

    published: PublishedPods
    endpoint: NodeEndpoint
    obstacles: list[str]
    counted: Counter[tuple[str, str, str]]
    probes: ProbeCounts
    runtime: Measuring
    directory: Path
    listings: list[ObservedPod]
    host: str = ""
    port: int = 0

    async def get(self, path: str, *, host: str = "", method: str = "GET") -> tuple[int, str]:
        """Return status and body."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.port}'}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split(" ")[1]) if head else 0, body

    async def series(self) -> dict[tuple[str, str], float]:
        """Return the values of the pods' series, by name and the last label of the series."""
        _, text = await self.get("/metrics")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        own = {"reason", "phase", "condition", "container"}
        return {
            (each.name, max((each.labels[name] for name in own & set(each.labels)), key=len, default="")): each.value
            for each in samples
            if each.name.startswith("kube_pod_")
        }


@asynccontextmanager
async def serving(tmp_path: Path, peer_of: Any = find_peer, *, host: str = "127.0.0.1") -> AsyncIterator[Node]:
    published, obstacles, counted = PublishedPods(node_of(tmp_path)), list[str](), Counter[tuple[str, str, str]]()
    probes, runtime, listings = ProbeCounts(), Measuring(), list[ObservedPod]()
    endpoint = node_endpoint(
        host,
        0,
        tmp_path,
        published,
        obstacles=lambda: obstacles,
        terminations=Terminations(lambda *labels: counted.update([labels])),
        probes=probes,
        runtime=runtime,
        listings=lambda: listings,
        peer_of=peer_of,
    )
    node = Node(published, endpoint, obstacles, counted, probes, runtime, tmp_path, listings)
    running = asyncio.create_task(endpoint.run())
    await until(lambda: endpoint.address is not None)
    assert endpoint.address is not None
    node.host, node.port = endpoint.address
    yield node
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the cache of one second, so that tests see their changes at once."""
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)


async def test_many_requests_are_answered_with_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRESH_SECONDS", 3600.0)
    made = Counter[int]()
    real = module._rendered

    def rendered(*told: Any) -> bytes:
        made.update([1])
        return real(*told)

    monkeypatch.setattr(module, "_rendered", rendered)
    async with serving(tmp_path) as node:
        answers = await asyncio.gather(*(node.get("/metrics") for _ in range(20)))
    assert [status for status, _ in answers] == [200] * 20
    assert made.total() == 1


async def test_the_series_of_pods_are_those_of_kube_state_metrics(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        node.published.take("pod/default/web", "run", Shown(CRASHES))
        node.published.take("node/edge", "run", Shown({}, uid=""))
        series = await node.series()
        assert series["kube_pod_container_status_waiting_reason", "CrashLoopBackOff"] == 1
        assert series["kube_pod_container_status_restarts_total", "app"] == 7
        assert series["kube_pod_container_status_last_terminated_exitcode", "app"] == 3
        phases = {label: value for (name, label), value in series.items() if name == "kube_pod_status_phase"}
        assert phases == {"Pending": 0, "Running": 1, "Succeeded": 0, "Failed": 0, "Unknown": 0}
        assert series["kube_pod_status_ready", "false"] == 1 and series["kube_pod_status_ready", "true"] == 0
        assert series["kube_pod_created", ""] == datetime(2026, 11, 22, 10, tzinfo=UTC).timestamp()

        node.published.take("pod/default/web", "run", Shown({}, is_gone=True))
        assert await node.series() == {}


async def test_a_state_is_read_once_however_often_it_is_scraped(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        node.published.take("pod/default/web", "run", shown := Shown(CRASHES))
        for _ in range(3):
            assert await node.series()
        assert shown.reads == 1


async def test_each_end_is_counted_once_and_none_from_before_the_first_state(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        for state in (ended("a", 1), ended("a", 1), ended("b", 2), ended("c", 2), ended("c", 2)):
            node.published.take("pod/default/web", "run", state)
        node.published.take("pod/default/other", "run", ended("d", 9, uid="u2"))
        await node.get("/metrics")
        await node.get("/metrics")
        assert node.counted == {("container", "2", "Error"): 2}


async def test_health_readiness_and_what_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        assert await node.get("/healthz") == (200, "ok")
        assert await node.get("/readyz?verbose") == (200, "ok")
        ready = await node.get("/metrics")
        node.obstacles.append("the runtime does not answer")
        assert "\nsyncpod_node_ready 1.0\n" in ready[1]
        assert await node.get("/readyz") == (503, "the runtime does not answer")
        assert "\nsyncpod_node_ready 0.0\n" in (await node.get("/metrics"))[1]
        assert (await node.get("/podz"))[0] == 404
        assert (await node.get("/metrics", method="POST"))[0] == 405
        assert (await node.get("/metrics", method="HEAD")) == (200, "")


async def test_a_web_page_cannot_read_it(tmp_path: Path) -> None:
    """A page whose name leads to the loopback sends that name as Host."""
    async with serving(tmp_path) as node:
        for host in ("evil.example", f"evil.example:{node.port}", "127.0.0.1.evil.example"):
            assert (await node.get("/metrics", host=host))[0] == 403, host
        for host in ("127.0.0.1", f"localhost:{node.port}", f"[::1]:{node.port}"):
            assert (await node.get("/metrics", host=host))[0] == 200, host


async def test_strangers_that_say_nothing_leave_room(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_SECONDS", 60.0)
    silent: Sequence[asyncio.StreamWriter] = ()
    strange: set[int] = set()

    def peer_of(client: tuple[str, int], server: tuple[str, int]) -> Peer | None:
        return Peer(4242, 1) if client[1] in strange else find_peer(client, server)

    async with serving(tmp_path, peer_of) as node:
        for _ in range(2 * AT_ONCE):
            own = await asyncio.get_running_loop().run_in_executor(None, _bound_socket)
            strange.add(own.getsockname()[1])
            await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", node.port))
            silent = (*silent, (await asyncio.open_connection(sock=own))[1])
        assert len(silent) > OF_A_STRANGER
        assert await node.get("/healthz") == (200, "ok")
        for writer in silent:
            writer.close()


def _bound_socket() -> Any:
    import socket

    own = socket.socket()
    own.setblocking(False)
    own.bind(("127.0.0.1", 0))
    return own


async def test_an_ipv6_address_is_served(tmp_path: Path) -> None:
    async with serving(tmp_path, host="::1") as node:
        assert await node.get("/healthz") == (200, "ok")


async def test_a_port_that_another_has_is_tried_again(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(bound_port, "_LISTEN_SECONDS", 0.01)
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    published = PublishedPods(node_of(tmp_path))
    endpoint = node_endpoint("127.0.0.1", port, tmp_path, published, terminations=Terminations(lambda *_: None))
    running = asyncio.create_task(endpoint.run())
    await until(lambda: "cannot be served" in caplog.text)
    taken.close()
    await taken.wait_closed()
    await until(lambda: endpoint.address is not None)
    assert caplog.text.count("cannot be served") == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_caller_who_does_not_read_the_answer_has_no_room_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_SECONDS", 0.2)
    async with serving(tmp_path) as node:
        node.endpoint._readings._kept["metrics"] = float("inf"), b"x" * 2**24
        _, writer = await asyncio.open_connection(node.host, node.port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: node.endpoint._callers._open.total() == 1)
        await until(lambda: node.endpoint._callers._open.total() == 0)
        writer.close()


async def sent(node: Node, *parts: bytes, every: float = 0.0) -> bytes:
    """Send parts, one after the other; return what comes until the connection ends."""
    reader, writer = await asyncio.open_connection(node.host, node.port)
    with suppress(ConnectionError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)
    answer = b""
    with suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_connection_is_for_one_request_and_names_no_versions(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        answer = await sent(node, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        head, _, body = answer.partition(b"\r\n\r\n")
        names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
        assert body == b"ok"
        assert names == {b"content-type", b"content-length", b"connection", b"date"}
        assert b"Content-Length: 2\r\n" in answer and b"Content-Type: text/plain; charset=utf-8\r\n" in answer
        nonsense = await sent(node, b"\x16\x03\x01 HTTP\r\n\r\n")
        assert nonsense.startswith(b"HTTP/1.0 400") and b"aiohttp" not in nonsense


async def test_a_head_is_bounded_in_each_line_and_in_their_number(tmp_path: Path, caplog: Any) -> None:
    async with serving(tmp_path) as node:
        begin = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        assert (await sent(node, begin + b"X: " + b"x" * 8_000 + b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for huge in (
            b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            begin + b"X: " + b"x" * 20_000 + b"\r\n\r\n",
            begin + b"".join(b"X-%d: x\r\n" % number for number in range(100)) + b"\r\n",
        ):
            assert b" 400 " in (await sent(node, huge)).partition(b"\r\n")[0]
        assert await node.get("/healthz") == (200, "ok")
    assert "Traceback" not in caplog.text


async def test_a_client_that_sends_a_byte_at_a_time_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_SECONDS", 0.2)
    async with serving(tmp_path) as node:
        slow = (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", *(b"X" for _ in range(40)))
        async with asyncio.timeout(5):
            assert await sent(node, *slow, every=0.03) == b""
        await until(lambda: node.endpoint._callers._open.total() == 0)
        assert await node.get("/healthz") == (200, "ok")


async def test_a_token_that_is_no_text_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        shown = b"GET /pods HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n"
        assert (await sent(node, shown)).startswith(b"HTTP/1.1 401")


async def test_the_probes_of_a_pod_are_counted_as_long_as_it_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        node.published.take("pod/default/web", "run", Shown(CRASHES))
        for seconds, result in ((0.02, "successful"), (30.0, "failed")):
            node.probes.count("liveness", result, PodRef(namespace="default", name="web", uid="u1"), "app", seconds)
        for number in range(2500):
            gone = PodRef(namespace="default", name=f"job-{number}", uid=f"gone-{number}")
            node.probes.count("readiness", "failed", gone, "app", 0.1)
        _, text = await node.get("/metrics")
    told = {
        (each.name, each.labels.get("result", each.labels.get("le"))): (each.labels["pod"], each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name.startswith("prober_")
    }
    assert {pod for pod, _ in told.values()} == {"web"}
    assert told["prober_probe_total", "failed"] == told["prober_probe_total", "successful"] == ("web", 1.0)
    buckets = {le: value for (name, le), (_, value) in told.items() if name == "prober_probe_duration_seconds_bucket"}
    assert (buckets["0.01"], buckets["0.025"], buckets["10.0"], buckets["+Inf"]) == (0.0, 1.0, 1.0, 2.0)
    assert told["prober_probe_duration_seconds_sum", None] == ("web", 30.02)
