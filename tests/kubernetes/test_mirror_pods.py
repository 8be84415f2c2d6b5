"""Mirror pods show the node's static pods to the cluster; deleting a mirror does not end its static pod.

Holds: A static pod runs on, whatever becomes of its mirror in a Kubernetes cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.agent.kubernetes import mirror_pods
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.reflector import ObjectKey
from syncpod.messages.node import FILE_SOURCE
from syncpod.pod import ObjectMeta
from tests.agent.waiting import until
from tests.kubernetes.api_server import ApiServer, Fault, pod, pod_path
from tests.kubernetes.test_bound_pods import Node, noted_waits

KEY = ObjectKey("default", "web-n1")
PATH = pod_path("web-n1")


class Static:
    """The published state of a static pod."""

    replacing = ()

    def __init__(self, uid: str = "hash1", phase: str = "Running", *, is_followed: bool = False) -> None:
        self.uid, self._phase, self.is_followed = uid, phase, is_followed
        annotations = {"kubernetes.io/config.source": FILE_SOURCE, "kubernetes.io/config.hash": uid}
        self.metadata = ObjectMeta(name="web-n1", namespace="default", uid=uid, annotations=annotations)

    def pod(self) -> dict[str, Any]:
        metadata = self.metadata.model_dump(by_alias=True, exclude_defaults=True)
        spec = {"nodeName": "n1", "containers": [{"name": "app", "image": "busybox:1"}]}
        return {"metadata": metadata, "spec": spec, "status": {"phase": self._phase, "podIP": "10.0.0.7"}}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits before mirrors are checked."""
    monkeypatch.setattr(mirror_pods, "LOOK_SECONDS", 0.05)


@pytest_asyncio.fixture
async def node(client: ApiClient, tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(client, tmp_path)
    yield made
    await made.stop()


def publish(node: Node, state: Static) -> None:
    """Report the pod as the link to the cluster does."""
    node.there["web-n1"] = state.uid
    node.desired.published(state)
    node.mirrors.published(state)
    node.statuses.published(KEY, state)


def end(node: Node, state: Static) -> None:
    if not state.is_followed:
        node.there.pop("web-n1", None)
    node.mirrors.gone(state)
    node.statuses.forget(KEY, state.uid)


def mirror(api: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = api.objects.get(PATH, {})
    return found


def hash_of(api: ApiServer) -> str:
    return str(mirror(api).get("metadata", {}).get("annotations", {}).get("kubernetes.io/config.mirror", ""))


async def test_a_static_pod_has_a_mirror_with_its_status(api: ApiServer, node: Node) -> None:
    node.start()
    publish(node, Static())
    await until(lambda: mirror(api).get("status", {}).get("phase") == "Running")
    metadata = mirror(api)["metadata"]
    assert metadata["annotations"] == {
        "kubernetes.io/config.hash": "hash1",
        "kubernetes.io/config.mirror": "hash1",
        "kubernetes.io/config.source": "file",
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-of-n1", "controller": True}
    assert metadata["ownerReferences"] == [owner]
    assert metadata["uid"] != "hash1"
    publish(node, Static(phase="Succeeded"))
    await until(lambda: mirror(api)["status"]["phase"] == "Succeeded")
    assert not node.told  # it is no pod that the cluster has bound to the node


async def test_a_mirror_that_somebody_deletes_is_made_again_and_the_pod_runs_on(api: ApiServer, node: Node) -> None:
    node.start()
    publish(node, Static())
    await until(lambda: mirror(api).get("status", {}).get("phase") == "Running")
    first = mirror(api)["metadata"]["resourceVersion"]
    await api.delete_pod("web-n1", 30)
    await until(lambda: bool(mirror(api)) and "deletionTimestamp" not in mirror(api)["metadata"])
    assert int(mirror(api)["metadata"]["resourceVersion"]) > int(first)
    await until(lambda: mirror(api).get("status", {}).get("phase") == "Running")
    await api.remove(PATH)  # by force
    await until(lambda: mirror(api).get("status", {}).get("phase") == "Running")
    assert not node.told


async def test_a_static_pod_that_changes_has_another_mirror_and_one_that_ends_none(api: ApiServer, node: Node) -> None:
    node.start()
    publish(node, Static())
    await until(lambda: hash_of(api) == "hash1")
    end(node, Static(is_followed=True))
    publish(node, Static("hash2"))
    await until(lambda: hash_of(api) == "hash2")
    end(node, Static("hash1"))  # the last of the one before comes late, and means nothing any more
    end(node, Static("hash2"))
    await until(lambda: not mirror(api))


async def test_a_new_worker_deletes_only_mirrors_whose_pods_have_ended(api: ApiServer, node: Node) -> None:
    annotations = {"kubernetes.io/config.mirror": "hash1"}
    await api.put(PATH, pod("web-n1", metadata={"annotations": annotations}))
    await api.put(pod_path("old-n1"), pod("old-n1", metadata={"annotations": annotations}))
    node.there["web-n1"] = "hash1"  # its workflow continues, and has not published yet
    node.start()
    await until(lambda: pod_path("old-n1") not in api.objects)
    publish(node, Static())
    await until(lambda: mirror(api).get("status", {}).get("phase") == "Running")
    assert mirror(api)["metadata"]["uid"] == "uid-of-web-n1"  # it is the same one
    assert not node.told
    node.there.pop("web-n1")


async def test_a_mirror_that_the_server_refuses_is_tried_again_and_holds_up_no_other(
    api: ApiServer, node: Node
) -> None:
    api.faults.extend(Fault("POST", "/pods", what) for what in ("403", "500", "cut"))
    node.start()
    publish(node, Static())
    await until(lambda: hash_of(api) == "hash1")


async def test_before_the_first_whole_list_no_mirror_is_made_or_deleted(api: ApiServer, node: Node) -> None:
    api.faults.extend([Fault("GET", "/pods", "cut"), Fault("GET", "/pods", "500")])
    publish(node, Static())
    node.start()
    await until(lambda: api.calls["GET pods"] == 2)
    assert not api.calls["POST pods"]
    await until(lambda: hash_of(api) == "hash1")


async def test_a_pod_whose_name_a_mirror_takes_is_no_longer_run(api: ApiServer, node: Node) -> None:
    await api.put(PATH, pod("web-n1", "u1"))
    node.start()
    await until(lambda: node.there.get("web-n1") == "u1")
    node.mirrors.published(Static("hash9"))  # so that the mirror stays
    annotations = {"kubernetes.io/config.mirror": "hash9"}
    await api.put(PATH, pod("web-n1", "u2", metadata={"annotations": annotations}))
    await until(lambda: "end web-n1/u1 None" in node.told)
    assert [each for each in node.told if each.startswith("apply")] == ["apply web-n1/u1"]


async def test_a_mirror_that_fails_often_does_not_lengthen_anothers_first_wait(
    api: ApiServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One back-off served all mirrors."""
    waits = noted_waits(node.mirrors, monkeypatch)
    api.faults.extend([Fault("POST", "namespaces/default/pods", "500")] * 8)
    node.start()
    node.mirrors.published(Static())
    await until(lambda: PATH in api.objects)
    other = Static()
    other.metadata = other.metadata.model_copy(update={"name": "other-n1"})
    api.faults.append(Fault("POST", "namespaces/default/pods", "500"))
    node.mirrors.published(other)
    await until(lambda: pod_path("other-n1") in api.objects)
    assert waits["web-n1"][7] >= 0.128 > 0.002 >= waits["other-n1"][0]
