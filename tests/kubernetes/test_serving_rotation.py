"""The certificate of the kubelet's port is issued by the cluster, and each new one is used at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID

from syncpod.agent.kubelet_port.serving_certificate import ServingRotation, own_pair, tls
from syncpod.kubernetes import certificate_requests
from syncpod.kubernetes.certificate_requests import REQUESTS
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, served, write_kubeconfig
from tests.kubernetes.certificate_authority import authority, issued
from tests.kubernetes.test_certificates import answer, requests


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setattr(certificate_requests, "LOOK_SECONDS", (0.01, 0.02))
    async with served() as server:
        yield server


def shown(port: int) -> str:
    """The common name of the certificate of a new connection. This call blocks."""
    certificate = x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port), timeout=10).encode())
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def test_connections_are_served_with_the_certificate_that_the_cluster_has_issued(
    api: ApiServer, tmp_path: Path
) -> None:
    context = tls(own_pair(tmp_path, "n1", ["127.0.0.1"], datetime.now(UTC)), "")
    runner = web.AppRunner(web.Application(), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api))
    running = asyncio.create_task(ServingRotation(config, "n1", ["127.0.0.1"], tmp_path, context).run())
    try:
        assert (await asyncio.to_thread(shown, port)).startswith("n1@")  # its own, until another is approved
        await until(lambda: bool(requests(api)))
        (path,) = requests(api)
        spec = api.objects[path]["spec"]
        assert spec["signerName"] == "kubernetes.io/kubelet-serving"
        await answer(api, path, issued(spec["request"]))
        await until(lambda: (tmp_path / "kubernetes" / "serving-current.pem").exists())
        async with asyncio.timeout(30):
            while await asyncio.to_thread(shown, port) != "system:node:n1":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        verifying = ssl.create_default_context(cadata=authority().decode())
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=verifying)
        writer.close()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await runner.cleanup()
    assert len(requests(api)) == 1
    assert REQUESTS in path
