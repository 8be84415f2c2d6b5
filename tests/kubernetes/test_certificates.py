"""A node requests certificates from its cluster, waits for approval, and replaces them before they expire."""

from __future__ import annotations

import asyncio
import base64
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from syncpod.kubernetes import certificate_requests
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.certificate_files import (
    CertificateFile,
    client_file,
    kubeconfig_path,
    serving_file,
    write_kubeconfig,
)
from syncpod.kubernetes.certificate_requests import REQUESTS, CertificateRefused, obtain
from syncpod.kubernetes.certificate_rotation import Rotation
from syncpod.kubernetes.certificates import (
    CLIENT_SIGNER,
    SERVING_SIGNER,
    CertificateInvalid,
    WantedCertificate,
    life_of,
    new_key,
    node_of,
    request_document,
    require_ours,
    rotation_due,
)
from syncpod.kubernetes.client import ApiClient, ClusterError
from syncpod.kubernetes.kubeconfig import read_kubeconfig, require_usable
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, served
from tests.kubernetes.api_server import write_kubeconfig as write_bootstrap
from tests.kubernetes.certificate_authority import issued

CLIENT = WantedCertificate("n1", CLIENT_SIGNER)
SERVING = WantedCertificate("n1", SERVING_SIGNER, ("n1",), ("10.0.0.1",))


def requests(api: ApiServer) -> dict[str, dict[str, Any]]:
    return {path: each for path, each in api.objects.items() if path.startswith(REQUESTS)}


async def answer(api: ApiServer, path: str, certificate: bytes = b"", **condition: str) -> None:
    status = {"certificate": base64.b64encode(certificate).decode(), "conditions": [condition] if condition else []}
    await api.put(path, {**api.objects[path], "status": status})


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(certificate_requests, "LOOK_SECONDS", (0.01, 0.02))
    async with served() as server:
        yield server


@pytest_asyncio.fixture
async def client(api: ApiServer, tmp_path: Path) -> AsyncIterator[ApiClient]:
    config = read_kubeconfig(write_bootstrap(tmp_path / "bootstrap.conf", api))
    async with ApiClient(config, user_agent="test") as opened:
        yield opened


def test_a_request_asks_for_the_nodes_identity_alone() -> None:
    document = request_document(CLIENT, new_key())
    asked = x509.load_pem_x509_csr(base64.b64decode(document["spec"]["request"]))
    assert asked.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert not list(asked.extensions)  # an approver accepts no other names with that
    assert isinstance(asked.public_key(), ec.EllipticCurvePublicKey)
    assert document["spec"]["usages"] == ["digital signature", "client auth"]
    serving = request_document(SERVING, new_key())
    names = x509.load_pem_x509_csr(base64.b64decode(serving["spec"]["request"])).extensions[0].value
    assert [str(each.value) for each in names] == ["n1", "10.0.0.1"]
    assert serving["spec"]["usages"] == ["digital signature", "server auth"]


def test_the_next_one_is_due_at_70_to_90_percent_of_a_life() -> None:
    pair = issued(request_document(CLIENT, new_key())["spec"]["request"], life=timedelta(days=100))
    begins, _ = life_of(pair)
    assert rotation_due(pair, 0.0) == begins + timedelta(days=70)
    assert rotation_due(pair, 1.0) == begins + timedelta(days=90)


def test_a_certificate_for_another_key_or_node_is_not_taken() -> None:
    key, other = new_key(), new_key()
    with pytest.raises(CertificateInvalid, match="for another key"):
        require_ours(issued(request_document(CLIENT, other)["spec"]["request"]), key, CLIENT)
    with pytest.raises(CertificateInvalid, match="for node n2"):
        require_ours(
            issued(request_document(WantedCertificate("n2", CLIENT_SIGNER), key)["spec"]["request"]), key, CLIENT
        )
    with pytest.raises(CertificateInvalid, match="not in PEM"):
        require_ours(b"x", key, CLIENT)


