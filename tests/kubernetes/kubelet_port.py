"""A node's kubelet port at a free loopback port, with a minimal API server and clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncpod.agent.kubelet_port.access import Guard
from syncpod.agent.kubelet_port.port import KubeletPort, PortPlace
from syncpod.agent.kubelet_port.serving_certificate import own_pair, tls
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.terminations import Terminations
from syncpod.api.source import SourcePod
from syncpod.cri.errors import NotFound
from syncpod.cri.port import CriRuntime
from syncpod.kernel.memory_file import memory_file
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.pod_threads import PodThreads
from syncpod.settings.node import CLOSED, PortAccess
from tests.agent.node_endpoint import Measuring, node_of, node_readings
from tests.agent.published import OfNoPod
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, served, write_kubeconfig

MASTERS = "system:masters"


class Authority:
    """Issues certificates."""

    def __init__(self, name: str = "cluster-ca") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(name, (), self.key, is_ca=True, days=30)
        self.pem = self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, *groups: str, days: int = 1) -> str:
        """A client's certificate and key in PEM; with negative `days`, the certificate has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, groups, key, is_ca=False, days=days)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return (certificate.public_bytes(Encoding.PEM) + private).decode()

    def _signed(
        self, name: str, groups: Sequence[str], key: ec.EllipticCurvePrivateKey, *, is_ca: bool, days: int
    ) -> x509.Certificate:
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_ca else self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=20))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if not is_ca:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(self.key, hashes.SHA256())


@dataclass
class Pods:
    """The pods of the node: the part of a `PodSource` that the port uses."""

    pods: list[dict[str, Any]] = field(default_factory=list)

    def known_pods(self, namespace: str | None, names: Collection[str]) -> Sequence[SourcePod]:
        found = [each for each in self.pods if each["metadata"]["name"] in names]
        return [
            SourcePod(each["metadata"]["namespace"], each["metadata"]["name"], "run", OnePod(each))
            for each in found
            if each["metadata"]["namespace"] == namespace
        ]

    async def open_pods(self, namespace: str | None, names: Collection[str], **_: Any) -> Sequence[SourcePod]:
        return self.known_pods(namespace, names)


@dataclass(frozen=True)
class OnePod(OfNoPod):
    """The published state of a pod."""

    document: dict[str, Any]

    def pod(self) -> dict[str, Any]:
        return self.document


@dataclass
class Runtime(Measuring):
    """A runtime with these containers: the part that the port uses."""

    containers: dict[str, Any] = field(default_factory=dict)
    """The containers by id, with `name`, `state`, `attempt` and `log_path`."""
    sandboxes: list[Any] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    url: str = ""
    failure: Exception | None = None

    def __post_init__(self) -> None:
        super().__init__()

    async def container_status(self, container_id: str, *, verbose: bool = False) -> Any:
        if container_id not in self.containers:
            raise NotFound("container_status", "NOT_FOUND", "no such container")
        return SimpleNamespace(container=self.containers[container_id])

    async def list_containers(self, *, labels: Mapping[str, str]) -> Any:
        return tuple(each for each in self.containers.values() if each.labels == labels)

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str]) -> Any:
        return tuple(each for each in self.sandboxes if each.labels == labels)

    async def exec(self, container_id: str, command: tuple[str, ...], **streams: bool) -> str:
        return self._asked("exec", container_id, command, streams)

    async def attach(self, container_id: str, **streams: bool) -> str:
        return self._asked("attach", container_id, streams)

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        return self._asked("port_forward", sandbox_id, tuple(ports))

    def _asked(self, *what: Any) -> str:
        self.asked.append(what)
        if self.failure is not None:
            raise self.failure
        return self.url


@dataclass
class Answered:
    """An answer."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Node:
    """The port of node n1."""

    api: ApiServer
    authority: Authority
    port: KubeletPort
    pods: Pods
    runtime: Runtime
    directory: Path
    number: int = 0

    def context(self, pair: str = "") -> ssl.SSLContext:
        """The TLS context of a client with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take 20 ms to read
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        if pair:
            with memory_file(pair) as path:
                context.load_cert_chain(path)
        return context

    @property
    def master(self) -> str:
        """The client certificate of an API server."""
        return self.authority.issue("kube-apiserver-kubelet-client", MASTERS)

    async def connect(self, pair: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number, ssl=self.context(pair))

    async def read(self, path: str) -> Answered:
        """Send a request to the read-only port, which has no TLS."""
        assert self.port.readable is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port.readable.ports["127.0.0.1"])
        writer.write(f"GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n".encode())
        try:
            return await read_answer(reader)
        finally:
            writer.transport.abort()

    async def ask(self, path: str, *, pair: str = "", token: str = "", method: str = "GET") -> Answered:
        """Send one request, and return the answer."""
        reader, writer = await self.connect(pair)
        shown = f"Authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n{shown}\r\n".encode())
        try:
            return await read_answer(reader)
        finally:
            writer.transport.abort()


async def read_answer(reader: asyncio.StreamReader) -> Answered:
    """Read a complete answer, which ends with the connection or after its declared length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    code = int(head[0].split(" ")[1])
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join([chunk async for chunk in chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answered(code, headers, body)


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunks of an answer."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


@contextlib.asynccontextmanager
async def node(directory: Path, access: PortAccess = CLOSED) -> AsyncIterator[Node]:
    """A node n1 with its port, at which an API server may do everything."""
    authority, pods, runtime = Authority(), Pods(), Runtime()
    published = PublishedPods(node_of(directory))
    readings = node_readings(directory, published, terminations=Terminations(lambda *_: None), runtime=runtime)
    pair = own_pair(directory, "n1", ["127.0.0.1"], datetime.now(UTC))
    door = PortPlace(["127.0.0.1"], 0, tls(pair, authority.pem))
    configuration = {"kind": "KubeletConfiguration"}
    port = KubeletPort(
        door, readings, cast("Any", pods), cast("CriRuntime", runtime), PodThreads(), configuration, os.environ
    )
    async with served() as api:
        config = read_kubeconfig(write_kubeconfig(directory / "node.conf", api))
        async with ApiClient(config, user_agent="test") as client:
            running = asyncio.create_task(port.run(Guard(client, "n1", access)))
            await until(lambda: port.listener is not None and bool(port.listener.ports))
            assert port.listener is not None
            number = port.listener.ports["127.0.0.1"]
            found = Node(api, authority, port, pods, runtime, directory, number)
            for verb in ("get", "create"):
                api.allowed.add(("kube-apiserver-kubelet-client", verb, "proxy"))
            try:
                yield found
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
