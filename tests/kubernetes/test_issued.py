"""Trust anchors and certificates that a cluster issues for a pod's volumes.

Holds: A pod's certificate is renewed when its signer says, and its key is in no file outside the node's memory.
"""

from __future__ import annotations

import asyncio
import base64
import stat
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from syncpod.agent.kubernetes import followed_issued
from syncpod.agent.kubernetes.followed_issued import FollowedBundle, FollowedCertificate
from syncpod.kubernetes import reflector as reflectors
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.certificates import key_and_request
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.issued import GROUP, NotIssued, issued, trust_anchors
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.node.directories import make_directories, own_directories, plan_pod, prepare_pod
from syncpod.objects import (
    BundleNeed,
    CertificateNeed,
    ObjectStore,
    ObjectUnknown,
    kept_bundle,
    kept_certificate,
    values,
)
from syncpod.pod import LabelSelector, Pod
from syncpod.redaction import of_process
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, pod, served, write_kubeconfig
from tests.kubernetes.storage_driver import A_NODE, cancelled, node_in

SIGNER = "example.com/signer"
VERSION = f"{GROUP}/v1beta1"
BUNDLES = f"{VERSION}/clustertrustbundles"
REQUESTS = f"{VERSION}/namespaces/default/podcertificaterequests"


def block(text: str, kind: str = "CERTIFICATE") -> str:
    """A PEM block."""
    return f"-----BEGIN {kind}-----\n{base64.b64encode(text.encode()).decode()}\n-----END {kind}-----\n"


def a_bundle(name: str, text: str, signer: str = "", **labels: str) -> dict[str, Any]:
    """A ClusterTrustBundle."""
    spec = {"trustBundle": text, **({"signerName": signer} if signer else {})}
    return {"kind": "ClusterTrustBundle", "metadata": {"name": name, "labels": labels}, "spec": spec}


def a_pod(*sources: dict[str, Any], **spec: Any) -> BoundPod:
    """A pod of the cluster with a volume of these sources."""
    container = {"name": "c", "image": "busybox:1", "volumeMounts": [{"name": "issued", "mountPath": "/issued"}]}
    volumes = [{"name": "issued", "projected": {"sources": list(sources)}}]
    found = bound_pod(pod("web", spec={"containers": [container], "volumes": volumes, **spec}))
    assert found is not None
    assert found.refusal is None
    return found


def of_bundle(**wanted: Any) -> BundleNeed:
    """A pod's need of trust anchors."""
    (need,) = a_pod({"clusterTrustBundle": {"path": "ca.pem", **wanted}}).needs
    assert isinstance(need, BundleNeed)
    return need


def of_certificate() -> CertificateNeed:
    """A pod's need of a certificate."""
    wanted = {"signerName": SIGNER, "keyType": "ECDSAP256", "keyPath": "key.pem", "credentialBundlePath": "both.pem"}
    (need,) = a_pod({"podCertificate": wanted}).needs
    assert isinstance(need, CertificateNeed)
    return need


class TestTrustAnchors:
    """From bundles to a file."""

    def test_those_of_one_bundle_are_its_blocks_each_once_without_what_stands_between(self) -> None:
        text = f"junk\n{block('b')}more\n{block('a', 'ANYTHING')}{block('b')}-----BEGIN X-----\n%\n-----END X-----\n"
        bundles = [a_bundle("one", text), a_bundle("two", block("c"))]
        assert trust_anchors(bundles, of_bundle(name="one")) == block("a") + block("b")

    def test_headers_of_a_block_are_left_out(self) -> None:
        text = block("a").replace("-----\n", "-----\nProc-Type: 4\n\n", 1)
        assert trust_anchors([a_bundle("one", text)], of_bundle(name="one")) == block("a")

    def test_those_of_a_signer_are_all_that_the_selector_selects(self) -> None:
        bundles = [
            a_bundle("one", block("a"), SIGNER, live="yes"),
            a_bundle("two", block("b"), SIGNER),
            a_bundle("three", block("c"), "example.com/another", live="yes"),
        ]
        everything = of_bundle(signerName=SIGNER, labelSelector={})
        assert trust_anchors(bundles, everything) == block("a") + block("b")
        live = of_bundle(signerName=SIGNER, labelSelector={"matchLabels": {"live": "yes"}})
        assert trust_anchors(bundles, live) == block("a")
        assert live.selector == LabelSelector(match_labels={"live": "yes"})

    def test_no_selector_selects_nothing(self) -> None:
        with pytest.raises(NotIssued, match="matched zero ClusterTrustBundles"):
            trust_anchors([a_bundle("one", block("a"), SIGNER)], of_bundle(signerName=SIGNER))

    def test_a_bundle_that_is_missing_is_an_error_unless_it_is_optional(self) -> None:
        with pytest.raises(NotIssued, match='"one" not found'):
            trust_anchors([], of_bundle(name="one"))
        assert trust_anchors([], of_bundle(name="one", optional=True)) == ""


