"""A changed ConfigMap or Secret reaches the pods that mount it or wait for it.

Holds: A pod that waits for an object goes on as soon as the object appears.
"""

import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.storage import volume_refresh
from syncpod.agent.storage.volume_refresh import VolumeRefresh
from syncpod.node.directories import make_directories, own_directories, plan_pod, prepare_pod, remove_pod_files
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.pod_threads import PodThreads
from syncpod.node.pod_volumes import pod_volumes, refresh_volumes
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.redaction import of_process
from syncpod.translation.context import NodeContext
from tests.agent.waiting import until, until_asked
from tests.patience import PATIENCE
from tests.translation.translation import NODE, make_pod

SETTINGS, OTHER = ObjectRef("ConfigMap", "default", "settings"), ObjectRef("ConfigMap", "default", "other")
WEB, DB = ("pod/default/web", "create_sandbox"), ("pod/default/db", "main")


@dataclass
class Scene:
    """A node without a runtime: its directories, its objects, and the sent signals."""

    node: NodeContext
    waiting_for: dict[ObjectRef, set[tuple[str, str]]] = field(default_factory=dict)
    told: list[tuple[str, str, str]] = field(default_factory=list)
    server_is_away: bool = False

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.node.state_dir, self.node.memory_dir)

    def refresh(self) -> VolumeRefresh:
        return VolumeRefresh(
            self.node,
            self.store,
            self.waiting_for,
            self.tell,
            threads=PodThreads(),
        )

    async def tell(self, workflow_id: str, subject: str, appeared: str) -> bool:
        if self.server_is_away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.told.append((workflow_id, subject, appeared))
        return True

    def put(self, name: str = "settings", **data: str) -> None:
        document = {"metadata": {"name": name, "namespace": "default"}, "data": data}
        self.store.put(ConfigMap.model_validate(document))

    def start(self, uid: str = "u1", **config_map: Any) -> Pod:
        """Create a pod that mounts a ConfigMap, with its volumes and its record."""
        source = {"name": "settings", **config_map}
        pod = make_pod({"volumes": [{"name": "v", "configMap": source}]}, uid=uid, name=f"web-{uid}")
        prepare_pod(plan_pod(pod, self.node), self.store)
        write_pod_record(self.node, PodRecord(pod=pod))
        return pod

    def shown(self, pod: Pod) -> dict[str, str]:
        (volume,) = pod_volumes(pod, self.node)
        assert volume.path is not None
        return {path.name: path.read_text() for path in volume.path.iterdir() if not path.name.startswith("..")}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(replace(NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory", log_dir=tmp_path / "logs"))


# --- who shows it -----------------------------------------------------------------------------------------------------


async def test_a_changed_object_is_written_to_each_pod_that_mounts_it(scene: Scene) -> None:
    scene.put(colour="red")
    pods = [scene.start("u1"), scene.start("u2")]
    refresh = scene.refresh()
    await refresh.look()
    scene.put(colour="blue", shape="round")
    await refresh.look()
    assert [scene.shown(pod) for pod in pods] == [{"colour": "blue", "shape": "round"}] * 2


async def test_secret_values_are_redacted_as_soon_as_they_exist(scene: Scene) -> None:
    refresh = scene.refresh()
    secret = {"metadata": {"name": "keys", "namespace": "default"}, "stringData": {"token": "first word"}}
    scene.store.put(Secret.model_validate(secret))
    await refresh.look()
    assert of_process.redact("a first word") == "a ***"
    scene.store.put(Secret.model_validate({**secret, "stringData": {"token": "second word"}}))
    await refresh.look()
    assert of_process.redact("a first word, a second word") == "a ***, a ***"


async def test_changes_without_a_running_worker_are_written_in_the_first_round(scene: Scene) -> None:
    scene.put(colour="red")
    pod = scene.start()
    scene.put(colour="blue")
    await scene.refresh().look()
    assert scene.shown(pod) == {"colour": "blue"}


async def test_an_optional_object_may_appear_and_disappear(scene: Scene) -> None:
    pod = scene.start(optional=True)
    refresh = scene.refresh()
    await refresh.look()
    scene.put(colour="red")
    await refresh.look()
    assert scene.shown(pod) == {"colour": "red"}
    scene.store.delete(SETTINGS)
    await refresh.look()
    assert scene.shown(pod) == {}


async def test_files_of_a_deleted_object_are_kept_and_this_is_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.put(colour="red")
    pod = scene.start()
    refresh = scene.refresh()
    await refresh.look()
    with caplog.at_level(logging.WARNING):
        scene.store.delete(SETTINGS)
        for _ in range(3):
            await refresh.look()
    assert scene.shown(pod) == {"colour": "red"}
    assert [record.getMessage() for record in caplog.records] == [
        'pod default/web-u1: volumes stay as they are: MountVolume.SetUp failed for volume "v" : '
        'configmap "settings" not found'
    ]
    scene.put(colour="green")
    await refresh.look()
    assert scene.shown(pod) == {"colour": "green"}


async def test_a_refresh_that_the_disk_refuses_is_retried(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.put(colour="red")
    pod = scene.start()
    refresh = scene.refresh()
    await refresh.look()
    (volume,) = pod_volumes(pod, scene.node)
    assert volume.path is not None
    (volume.path / "shape").write_text("in the way")
    scene.put(colour="blue", shape="round")
    with caplog.at_level(logging.WARNING):
        await refresh.look()
        await refresh.look()
    assert len(caplog.records) == 1
    (volume.path / "shape").unlink()
    await refresh.look()
    assert scene.shown(pod) == {"colour": "blue", "shape": "round"}


async def test_an_object_that_changes_during_a_slow_refresh_is_refreshed_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(*arguments: Any) -> Any:
        written = refresh_volumes(*arguments)
        assert goes_on.wait(PATIENCE)
        return written

    monkeypatch.setattr(volume_refresh, "refresh_volumes", slow)
    monkeypatch.setattr(volume_refresh, "PATIENCE_SECONDS", 0.0)
    scene.put(colour="red")
    pod, refresh = scene.start(), scene.refresh()
    scene.put(colour="blue")
    await refresh.look()
    await until(lambda: scene.shown(pod) == {"colour": "blue"})
    scene.put(colour="green")
    await refresh.look()
    goes_on.set()

    async def is_refreshed() -> bool:
        await refresh.look()
        return scene.shown(pod) == {"colour": "green"}

    await until_asked(is_refreshed)


async def test_a_removed_pod_is_no_longer_refreshed(scene: Scene) -> None:
    scene.put(colour="red")
    pod = scene.start()
    refresh = scene.refresh()
    await refresh.look()
    meta = pod.metadata
    remove_pod_files(scene.node, namespace=meta.namespace, name=meta.name, uid=meta.uid)
    scene.put(colour="blue")
    await refresh.look()
    assert list((scene.node.state_dir / "pods").iterdir()) == []


# --- who waits for it -------------------------------------------------------------------------------------------------


async def test_waiting_pods_are_signalled_once_when_the_object_appears(scene: Scene) -> None:
    refresh = scene.refresh()
    await refresh.look()
    scene.waiting_for |= {SETTINGS: {WEB, DB}, OTHER: {WEB}}
    await refresh.look()
    assert scene.told == []
    scene.put("settings", colour="red")
    scene.put("other", colour="red")
    await refresh.look()
    await refresh.look()
    assert scene.told == [(*DB, 'configmap "settings"'), (*WEB, 'configmap "other", configmap "settings"')]
    assert scene.waiting_for == {}


async def test_pods_waiting_when_the_last_worker_died_are_signalled_too(scene: Scene) -> None:
    source = {"configMapKeyRef": {"name": "other", "key": "k"}}
    optional = {"configMapKeyRef": {"name": "third", "key": "k", "optional": True}}
    spec = {
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        "initContainers": [{"name": "first", "image": "i", "env": [{"name": "A", "valueFrom": source}]}],
        "containers": [{"name": "main", "image": "i", "env": [{"name": "A", "valueFrom": optional}]}],
    }
    pod = make_pod(spec, uid="u1", name="web")
    make_directories(own_directories("u1", scene.node))
    write_pod_record(scene.node, PodRecord(pod=pod))
    refresh = scene.refresh()
    await refresh.look()
    assert scene.waiting_for == {SETTINGS: {WEB}, OTHER: {("pod/default/web", "first")}}
    scene.put(colour="red")
    await refresh.look()
    assert scene.told == [(*WEB, 'configmap "settings"')]


async def test_pods_waiting_for_a_key_are_signalled_at_each_change(scene: Scene) -> None:
    scene.put(colour="red")
    refresh = scene.refresh()
    await refresh.look()
    for shape in ("round", "square"):
        scene.waiting_for[SETTINGS] = {DB}
        await refresh.look()
        scene.put(shape=shape)
        await refresh.look()
    assert scene.told == [(*DB, 'configmap "settings"')] * 2


async def test_no_pod_is_signalled_when_an_object_is_deleted(scene: Scene) -> None:
    scene.put(colour="red")
    refresh = scene.refresh()
    await refresh.look()
    scene.waiting_for[SETTINGS] = {DB}
    scene.store.delete(SETTINGS)
    await refresh.look()
    assert (scene.told, scene.waiting_for) == ([], {SETTINGS: {DB}})


async def test_a_failed_signal_to_a_waiting_pod_is_retried(scene: Scene) -> None:
    refresh = scene.refresh()
    await refresh.look()
    scene.waiting_for[SETTINGS] = {DB, WEB}
    scene.put(colour="red")
    scene.server_is_away = True
    await refresh.look()
    scene.server_is_away = False
    await refresh.look()
    assert [told[:2] for told in scene.told] == [DB, WEB]
    assert scene.waiting_for == {}


# --- objects of a cluster ---------------------------------------------------------------------------------------------

THEIRS = replace(SETTINGS, origin="cluster")


def _of_cluster(uid: str, **more: Any) -> Pod:
    annotations = {"kubernetes.io/config.source": "kubernetes"}
    return make_pod({"volumes": [{"name": "v", **more}]}, uid=uid, name="web", annotations=annotations)


@pytest.mark.parametrize("optional", [True, False])
async def test_what_is_not_known_yet_is_waited_for_by_a_new_worker_too_and_its_absence_is_told(
    scene: Scene, optional: bool
) -> None:
    pod = _of_cluster("u1", configMap={"name": "settings", "optional": optional})
    make_directories(own_directories("u1", scene.node))
    write_pod_record(scene.node, PodRecord(pod=pod))
    scene.store.keep(ConfigMap.model_validate({"metadata": {"name": "all", "namespace": "default"}}), "services")
    scene.put(colour="red")  # the node's own one of this name is none of the cluster's
    refresh = scene.refresh()
    await refresh.look()
    assert scene.waiting_for == {THEIRS: {WEB}}
    scene.store.note_absent(THEIRS)
    await refresh.look()
    assert scene.told == [(*WEB, 'configmap "settings"')] and scene.waiting_for == {}
    # The step has failed again, and waits until it exists.
    scene.waiting_for[THEIRS] = {WEB}
    scene.store.forget(THEIRS)
    await refresh.look()
    assert len(scene.told) == 1
    scene.store.keep(ConfigMap.model_validate({"metadata": {"name": "settings", "namespace": "default"}}))
    await refresh.look()
    assert len(scene.told) == 2


async def test_a_new_worker_waits_for_what_is_required_and_absent(scene: Scene) -> None:
    for uid, name, optional in (("u1", "settings", False), ("u2", "third", True)):
        make_directories(own_directories(uid, scene.node))
        pod = _of_cluster(uid, configMap={"name": name, "optional": optional})
        write_pod_record(scene.node, PodRecord(pod=pod))
        scene.store.note_absent(ObjectRef("ConfigMap", "default", name, origin="cluster"))
    await scene.refresh().look()
    assert scene.told == [(*WEB, 'configmap "settings"')]


async def test_nobody_is_signalled_when_the_cluster_deletes_an_object(scene: Scene) -> None:
    scene.store.keep(ConfigMap.model_validate({"metadata": {"name": "settings", "namespace": "default"}}))
    refresh = scene.refresh()
    await refresh.look()
    scene.waiting_for[THEIRS] = {DB}
    scene.store.note_absent(THEIRS)
    await refresh.look()
    assert (scene.told, scene.waiting_for) == ([], {THEIRS: {DB}})
