"""A Secret that a pod uses in every possible way stays on its node: the test searches all other data for it.

Holds: A Secret never leaves its own node.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from syncpod.messages.identity import pod_workflow_id
from syncpod.redaction import HEAD
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until_asked
from tests.cli.conftest import Result, program
from tests.e2e.clients import machine_of
from tests.e2e.engine import PATIENCE, RUNS, engine_node, shell, status_of
from tests.e2e.quoting_server import WAYS, QuotingServer
from tests.e2e.searching import CommandLines, files_with, forms, found_in
from tests.fork_server import start_worker
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.collector import Collector
from tests.worker.node_process import NodeProcess

USES = 'echo "$TOKEN|$token|$(cat /keys/token)|$(cat /all/keys/token)|$(cat /part)" | sha256sum; '
"""A script that prints a hash of what it sees, so that its log does not reveal it."""


class Exports(Collector):
    """A collector that keeps everything it receives, unparsed."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__()

    def take(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        super().take(path, body)


class ClosedRegistry:
    """An image registry on loopback that accepts no password, and records the received ones."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server calls
                registry.shown.add(self.headers.get("Authorization", ""))
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="private"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def announce_to(self, runtime: Runtime) -> None:
        """Tell the runtime that this registry uses HTTP, if the runtime would not assume that."""
        told = runtime.directory / "registries" / self.address / "hosts.toml"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f'server = "http://{self.address}"\n')

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def registry(runtime: Runtime) -> Iterator[ClosedRegistry]:
    closed = ClosedRegistry()
    closed.announce_to(runtime)
    yield closed
    closed.close()


@dataclass
class Here:
    """Runs a node's commands, and collects all their output."""

    environ: dict[str, str]
    said: list[str] = field(default_factory=list)

    async def run(self, *command: str, stdin: str = "") -> Result:
        result = await asyncio.to_thread(program, *command, environ=self.environ, stdin=stdin)
        self.said.append(result.out + result.err)
        return result


def objects(token: str, registry: str) -> list[dict[str, Any]]:
    """Two Secrets with the token, one in clear and one encoded: one for use in the pod, one for pulls."""
    login = {"auths": {registry: {"username": "me", "password": token}}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"token": token}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(json.dumps(login).encode()).decode()},
        },
    ]