class TestAnAnswer:
    """From a request to a certificate."""

    def test_one_that_is_not_there_yet_is_waited_for(self) -> None:
        assert issued({}) is None
        assert issued({"status": {"conditions": [{"type": "Odd"}]}}) is None

    @pytest.mark.parametrize("kind", ["Denied", "Failed"])
    def test_a_refusal_says_why(self, kind: str) -> None:
        condition = {"type": kind, "reason": "Policy", "message": "no"}
        with pytest.raises(NotIssued, match=f'permanently {kind.lower()}: reason="Policy" message="no"'):
            issued({"status": {"conditions": [condition]}})

    @pytest.mark.parametrize(
        "status",
        [
            {"certificateChain": block("a")},
            {"certificateChain": "junk", "beginRefreshAt": "2026-01-01T00:00:00Z", "notAfter": "2026-01-02T00:00:00Z"},
            {"certificateChain": block("a"), "beginRefreshAt": "soon", "notAfter": "2026-01-02T00:00:00Z"},
            {
                "certificateChain": block("a"),
                "beginRefreshAt": "2026-01-01T00:00:00",
                "notAfter": "2026-01-02T00:00:00",
            },
        ],
    )
    def test_an_answer_that_is_none_says_so(self, status: dict[str, Any]) -> None:
        with pytest.raises(NotIssued, match="is no certificate"):
            issued({"status": {"conditions": [{"type": "Issued"}], **status}})


