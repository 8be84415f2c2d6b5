"""An earlier value of a Secret is forgotten once no remains of pods that may have got it exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncpod.agent.storage.former_secrets import FormerSecrets
from syncpod.node.directories import plan_pod, prepare_pod, remove_pod_files
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.secret_values import known_secret_values
from syncpod.objects import ObjectStore
from syncpod.redaction import Redactor
from syncpod.translation.context import NodeContext
from tests.objects.objects import ref, secret
from tests.translation.translation import NODE, make_pod


class Scene:
    """A node with a Secret `a` and pods that refer to it."""

    def __init__(self, directory: Path) -> None:
        self.node: NodeContext = replace(
            NODE, state_dir=directory / "state", memory_dir=directory / "memory", log_dir=directory / "logs"
        )
        self.store = ObjectStore(self.node.state_dir, self.node.memory_dir)
        self.redactor = Redactor()
        self.former = self.worker()

    def worker(self) -> FormerSecrets:
        return FormerSecrets(self.node, self.store, self.redactor)

    def put(self, value: str) -> None:
        self.store.put(secret(stringData={"k": value}))
        self.redactor.add([value])

    def start(self, uid: str) -> None:
        source = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}
        pod = make_pod({"containers": [{"name": "main", "image": "b:1", "env": [source]}]}, uid=uid, name=f"web-{uid}")
        prepare_pod(plan_pod(pod, self.node), self.store)
        write_pod_record(self.node, PodRecord(pod=pod))

    def remove(self, uid: str) -> None:
        remove_pod_files(self.node, namespace="default", name=f"web-{uid}", uid=uid)

    @property
    def hidden(self) -> str:
        return self.redactor.redact("old-value new-value")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_an_old_value_is_hidden_until_the_pods_that_had_it_are_gone(scene: Scene) -> None:
    scene.put("old-value")
    scene.start("u1")
    scene.put("new-value")
    await scene.former.look()
    assert known_secret_values(scene.store) == {"old-value", "new-value"}, "the next worker hides it too"
    scene.start("u2")
    await scene.former.look()
    assert scene.hidden == "*** ***"
    scene.remove("u1")
    await scene.former.look()
    assert scene.hidden == "old-value ***", "the pod that came later had only the new one"
    assert known_secret_values(scene.store) == {"new-value"}


async def test_the_value_of_a_deleted_secret_is_hidden_until_its_pods_are_gone(scene: Scene) -> None:
    scene.put("old-value")
    scene.start("u1")
    scene.store.delete(ref("Secret"))
    await scene.former.look()
    assert scene.hidden == "*** new-value"
    scene.remove("u1")
    await scene.former.look()
    assert scene.hidden == "old-value new-value"


async def test_another_worker_keeps_what_any_of_the_pods_may_have_had(scene: Scene) -> None:
    scene.put("old-value")
    scene.start("u1")
    scene.put("new-value")
    await scene.former.look()
    scene.start("u2")
    scene.remove("u1")
    await scene.worker().look()
    assert scene.hidden == "*** ***"


async def test_a_value_that_is_in_use_again_is_not_forgotten(scene: Scene) -> None:
    scene.put("old-value")
    scene.put("new-value")
    scene.put("old-value")
    await scene.former.look()
    assert scene.hidden == "*** new-value"
