"""Service account tokens: requested for one pod, rotated, written to its volume, hidden, and removed with the pod.

Holds: A token that a Kubernetes cluster issues for a pod lies in memory alone, and its value is hidden.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes.followed_token import FollowedToken, forget_token
from syncpod.kubernetes.bound_pod import BoundPod, bound_pod
from syncpod.kubernetes.client import ApiClient
from syncpod.node.directories import plan_pod, prepare_pod
from syncpod.node.pod_volumes import MountFailure, pod_volumes
from syncpod.objects import ObjectStore, ObjectUnknown, TokenNeed
from syncpod.objects.tokens import kept_token
from syncpod.pod import Pod
from syncpod.pod.kinds import values
from syncpod.redaction import of_process
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, given, pod
from tests.translation.translation import NODE

ACCESS = {
    "name": "kube-api-access-x",
    "projected": {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ],
    },
}


def bound(**spec: Any) -> BoundPod:
    """A pod with the volume that the API server gives each pod."""
    mounts = [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    container = {"name": "app", "image": "busybox:1", "volumeMounts": mounts, **spec.pop("container", {})}
    found = bound_pod(pod("web", spec={"containers": [container], "volumes": [ACCESS], **spec}))
    assert found is not None and not found.refusal, found
    return found


@dataclass
class Clock:
    """A clock that a test sets."""

    at: datetime = field(default_factory=lambda: datetime(2026, 11, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        """The current time."""
        return self.at


@dataclass
class Node:
    """A node's store, and the token of one pod in it."""

    client: ApiClient
    store: ObjectStore
    need: TokenNeed
    clock: Clock
    told: int = 0
    running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> FollowedToken:
        """Keep the token valid."""
        following = FollowedToken(self.client, self.store, self.need, self._tell, now=self.clock, chance=lambda: 0.0)
        self.running.append(asyncio.create_task(following.run()))
        return following

    def token(self) -> str:
        """The token that a volume would get; "" if there is none."""
        try:
            held = self.store.get(self.need.ref)
        except ObjectUnknown:
            return ""
        return "" if held is None else values(held)["token"].decode()

    async def stop(self) -> None:
        """Stop, as an ending worker does."""
        await cancel_all(self.running)

    def _tell(self) -> None:
        self.told += 1


@pytest.fixture(autouse=True)
def redactor() -> Iterator[None]:
    """Forget hidden values after the test."""
    before = of_process.known()
    yield
    of_process.forget(of_process.known() - before)


@pytest_asyncio.fixture
async def node(api: ApiServer, client: ApiClient, tmp_path: Path) -> AsyncIterator[Node]:
    """A node with one pod."""
    [need] = tokens_of(bound())
    clock = Clock()
    api.now = clock
    made = Node(client, ObjectStore(tmp_path / "state", tmp_path / "memory"), need, clock)
    yield made
    await made.stop()


async def test_a_token_is_asked_for_one_pod_and_kept_in_memory_alone(
    api: ApiServer, node: Node, tmp_path: Path
) -> None:
    node.start()
    await until(lambda: node.token() == "token-1-of-default")
    [asked] = api.token_requests
    assert asked == {
        "audiences": [],
        "expirationSeconds": 3607,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web"},
    }
    await until(lambda: node.told == 1)
    assert of_process.redact("it is token-1-of-default") == "it is ***"
    files = _files(tmp_path)
    assert files and all(path.is_relative_to(tmp_path / "memory") for path in files)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


async def test_a_token_is_replaced_after_four_fifths_of_its_life_and_the_two_last_ones_are_hidden(
    api: ApiServer, node: Node
) -> None:
    following = node.start()
    for number in (1, 2, 3):
        await until(partial(_has, node, f"token-{number}-of-default"))
        node.clock.at += timedelta(seconds=3607 * 0.8 - 1)
        following.keep_again()
        await asyncio.sleep(0.05)
        assert len(api.token_requests) == number, "not yet"
        node.clock.at += timedelta(seconds=2)
        following.keep_again()
    await until(lambda: node.token() == "token-4-of-default")
    await until(lambda: of_process.redact("token-2-of-default") != "***")
    assert of_process.redact("token-3-of-default token-4-of-default") == "*** ***"


async def test_a_token_of_a_year_is_replaced_after_a_day(api: ApiServer, node: Node) -> None:
    node.need = replace(node.need, seconds=365 * 86_400)
    following = node.start()
    await until(lambda: node.token() == "token-1-of-default")
    node.clock.at += timedelta(hours=24, seconds=1)
    following.keep_again()
    await until(lambda: node.token() == "token-2-of-default")


async def test_a_new_worker_goes_on_with_the_token_that_there_is(api: ApiServer, node: Node) -> None:
    node.start()
    await until(lambda: node.token() == "token-1-of-default")
    await node.stop()
    following = node.start()
    await until(lambda: following.is_known)
    assert len(api.token_requests) == 1