@pytest.mark.parametrize("kind", ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"])
def test_a_key_of_each_type_proves_itself(kind: str) -> None:
    text, request = key_and_request(kind)
    asked = x509.load_der_x509_csr(request)
    assert asked.is_signature_valid
    assert asked.public_key() == load_pem_private_key(text.encode(), None).public_key()


def test_an_unknown_type_of_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown key type 'DSA'"):
        key_and_request("DSA")


def test_the_files_of_a_pod_show_what_is_issued(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    certificate = {"signerName": SIGNER, "keyType": "ECDSAP256", "keyPath": "key.pem"}
    chain = {**certificate, "keyPath": "", "certificateChainPath": "chain.pem", "credentialBundlePath": "both.pem"}
    sources = ({"clusterTrustBundle": {"name": "one", "path": "ca.pem"}}, {"podCertificate": certificate})
    found = a_pod(*sources, {"podCertificate": chain})
    assert len({need.ref for need in found.needs}) == 3
    store, made = ObjectStore(node.state_dir, node.memory_dir), Pod.model_validate(found.document)
    make_directories(own_directories(made.metadata.uid, node))
    now = datetime.now(UTC)
    for need in found.needs:
        if isinstance(need, BundleNeed):
            store.keep(kept_bundle(need.ref, "anchors"), "bundle")
        else:
            store.keep(kept_certificate(need.ref, "the key\n", "the chain\n", now, now), "certificate")
    plan = plan_pod(made, node)
    prepare_pod(plan, store)
    (volume,) = plan.volumes
    assert volume.path is not None
    assert volume.path.is_relative_to(node.memory_dir)
    shown = {path.name: path.read_text() for path in volume.path.iterdir() if path.is_file()}
    both = "the key\nthe chain\n"
    assert shown == {"ca.pem": "anchors", "key.pem": "the key\n", "chain.pem": "the chain\n", "both.pem": both}


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server with both resources; the node's waits after failures are short."""
    monkeypatch.setattr(reflectors, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_issued, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(followed_issued, "ANSWER_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(followed_issued, "JITTER", timedelta(0))
    async with served() as server:
        account = {"metadata": {"name": "default", "uid": "account-uid"}}
        await server.put("/api/v1/namespaces/default/serviceaccounts/default", account)
        yield server


@pytest_asyncio.fixture
async def client(api: ApiServer, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A client of that server."""
    async with ApiClient(read_kubeconfig(write_kubeconfig(tmp_path / "config", api)), user_agent="test") as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    """A node's store; hidden values are forgotten after the test."""
    before = of_process.known()
    yield ObjectStore(tmp_path / "state", tmp_path / "memory")
    of_process.forget(of_process.known() - before)


async def serve(api: ApiServer, *resources: str) -> None:
    """Let the server serve these resources of the group."""
    await api.put(VERSION, {"metadata": {"name": ""}, "resources": [{"name": each} for each in resources]})


async def test_trust_anchors_follow_their_bundle(api: ApiServer, client: ApiClient, store: ObjectStore) -> None:
    need = of_bundle(name="one")
    follower = FollowedBundle(client, store, need, lambda: None)
    running = asyncio.ensure_future(follower.run())
    await until(lambda: follower.trouble == "the cluster serves no clustertrustbundles")
    await serve(api, "clustertrustbundles")
    await until(lambda: '"one" not found' in follower.trouble)
    with pytest.raises(ObjectUnknown, match='"one" not found'):
        store.get(need.ref)
    for text in ("a", "b"):
        shown = {"bundle": block(text).encode()}
        await api.put(f"{BUNDLES}/one", a_bundle("one", block(text)))
        await until(partial(_shows, store, need, shown))
    await cancelled(running)


async def test_a_certificate_is_issued_and_renewed(
    api: ApiServer, client: ApiClient, store: ObjectStore, tmp_path: Path
) -> None:
    await serve(api, "podcertificaterequests")
    need, now = of_certificate(), [datetime(2026, 1, 1, tzinfo=UTC)]
    follower = FollowedCertificate(client, store, need, lambda: A_NODE, lambda: None, now=lambda: now[0])
    running = asyncio.ensure_future(follower.run())
    chains = []
    for number in (1, 2):
        await until(partial(_has_requests, api, number))
        path, asked = _requests(api)[-1]
        spec = asked["spec"]
        assert (spec["podName"], spec["podUID"], spec["nodeUID"]) == ("web", need.uid, "node-uid")
        assert (spec["signerName"], spec["serviceAccountUID"]) == (SIGNER, "account-uid")
        assert asked["metadata"]["ownerReferences"][0]["uid"] == need.uid
        await until(lambda: follower.trouble == "credential bundle is not issued yet")
        times = {"beginRefreshAt": "2026-01-01T12:00:00Z", "notAfter": "2026-01-02T00:00:00Z"}
        if number == 2:
            times = {"beginRefreshAt": "2026-01-02T12:00:00Z", "notAfter": "2026-01-03T00:00:00Z"}
        status = {"conditions": [{"type": "Issued"}], "certificateChain": f"x\n{block(f'c{number}')}", **times}
        await api.put(path, {**asked, "status": status})
        await until(partial(_shows, store, need, {"chain": block(f"c{number}").encode()}))
        held = _held(store, need)
        assert held is not None
        assert held["both"] == held["key"] + held["chain"]
        chains.append(held["key"])
        now[0] = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
        follower.keep_again()
    assert chains[0] != chains[1]
    await until(lambda: follower.is_known and not follower.trouble)
    await cancelled(running)
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in files)
    secrets = [path for path in (tmp_path / "memory").rglob("*.json")]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert "***" in of_process.redact(chains[1].decode())


async def test_a_request_that_is_denied_is_not_repeated(api: ApiServer, client: ApiClient, store: ObjectStore) -> None:
    await serve(api, "podcertificaterequests")
    follower = FollowedCertificate(client, store, of_certificate(), lambda: A_NODE, lambda: None)
    running = asyncio.ensure_future(follower.run())
    await until(lambda: len(_requests(api)) == 1)
    path, asked = _requests(api)[0]
    await api.put(path, {**asked, "status": {"conditions": [{"type": "Denied", "reason": "No", "message": "never"}]}})
    await until(lambda: "permanently denied" in follower.trouble)
    await asyncio.sleep(0.1)
    assert len(_requests(api)) == 1
    await cancelled(running)


async def test_a_key_that_is_not_certified_is_hidden_no_more_and_a_silent_server_gets_no_second_request(
    api: ApiServer, client: ApiClient, store: ObjectStore
) -> None:
    await serve(api, "podcertificaterequests")
    before = of_process.known()
    follower = FollowedCertificate(client, store, of_certificate(), lambda: A_NODE, lambda: None)
    running = asyncio.ensure_future(follower.run())
    await until(lambda: len(_requests(api)) == 1)
    api.faults.extend(Fault("GET", "podcertificaterequests", "500") for _ in range(3))
    await until(lambda: not api.faults)
    path, asked = _requests(api)[0]
    assert len(of_process.known() - before) == 1
    await api.put(path, {**asked, "status": {"conditions": [{"type": "Failed"}]}})
    await until(lambda: "permanently failed" in follower.trouble)
    assert len(_requests(api)) == 1
    assert of_process.known() == before
    await cancelled(running)


async def test_a_request_that_somebody_deletes_is_followed_by_another(
    api: ApiServer, client: ApiClient, store: ObjectStore
) -> None:
    await serve(api, "podcertificaterequests")
    follower = FollowedCertificate(client, store, of_certificate(), lambda: A_NODE, lambda: None)
    running = asyncio.ensure_future(follower.run())
    await until(lambda: len(_requests(api)) == 1)
    path, _ = _requests(api)[0]
    await api.remove(path)
    await until(lambda: len(_requests(api)) == 1 and _requests(api)[0][0] != path)
    await cancelled(running)


def _requests(api: ApiServer) -> list[tuple[str, dict[str, Any]]]:
    return [(path, each) for path, each in api.objects.items() if path.startswith(f"{REQUESTS}/")]


def _has_requests(api: ApiServer, count: int) -> bool:
    return len(_requests(api)) == count


def _shows(store: ObjectStore, need: BundleNeed | CertificateNeed, values: dict[str, bytes]) -> bool:
    return values.items() <= (_held(store, need) or {}).items()


def _held(store: ObjectStore, need: BundleNeed | CertificateNeed) -> dict[str, bytes] | None:
    try:
        held = store.get(need.ref)
    except ObjectUnknown:
        return None
    return None if held is None else values(held)
