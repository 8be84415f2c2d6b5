"""A gate before a real Temporal server, and nodes that have its invitations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio.client import Client
from temporalio.service import TLSConfig

from syncpod.gate.authority import Fleet, Pair, now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend
from syncpod.signing.keys import make_signing_keys
from tests.runtimes.temporal import DevServer

NAMESPACE = "default"
SERVICE = "/temporal.api.workflowservice.v1.WorkflowService/"


@dataclass
class Gated:
    """A serving gate and its fleet."""

    fleet: Fleet
    gate: Gate
    address: str
    behind: str

    def pair(self, node: str, life: timedelta = timedelta(hours=1)) -> Pair:
        """A new certificate of a node."""
        return self.fleet.issue(node, life, now())

    async def client(self, node: str, pair: Pair | None = None, **more: Any) -> Client:
        """The real SDK's client, as a node has it."""
        pair = pair or self.pair(node)
        tls = TLSConfig(
            server_root_ca_cert=self.fleet.authorities_pem().encode(),
            domain=self.fleet.server_name,
            client_cert=pair.certificate.encode(),
            client_private_key=pair.key.encode(),
        )
        return await Client.connect(self.address, namespace=NAMESPACE, tls=tls, **more)

    def channel(self, pair: Pair | None, *, roots: str = "", **options: Any) -> grpc.aio.Channel:
        """A plain gRPC channel, for requests that no SDK sends."""
        credentials = grpc.ssl_channel_credentials(
            root_certificates=(roots or self.fleet.authorities_pem()).encode(),
            private_key=pair.key.encode() if pair else None,
            certificate_chain=pair.certificate.encode() if pair else None,
        )
        named = [("grpc.ssl_target_name_override", self.fleet.server_name), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.aio.secure_channel(self.address, credentials, options=named, **options)


@asynccontextmanager
async def gated(directory: Path, behind: str, port: int = 0) -> AsyncIterator[Gated]:
    """Serve a gate for the fleet in this directory."""
    async with served(open_fleet(directory, now()), behind, port) as door:
        yield door


@asynccontextmanager
async def served(fleet: Fleet, behind: str, port: int = 0) -> AsyncIterator[Gated]:
    """Serve a gate for this fleet."""
    gate = Gate(fleet, make_signing_keys(fleet.directory), TemporalFrontend(behind, NAMESPACE), ["localhost"])
    port = await gate.start("127.0.0.1", port)
    try:
        yield Gated(fleet, gate, f"127.0.0.1:{port}", behind)
    finally:
        await gate.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A fleet of the test's own, without a gate."""
    return open_fleet(tmp_path / "fleet", now())


@pytest.fixture
async def door(tmp_path: Path, temporal_server: DevServer) -> AsyncIterator[Gated]:
    """A serving gate with a fleet of its own."""
    async with gated(tmp_path / "fleet", temporal_server.address) as served:
        yield served