def pod(name: str, registry: str, *, absent: str) -> dict[str, Any]:
    """A pod that uses the Secrets in every way, some of which fail. `absent` is a program that does not exist."""
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
    volumes = {"name": "keys", "mountPath": "/keys"}, {"name": "all", "mountPath": "/all"}
    part = {"name": "keys", "mountPath": "/part", "subPath": "token"}
    uses = {"envFrom": [{"secretRef": {"name": "keys"}}], "env": env, "volumeMounts": [*volumes, part]}
    climbs = {"name": "scratch", "mountPath": "/x", "subPathExpr": "$(DOTS)/$(TOKEN)"}
    dots = {"name": "DOTS", "value": ".."}
    tells = {"exec": {"command": ["sh", "-c", "cat /keys/token; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
    missing = [{"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "none"}}}]
    private = {"name": "private", "image": f"{registry}/private:1", "command": ["sh", "-c", RUNS]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
            "imagePullSecrets": [{"name": "login"}],
            "containers": [
                shell("runs", USES + RUNS, **uses),
                shell("crashes", USES + "exit 3", **uses),
                {"name": "fails", "image": BUSYBOX, "command": [absent], "env": env},
                shell("climbs", env=[*env, dots], volumeMounts=[climbs]),
                shell("lacks", env=missing),
                shell("asked", readinessProbe=tells, volumeMounts=[volumes[0]]),
                private,
            ],
            "volumes": [
                {"name": "keys", "secret": {"secretName": "keys"}},
                {"name": "all", "projected": {"sources": [{"secret": {"name": "keys", "items": KEYS}}]}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    }


KEYS = [{"key": "token", "path": "keys/token"}]
WRONG = (
    {"data": {"token": "{token}!not base64"}},
    {"data": {"token": ["{token}"]}},
    {"stringData": {"token": {"nested": "{token}"}}},
    {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{token}"}},
)
"""Secrets that are refused; the refusal must not reveal their content."""


def test_the_search_finds_a_text_in_every_encoding() -> None:
    text = secrets.token_hex(12)
    planted = (
        f"a {text} b",
        json.dumps({"x": base64.b64encode(f"{{'password': '{text}'}}".encode()).decode()}),
        *(base64.b64encode(f"{'x' * shift}{text}-more".encode()).decode() for shift in range(6)),
        text.encode().hex(),
        "".join(f"%{ord(each):02X}" for each in text),
    )
    assert [found_in(each.encode(), text) for each in planted] == [True] * len(planted)
    assert not found_in(" ".join(planted).encode(), secrets.token_hex(12))
    assert min(map(len, forms(text))) >= 20


async def test_the_refusal_of_a_secret_does_not_show_it(tmp_path: Path) -> None:
    here = Here({"SYNCPOD_STATE_DIR": str(tmp_path / "state"), "SYNCPOD_MEMORY_DIR": str(tmp_path / "memory")})
    token = secrets.token_hex(12)
    for wrong in WRONG:
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wrong"}, **wrong}
        refused = await here.run("apply", "-f", "-", stdin=json.dumps(document).replace("{token}", token))
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1), refused.err
    assert [said for said in here.said if found_in(said.encode(), token)] == []
    assert files_with(token, tmp_path) == []


async def test_a_secret_appears_in_no_history_log_trace_or_file(
    runtime: Runtime, temporal_server: DevServer, registry: ClosedRegistry, tmp_path: Path
) -> None:
    """The pod's name is the control: the same search must find it in each of the same places."""
    token, name = f"tk{secrets.token_hex(14)}", f"stays-{secrets.token_hex(12)}"
    with Exports() as exports, CommandLines() as lines:
        exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": exports.endpoint}
        async with engine_node(runtime, temporal_server, tmp_path, **exported) as engine:
            worker, here = engine.worker, Here({**machine_of(engine), **exported})
            # containerd's own log names the program that it could not execute.
            absent = "/no/$(TOKEN)" if runtime.name == "embedded" else "/no/such/program"
            items = [*objects(token, registry.address), pod(name, registry.address, absent=absent)]
            manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            assert (await here.run("apply", "-f", "-", stdin=manifest)).code == 0, here.said[-1]
            history = await live(here, engine.client, name, token)
            left = files_with(token, worker.state_dir, tmp_path / "logs")
            assert files_with(token, tmp_path / "memory"), "the node itself has it"
            assert (await here.run("delete", "-f", "-", stdin=manifest)).code == 0, here.said[-1]
            await until_forgotten(token, tmp_path / "memory")
    if runtime.name != "embedded":
        [shown] = registry.shown - {""}
        assert base64.b64decode(shown.removeprefix("Basic ")).decode() == f"me:{token}", "it was pulled with"

    database = tuple(temporal_server.directory.glob("temporal.db*"))
    for text, is_there in ((name, True), (token, False)):
        places = {
            "the database": bool(files_with(text, *database)),
            "the worker's log": bool(files_with(text, worker.log)),
            "spans": any(found_in(body, text) for body in exports.bodies),
            "command lines": bool(lines.with_text(text)),
            "the history": found_in(history, text),
            "what commands say": found_in("".join(here.said).encode(), text),
        }
        assert places == dict.fromkeys(places, is_there)
    logs = (temporal_server.log, worker.output, worker.log, runtime.log)
    assert (files_with(token, *logs), left, files_with(token, tmp_path / "memory")) == ([], [], [])


async def until_forgotten(token: str, memory: Path) -> None:
    """Wait until a node without the Secret and without its pods has removed it from its memory."""

    async def has_nothing() -> bool:
        return files_with(token, memory) == []

    await until_asked(has_nothing, patience=PATIENCE)


async def test_a_server_that_a_probe_or_a_hook_asks_cannot_have_a_secret_written_down(
    embedded: Embedded, temporal_server: DevServer, tmp_path: Path
) -> None:
    """It quotes the Secret in all that it answers; where a message is cut there, not even the beginning is left."""
    token, name = f"tk{secrets.token_hex(30)}", f"quoted-{secrets.token_hex(12)}"
    with QuotingServer(token) as server, Exports() as exports:
        exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": exports.endpoint, "SYNCPOD_LOG_LEVEL": "DEBUG"}
        async with engine_node(embedded, temporal_server, tmp_path, **exported) as engine:
            worker, here = engine.worker, Here({**machine_of(engine)})
            wrong = {"httpGet": server.get("malformed")}
            env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
            hooked = shell("hooked", RUNS, env=env, lifecycle={"postStart": wrong, "preStop": wrong})
            ways = [shell(way, RUNS, readinessProbe=server.probe(way)) for way in (*WAYS, "grpc")]
            spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [hooked, *ways]}
            asked = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            manifest = json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": [objects(token, "none.invalid")[0], asked]}
            )
            assert (await here.run("apply", "-f", "-", stdin=manifest)).code == 0, here.said[-1]
            handle = engine.client.get_workflow_handle(pod_workflow_id("default", name))
            told: dict[str, str] = {}

            async def all_is_told() -> bool:
                for event in await handle.query("events"):
                    if event["reason"] in ("Unhealthy", "ProbeWarning", "FailedPostStartHook"):
                        told[event["container"]] = event["message"]
                return told.keys() == {"hooked", *WAYS, "grpc"}

            await until_asked(all_is_told, patience=PATIENCE)
            for command in (
                ("describe", "pod", name),
                ("get", "pod", name, "-o", "yaml"),
                ("history", name),
                ("explain", name),
            ):
                await here.run(*command)
            history = (await handle.fetch_history()).to_json().encode()
            assert (await here.run("delete", "-f", "-", stdin=manifest)).code == 0, here.said[-1]
            await until_forgotten(token, tmp_path / "memory")
    assert {way: "***" in said for way, said in told.items() if way != "hooked"} == dict.fromkeys((*WAYS, "grpc"), True)
    assert [way for way, said in told.items() if token[:3] in said] == []
    for text in (token, token[:HEAD]):
        places = {
            "the database": bool(files_with(text, *temporal_server.directory.glob("temporal.db*"))),
            "the journal and all else on disk": bool(files_with(text, worker.state_dir)),
            "the worker's log": bool(files_with(text, worker.log, worker.output)),
            "spans": any(found_in(body, text) for body in exports.bodies),
            "the history": found_in(history, text),
            "what commands say": found_in("".join(here.said).encode(), text),
        }
        assert places == dict.fromkeys(places, False)


@pytest.mark.parametrize("end", ["changed", "deleted"])
async def test_an_old_value_of_a_secret_stays_hidden_after_the_worker_is_killed(
    embedded: Embedded, temporal_server: DevServer, tmp_path: Path, end: str
) -> None:
    """Its container got the value earlier, and writes it at its end, when a worker runs that began after the change."""
    token, name, node = f"tk{secrets.token_hex(14)}", f"old-{secrets.token_hex(12)}", f"n-{secrets.token_hex(4)}"
    client = await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    here = Here(
        {
            **os.environ,
            "TEMPORAL_ADDRESS": temporal_server.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SYNCPOD_NODE": node,
            "SYNCPOD_STATE_DIR": str(tmp_path / "state"),
            "SYNCPOD_MEMORY_DIR": str(tmp_path / "memory"),
            "SYNCPOD_LOG_DIR": str(tmp_path / "logs"),
            "CONTAINER_RUNTIME_ENDPOINT": embedded.endpoint,
        }
    )
    (signs := tmp_path / "signs").mkdir()
    script = f'until [ -e {signs}/go ]; do sleep 0.1; done; echo "last words: $TOKEN"; exit 3'
    uses = {
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}],
        "volumeMounts": [{"name": "signs", "mountPath": str(signs)}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [shell("app", script, **uses)],
        "volumes": [{"name": "signs", "hostPath": {"path": str(signs)}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [objects(token, "none.invalid")[0], pod]})
    handle = client.get_workflow_handle(pod_workflow_id("default", name))
    seen: dict[str, Any] = {}

    async def state(which: str) -> dict[str, Any]:
        async def is_so() -> bool:
            seen.update(await handle.query("pod"))
            return which in status_of(seen, "app").get("state", {})

        await until_asked(is_so, patience=PATIENCE)
        return dict(status_of(seen, "app")["state"][which])

    with NodeProcess.of(embedded, temporal_server, tmp_path, node=node, start=start_worker) as first:
        await first.ready()
        assert (await here.run("apply", "-f", "-", stdin=manifest)).code == 0, here.said[-1]
        await state("running")
        first.kill()
        await first.ended()
    if end == "changed":
        changed = json.dumps(objects(f"other{secrets.token_hex(12)}", "none.invalid")[0])
        assert (await here.run("apply", "-f", "-", stdin=changed)).code == 0, here.said[-1]
    else:
        assert (await here.run("delete", "secret", "keys")).code == 0, here.said[-1]
    with NodeProcess.of(embedded, temporal_server, tmp_path, node=node, start=start_worker) as second:
        await second.ready()
        (signs / "go").touch()
        assert (await state("terminated"))["message"] == "last words: ***\n"

        async def is_journaled() -> bool:
            explained = await here.run("explain", name)
            return "last words: ***" in explained.out

        await until_asked(is_journaled, patience=PATIENCE)
        history = (await handle.fetch_history()).to_json().encode()
        assert files_with(token, tmp_path / "logs"), "its log has it, on the node"
        assert (await here.run("delete", "pod", name)).code == 0, here.said[-1]
        await until_forgotten(token, tmp_path / "memory")
        assert await second.stop() == 0
    assert not found_in(history, token)
    assert files_with(token, tmp_path / "state", *temporal_server.directory.glob("temporal.db*"), second.log) == []
    assert not found_in("".join(here.said).encode(), token)


async def live(here: Here, client: Client, name: str, token: str) -> bytes:
    """Let the pod go through all uses and failures while all commands read it; returns its history as JSON."""
    handle = client.get_workflow_handle(pod_workflow_id("default", name))
    seen: dict[str, Any] = {}

    async def all_has_happened() -> bool:
        seen.update(await handle.query("pod"))
        waiting = {
            container: status_of(seen, container).get("state", {}).get("waiting", {}).get("message", "")
            for container in ("fails", "climbs", "lacks")
        }
        return (
            "running" in status_of(seen, "runs").get("state", {})
            and status_of(seen, "crashes").get("restartCount", 0) > 0
            and all(waiting.values())
            and status_of(seen, "private").get("state", {}) != {}
            and any("probe failed: ***" in event["message"] for event in await handle.query("events"))
        )

    await until_asked(all_has_happened, patience=PATIENCE)
    hashed = hashlib.sha256((("|".join([token] * 5)) + "\n").encode()).hexdigest()
    logs = await here.run("logs", name, "-c", "runs")
    assert hashed in logs.out, "the container saw it in every way"
    for command in (
        ("get", "pod", name, "-o", "yaml"),
        ("describe", "pod", name),
        ("describe", "secret", "keys"),
        ("history", name, "-o", "json"),
    ):
        assert (await here.run(*command)).code == 0, here.said[-1]
    return (await handle.fetch_history()).to_json().encode()