async def test_a_node_waits_for_its_approval_and_a_restart_goes_on_with_the_request(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    file, asked = client_file(tmp_path), list[str]()
    first = asyncio.create_task(obtain(client, CLIENT, file, asked=asked.append))
    await until(lambda: len(asked) == 1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    api.faults.extend([Fault("GET", REQUESTS, "500"), Fault("GET", REQUESTS, "hang")][:1])
    again = asyncio.create_task(obtain(client, CLIENT, file, asked=asked.append))
    await until(lambda: len(asked) == 2)
    (path,) = requests(api)
    assert asked == [path.removeprefix(f"{REQUESTS}/")] * 2
    await answer(api, path, issued(api.objects[path]["spec"]["request"]), type="Approved", status="True")
    await again
    assert node_of(file.read()) == "n1"
    directory = tmp_path / "kubernetes"
    assert [each.name for each in directory.iterdir()] == ["client-current.pem"]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


async def test_a_refusal_says_why_and_the_next_request_has_another_key(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    file = client_file(tmp_path)
    for number, (kind, why) in enumerate((("Denied", "denied"), ("Failed", "failed"))):
        asking = asyncio.create_task(obtain(client, CLIENT, file))
        await until(lambda number=number: len(requests(api)) == number + 1)  # type: ignore[misc]
        await answer(api, list(requests(api))[-1], type=kind, reason="Nobody", message="knows it")
        with pytest.raises(CertificateRefused, match=rf"{why} \(Nobody: knows it\)"):
            await asking
    assert file.read() == b""
    api.faults.append(Fault("POST", REQUESTS, "403"))
    with pytest.raises(ClusterError):
        await obtain(client, CLIENT, file)
    (tmp_path / "kubernetes" / "client-next.key").write_text("damaged")
    with pytest.raises(CertificateRefused, match="cannot be read"):
        await obtain(client, CLIENT, file)


async def test_a_certificate_is_replaced_before_it_ends(api: ApiServer, client: ApiClient, tmp_path: Path) -> None:
    file, replaced = client_file(tmp_path), list[bytes]()
    key = file.key_of_request()
    request = request_document(CLIENT, key)["spec"]["request"]
    file.keep(issued(request, since=timedelta(days=80), life=timedelta(days=100)), key)
    before = file.read()

    async def wanted() -> WantedCertificate:
        return CLIENT

    async def note() -> None:
        replaced.append(file.read())

    api.faults.extend([Fault("POST", REQUESTS, "500"), Fault("POST", REQUESTS, "403")])
    rotation = Rotation(client, file, wanted, replaced=note, chance=lambda: 0.0)
    running = asyncio.create_task(rotation.run())
    try:
        await until(lambda: bool(requests(api)))
        (path,) = requests(api)
        await answer(api, path, issued(api.objects[path]["spec"]["request"]))
        await until(lambda: len(replaced) == 1)
        assert replaced[0] == file.read() != before
        assert b"PRIVATE KEY" in replaced[0]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(requests(api)) == 1  # the new one is good for long


async def test_a_serving_certificate_is_replaced_when_the_addresses_change(
    api: ApiServer, client: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.kubernetes.certificate_rotation.LOOK_SECONDS", 0.01)
    file, addresses = serving_file(tmp_path), ["10.0.0.1"]

    async def wanted() -> WantedCertificate:
        return WantedCertificate("n1", SERVING_SIGNER, ("n1",), tuple(addresses))

    async def nothing() -> None:
        """Do nothing: no server uses the certificate."""

    running = asyncio.create_task(Rotation(client, file, wanted, replaced=nothing).run())
    try:
        for number in (1, 2):
            await until(lambda number=number: len(requests(api)) == number)  # type: ignore[misc]
            path = list(requests(api))[-1]
            await answer(api, path, issued(api.objects[path]["spec"]["request"]))
            await until(lambda: not file.path.with_name("serving-next.key").exists())
            addresses.append("10.0.0.2")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_kubeconfig_that_a_node_writes_is_its_own(api: ApiServer, tmp_path: Path) -> None:
    bootstrap = read_kubeconfig(write_bootstrap(tmp_path / "bootstrap.conf", api))
    file: CertificateFile = client_file(tmp_path)
    key = file.key_of_request()
    file.keep(issued(request_document(CLIENT, key)["spec"]["request"]), key)
    for path in (kubeconfig_path(tmp_path), tmp_path / "elsewhere.conf"):
        write_kubeconfig(tmp_path, path, bootstrap, bootstrap.authorities.read())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        written = read_kubeconfig(path)
        require_usable(written, "n1")
        assert (written.server, written.authorities.read()) == (bootstrap.server, bootstrap.authorities.read())
        assert written.certificate.path == file.path