@pytest.mark.parametrize("what", ["403", "404", "500", "cut", "html", "empty", "429"])
async def test_a_refused_token_is_asked_for_again_and_the_pod_says_why(
    api: ApiServer, node: Node, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    api.faults.extend([Fault("POST", "/token", what)] * 1_000)
    with caplog.at_level(logging.WARNING):
        following = node.start()
        await until(lambda: bool(following.trouble))
        with pytest.raises(ObjectUnknown, match=r"failed to fetch token: .*[a-z]"):
            node.store.get(node.need.ref)
        api.faults.clear()
        await until(lambda: node.token() == "token-1-of-default" and not following.trouble)
    assert len({each for each in caplog.messages if "default/web has no new token" in each}) == 1


async def test_the_token_that_has_expired_stays_while_no_new_one_can_be_had(api: ApiServer, node: Node) -> None:
    following = node.start()
    await until(lambda: node.token() == "token-1-of-default")
    api.faults.extend([Fault("POST", "/token", "500")] * 1_000)
    node.clock.at += timedelta(days=2)
    following.keep_again()
    await until(lambda: bool(following.trouble))
    assert node.token() == "token-1-of-default"
    api.faults.clear()
    await until(lambda: node.token() == "token-2-of-default")


async def test_a_token_is_forgotten_with_its_pod(node: Node) -> None:
    node.start()
    await until(lambda: node.token() == "token-1-of-default")
    await node.stop()
    forget_token(node.store, node.need.ref)
    assert not node.token() and not node.store.versions() and not node.store.former()
    assert of_process.redact("token-1-of-default") == "token-1-of-default"


SECURITY: dict[str, tuple[dict[str, Any], int, int | None]] = {
    "no user is named: the mode of the volume": ({}, 0o644, None),
    "the pod's user": ({"securityContext": {"runAsUser": 1000}}, 0o600, 1000),
    "the containers' user": ({"container": {"securityContext": {"runAsUser": 1000}}}, 0o600, 1000),
    "containers of two users": (
        {
            "securityContext": {"runAsUser": 1000},
            "initContainers": [{"name": "i", "image": "b:1", "securityContext": {"runAsUser": 1}}],
        },
        0o644,
        None,
    ),
    "a group": ({"securityContext": {"fsGroup": 2000}}, 0o640, None),
    "a user and a group": ({"securityContext": {"fsGroup": 2000, "runAsUser": 1000}}, 0o640, 1000),
}


@pytest.mark.parametrize("case", SECURITY)
def test_the_volume_shows_the_token_with_the_kubelets_mode_and_owner(case: str, tmp_path: Path) -> None:
    spec, mode, owner = SECURITY[case]
    found = bound(**spec)
    node = replace(NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory", log_dir=tmp_path / "logs")
    store = ObjectStore(node.state_dir, node.memory_dir)
    store.keep(_config_map())
    made = Pod.model_validate(found.document)
    with pytest.raises(MountFailure, match="failed to fetch token: no answer yet"):
        prepare_pod(plan_pod(made, node), store)
    store.keep(kept_token(tokens_of(found)[0].ref, "word", datetime.now(UTC), None), "token")
    prepare_pod(plan_pod(made, node), store)
    (volume,) = pod_volumes(made, node)
    assert volume.path is not None and volume.path.is_relative_to(tmp_path / "memory")
    shown = {path.name: path.read_text() for path in volume.path.iterdir() if not path.name.startswith("..")}
    assert shown == {"token": "word", "ca.crt": "pem", "namespace": "default"}
    held = (volume.path / "token").stat()
    assert stat.S_IMODE(held.st_mode) == mode
    if owner is not None:
        assert held.st_uid == owner
    assert (volume.path / "ca.crt").stat().st_uid != owner


def test_a_pod_of_the_cluster_keeps_its_token_volume_and_is_told_nothing_untrue() -> None:
    found = bound(
        serviceAccountName="robot",
        automountServiceAccountToken=True,
        tolerations=[{"operator": "Exists"}],
        schedulerName="other",
    )
    assert found.document is not None and not found.warnings
    assert found.document["spec"]["volumes"][0]["name"] == "kube-api-access-x"
    assert [need.service_account for need in tokens_of(found)] == ["robot"]
    assert {need.ref for need in tokens_of(found)} < found.refs


def test_two_sources_that_want_the_same_share_a_token_and_others_have_their_own() -> None:
    wanted = [{"path": "a"}, {"path": "b"}, {"path": "c", "audience": "vault"}, {"path": "d", "expirationSeconds": 600}]
    volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": each} for each in wanted]}}]
    first = bound(volumes=volumes, containers=[{"name": "app", "image": "b:1"}])
    assert len({need.ref for need in tokens_of(first)}) == 3
    assert [(need.audience, need.seconds) for need in tokens_of(first)] == [
        ("", 3600),
        ("", 3600),
        ("vault", 3600),
        ("", 600),
    ]


def tokens_of(found: BoundPod) -> list[TokenNeed]:
    """The tokens that a pod needs."""
    return [need for need in found.needs if isinstance(need, TokenNeed)]


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and path.name != "node.conf"]


def _has(node: Node, token: str) -> bool:
    return node.token() == token


def _config_map() -> Any:
    from syncpod.kubernetes.given_object import given_object
    from syncpod.objects import ObjectRef

    document = given("ConfigMap", "kube-root-ca.crt", **{"ca.crt": "pem"})
    return given_object(ObjectRef("ConfigMap", "default", "kube-root-ca.crt", "cluster"), document)
