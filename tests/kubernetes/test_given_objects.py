"""The cluster's ConfigMaps and Secrets reach the node's store one by one, and are used if the API server is down.

Holds: A pod of a Kubernetes cluster is given the cluster's ConfigMaps and Secrets alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes import followed_object, given_objects
from syncpod.agent.kubernetes.given_objects import GivenObjects, used_objects
from syncpod.kubernetes.bound_pod import bound_pod
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.given_object import NotAnObject, given_object
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.kept_secrets import KeepingStore
from syncpod.node.pod_records import PodRecord, mark_pod_record, write_pod_record
from syncpod.objects import ABSENT, ObjectRef, ObjectStore, ObjectUnknown, TokenNeed, references, values
from syncpod.pod import Pod
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, given, object_path, pod
from tests.kubernetes.storage_driver import claims
from tests.objects.objects import config_map
from tests.translation.translation import NODE

SETTINGS = ObjectRef("ConfigMap", "default", "settings", origin="cluster")
SERVICES = ObjectRef("ConfigMap", "default", "all", origin="services")
KEYS = ObjectRef("Secret", "default", "keys", origin="cluster")


class Node:
    """A node's store, which follows the server."""

    def __init__(self, client: ApiClient, directory: Path) -> None:
        self.store = ObjectStore(directory / "state", directory / "memory")
        self.used: list[ObjectRef] = []
        self.told = 0
        self.given = GivenObjects(client, self.store, self._uses, self._tell, claims(client, self.store))
        self.running: list[asyncio.Task[None]] = []

    def start(self, refs: Iterable[ObjectRef]) -> None:
        """Follow the objects that pods refer to."""
        self.running = [asyncio.ensure_future(self.given.run())]
        self.given.want(refs, ())

    async def stop(self) -> None:
        """Stop, as an ending worker does."""
        await cancel_all(self.running)

    def has(self, ref: ObjectRef) -> dict[str, bytes] | str | None:
        """The values of an object; `ABSENT` if it does not exist, None if that is not known."""
        try:
            held = self.store.get(ref)
        except ObjectUnknown:
            return None
        return ABSENT if held is None else values(held)

    async def _uses(self) -> Iterable[ObjectRef]:
        return self.used

    def _tell(self) -> None:
        self.told += 1


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits before objects are read and requested again."""
    monkeypatch.setattr(given_objects, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(followed_object, "RETRY_SECONDS", 0.02)


@pytest_asyncio.fixture
async def node(client: ApiClient, tmp_path: Path) -> AsyncIterator[Node]:
    """A node that follows the server once it is started."""
    made = Node(client, tmp_path)
    yield made
    await made.stop()


async def test_what_pods_refer_to_is_kept_and_follows_each_change(api: ApiServer, node: Node) -> None:
    await api.put(object_path("ConfigMap", "settings"), given("ConfigMap", "settings", colour="red"))
    node.start([SETTINGS, KEYS])
    await until(lambda: node.has(SETTINGS) == {"colour": b"red"} and node.has(KEYS) == ABSENT)
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    await api.put(object_path("ConfigMap", "settings"), given("ConfigMap", "settings", colour="blue"))
    await until(lambda: node.has(SETTINGS) == {"colour": b"blue"} and node.has(KEYS) == {"k": b"word"})
    await api.remove(object_path("Secret", "keys"))
    await until(lambda: node.has(KEYS) == ABSENT)
    assert [each.ref for each, _ in node.store.former()] == [KEYS]
    assert api.calls["GET configmaps"] == api.calls["GET secrets"] == 1


async def test_a_change_that_gives_pods_nothing_new_writes_nothing(api: ApiServer, node: Node) -> None:
    document = given("ConfigMap", "settings", colour="red")
    await api.put(object_path("ConfigMap", "settings"), document)
    node.start([SETTINGS])
    await until(lambda: node.has(SETTINGS) is not None)
    version = node.store.version(SETTINGS)
    for number in range(20):  # such as a lock that is renewed in annotations
        metadata = {**document["metadata"], "annotations": {"renewed": str(number)}}
        await api.put(object_path("ConfigMap", "settings"), {**document, "metadata": metadata})
    told = node.told
    await api.put(object_path("ConfigMap", "other"), given("ConfigMap", "other"))
    await until(lambda: node.told > told)
    assert node.store.version(SETTINGS) == version


async def test_neither_annotations_nor_managers_are_kept(api: ApiServer, node: Node, tmp_path: Path) -> None:
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    node.start([KEYS])
    await until(lambda: node.has(KEYS) == {"k": b"word"})
    [file] = (tmp_path / "memory/objects/cluster-secrets").rglob("*.json")
    assert b"last-applied" not in file.read_bytes() and b"manager" not in file.read_bytes()
    assert not list((tmp_path / "state").rglob("*secrets*"))


async def test_an_immutable_object_is_not_watched(api: ApiServer, node: Node) -> None:
    await api.put(object_path("Secret", "keys"), {**given("Secret", "keys", k="word"), "immutable": True})
    node.start([KEYS])
    await until(lambda: node.has(KEYS) == {"k": b"word"} and not api.watches)
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="other"))
    node.start([KEYS, SETTINGS])
    await until(lambda: node.has(SETTINGS) == ABSENT)
    assert node.has(KEYS) == {"k": b"word"}
    assert node.given.is_settled([KEYS])


@pytest.mark.parametrize("what", ["403", "500", "cut", "html", "empty"])
async def test_a_pod_waits_for_the_first_answer_and_not_for_ever(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    api.faults.extend([Fault("GET", "secrets", what)] * 3)  # a 403: the authorizer learns of the pod a moment later
    now = [0.0]
    node.given = GivenObjects(
        node.given._client,
        node.store,
        node._uses,
        node._tell,
        claims(node.given._client, node.store),
        clock=lambda: now[0],
    )
    assert not node.given.is_settled([KEYS])
    node.start([KEYS])
    assert not node.given.is_settled([KEYS])
    now[0] += given_objects.PATIENCE_SECONDS
    assert node.given.is_settled([KEYS]) and node.has(KEYS) is None
    await until(lambda: node.has(KEYS) == {"k": b"word"})
    assert node.given.is_settled([KEYS]) and not node.given.troubles()


async def test_what_was_kept_serves_until_the_server_has_answered(api: ApiServer, node: Node) -> None:
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    node.start([KEYS, SETTINGS])
    await until(lambda: node.has(KEYS) == {"k": b"word"} and node.has(SETTINGS) == ABSENT)
    await node.stop()
    api.faults.extend([Fault("GET", "secrets", "500")] * 50)
    following = Node(node.given._client, node.store._roots["ConfigMap"].parent.parent)
    following.start([KEYS, SETTINGS])
    await until(lambda: bool(following.given.troubles()))
    assert following.has(KEYS) == {"k": b"word"}
    api.faults.clear()
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="new"))
    await until(lambda: following.has(KEYS) == {"k": b"new"})
    await following.stop()


async def test_what_no_pod_uses_any_more_is_forgotten_and_not_before(api: ApiServer, node: Node) -> None:
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    node.store.note_absent(ObjectRef("ConfigMap", "default", "of-an-earlier-worker", origin="cluster"))
    node.store.put(config_map())
    await node.given.tidy()  # the pods have not been listed yet
    assert len(node.store.versions()) == 2
    node.used = [KEYS]  # a pod that was deleted with force still ends here
    node.start([KEYS, SETTINGS])
    await until(lambda: node.has(KEYS) == {"k": b"word"} and node.has(SETTINGS) == ABSENT)
    node.given.want([], ())
    await until(lambda: set(node.store.versions()) == {KEYS, ObjectRef("ConfigMap", "default", "a")})
    assert node.has(SETTINGS) is None
    node.used = []
    await until(lambda: node.has(KEYS) is None)
    await until(lambda: not api.watches)
    node.given.want([KEYS], ())
    await until(lambda: node.has(KEYS) == {"k": b"word"})


async def test_a_failure_of_the_disk_is_said_and_repeated(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    failures = [OSError(28, "No space left on device")] * 3
    keep = node.store.keep

    def failing(found: Any) -> bool:
        if failures:
            raise failures.pop()
        return keep(found)

    monkeypatch.setattr(node.store, "keep", failing)
    with caplog.at_level(logging.WARNING):
        node.start([KEYS])
        await until(lambda: node.has(KEYS) == {"k": b"word"})
    assert len([each for each in caplog.messages if "No space left" in each and "keys" in each]) == 1
    assert "word" not in caplog.text


def test_an_answer_that_is_no_such_object_shows_nothing_of_it() -> None:
    for document in (
        {"metadata": {"name": "keys", "namespace": "default"}, "data": ["word"]},
        {"metadata": {"name": "other", "namespace": "default"}, "data": {}},
        {"metadata": None},
    ):
        with pytest.raises(NotAnObject) as wrong:
            given_object(KEYS, document)
        assert "word" not in str(wrong.value) and 'secret "keys"' in str(wrong.value)


def test_a_pod_of_the_cluster_means_the_clusters_objects_and_any_other_the_nodes_own() -> None:
    spec = {
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        "containers": [{"name": "a", "image": "b:1", "envFrom": [{"secretRef": {"name": "keys"}}]}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    theirs = bound_pod(pod("web", spec=spec))
    assert theirs is not None
    assert theirs.refs == {SETTINGS, KEYS, ObjectRef("Secret", "default", "registry", origin="cluster"), SERVICES}
    ours = Pod.model_validate({"metadata": {"name": "web"}, "spec": spec})
    assert not any(each.ref.is_clusters for each in references(ours))


def test_a_copy_that_somebody_has_applied_is_no_pod_of_the_cluster() -> None:
    theirs = bound_pod(pod("web", spec={"imagePullSecrets": [{"name": "registry"}]}))
    assert theirs is not None and theirs.document is not None
    copied = Pod.model_validate(theirs.document)
    copied = copied.model_copy(update={"metadata": copied.metadata.model_copy(update={"uid": "another"})})
    assert not any(each.ref.is_clusters for each in references(copied))


async def test_the_objects_of_a_pod_are_used_until_it_has_finished(tmp_path: Path) -> None:
    node = replace(NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory")
    theirs = bound_pod(pod("web", spec={"imagePullSecrets": [{"name": "keys"}]}))
    assert theirs is not None
    record = PodRecord(pod=Pod.model_validate(theirs.document))
    make_directories(own_directories("uid-of-web", node))
    write_pod_record(node, record)
    used = used_objects(node)
    assert set(await used()) == {KEYS, SERVICES}
    mark_pod_record(node, record, "finished")
    assert list(await used()) == []


async def test_a_pods_token_is_kept_until_the_pod_has_finished(api: ApiServer, node: Node) -> None:
    need = TokenNeed(ObjectRef("Secret", "default", "u-1", "token"), "web", "u", "default", "", 3600)
    node.start([])
    node.given.want([need.ref], [need])
    await until(lambda: node.has(need.ref) == {"token": b"token-1-of-default"})
    node.used = [need.ref]
    node.given.want([], [])  # the pod was deleted with force, and still ends here
    await node.given.tidy()
    assert node.has(need.ref) is not None
    node.used = []
    await until(lambda: node.has(need.ref) is None)
    assert len(api.token_requests) == 1


async def test_encrypted_copies_go_with_the_last_pod_that_uses_them(
    api: ApiServer, client: ApiClient, tmp_path: Path
) -> None:
    node = Node(client, tmp_path)
    node.store = KeepingStore(tmp_path / "state", tmp_path / "memory")
    node.given = GivenObjects(client, node.store, node._uses, node._tell, claims(client, node.store))
    await api.put(object_path("Secret", "keys"), given("Secret", "keys", k="word"))
    need = TokenNeed(ObjectRef("Secret", "default", "u-1", "token"), "web", "u", "default", "", 3600)
    node.start([])
    node.given.want([KEYS, need.ref], [need])
    copies = tmp_path / "state/kept-secrets"
    await until(lambda: {path.name for path in copies.glob("*/*/*")} == {"keys", "u-1"})
    node.given.want([], [])
    await until(lambda: not list(copies.glob("*/*/*")))
    await node.stop()
