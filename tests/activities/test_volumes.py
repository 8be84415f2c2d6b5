"""Volumes in steps: made before the sandbox, delayed while an object is missing, updated when labels change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.steps import CreateSandbox, Fault, Outcome, SyncVolumes
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.objects import ObjectRef
from syncpod.pod import ConfigMap
from tests.activities.bench import Bench, PodOnBench, fault_of

SETTINGS = ObjectRef("ConfigMap", "default", "settings")
LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
VOLUMES: list[dict[str, Any]] = [
    {"name": "map", "configMap": {"name": "settings"}},
    {"name": "me", "downwardAPI": {"items": [LABELS]}},
]


def put(bench: Bench, **data: str) -> None:
    document = {"metadata": {"name": "settings", "namespace": "default"}, "data": data}
    bench.node.objects.put(ConfigMap.model_validate(document))


def shown(bench: Bench, pod: PodOnBench, path: str) -> str:
    return (bench.node.context.state_dir / "pods" / pod.uid / "volumes" / path).read_text()


def record(bench: Bench, pod: PodOnBench) -> PodRecord:
    found = read_pod_record(bench.node.context, pod.uid)
    assert found is not None
    return found


async def test_volumes_and_the_pod_record_are_written_before_the_sandbox_is_created(bench: Bench) -> None:
    put(bench, colour="red")
    pod = bench.pod(volumes=VOLUMES)
    assert (await pod.create_sandbox()).outcome == Outcome.DONE
    assert shown(bench, pod, "kubernetes.io~configmap/map/colour") == "red"
    assert (record(bench, pod).pod, record(bench, pod).incarnation) == (pod.pod, pod.incarnation)


async def test_a_missing_volume_source_is_a_failed_mount_and_the_pod_is_registered_to_wait(bench: Bench) -> None:
    pod = bench.pod(volumes=[*VOLUMES, {"name": "again", "configMap": {"name": "settings"}}])
    fault, error, detail = await fault_of(pod.create_sandbox())
    setup = 'MountVolume.SetUp failed for volume "{}" : configmap "settings" not found'
    assert fault == Fault.FAILED_MOUNT
    assert error.message == f"{setup.format('map')}; {setup.format('again')}"
    assert [(each.type, each.reason, each.message) for each in detail.events] == [
        ("Warning", "FailedMount", setup.format(name)) for name in ("map", "again")
    ]
    assert detail.status.sandboxes == ()
    waiter = pod_workflow_id("default", pod.pod.metadata.name), "create_sandbox"
    assert bench.node.waiting_for == {SETTINGS: {waiter}}

    put(bench, colour="red")
    assert (await pod.create_sandbox()).outcome == Outcome.DONE


async def test_an_object_created_while_the_step_registers_to_wait_is_used(bench: Bench) -> None:
    class Appearing(dict[ObjectRef, set[tuple[str, str]]]):
        """Applies the ConfigMap just before the step begins to wait for it."""

        def setdefault(self, key: ObjectRef, default: Any = None) -> Any:
            put(bench, colour="red")
            return super().setdefault(key, default)

    bench.node.waiting_for = Appearing()
    pod = bench.pod(volumes=VOLUMES)
    assert (await pod.create_sandbox()).outcome == Outcome.DONE
    assert shown(bench, pod, "kubernetes.io~configmap/map/colour") == "red"


async def test_changed_labels_are_written_to_downward_files_and_the_record(bench: Bench) -> None:
    put(bench, colour="red")
    pod = bench.pod(volumes=VOLUMES)
    await pod.create_sandbox()
    labelled = pod.pod.model_copy(update={"metadata": pod.pod.metadata.model_copy(update={"labels": {"app": "other"}})})
    for _ in range(2):
        request = SyncVolumes(ref=pod.ref, fence=pod.next_fence(), pod=labelled)
        result = await pod.step(StepName.SYNC_VOLUMES, request).result()
        assert result.outcome == Outcome.DONE
    assert shown(bench, pod, "kubernetes.io~downward-api/me/labels") == 'app="other"'
    assert record(bench, pod).pod == labelled
    assert record(bench, pod).admitted


async def test_labels_changed_before_an_adoption_are_written(bench: Bench) -> None:
    put(bench, colour="red")
    pod = bench.pod(volumes=VOLUMES)
    await pod.create_sandbox()
    labelled = pod.pod.model_copy(update={"metadata": pod.pod.metadata.model_copy(update={"labels": {"a": "b"}})})
    request = CreateSandbox(ref=pod.ref, fence=pod.next_fence(), pod=labelled, attempt=0)
    assert (await pod.step(StepName.CREATE_SANDBOX, request, attempt=2).result()).outcome == Outcome.ADOPTED
    assert shown(bench, pod, "kubernetes.io~downward-api/me/labels") == 'a="b"'


async def test_a_volume_that_cannot_be_updated_is_reported_and_kept(bench: Bench) -> None:
    put(bench, colour="red")
    pod = bench.pod(volumes=VOLUMES)
    await pod.create_sandbox()
    bench.node.objects.delete(SETTINGS)
    request = SyncVolumes(ref=pod.ref, fence=pod.next_fence(), pod=pod.pod)
    fault, error, _ = await fault_of(pod.step(StepName.SYNC_VOLUMES, request).result())
    assert (fault, 'configmap "settings" not found' in error.message) == (Fault.FAILED_MOUNT, True)
    assert shown(bench, pod, "kubernetes.io~configmap/map/colour") == "red"


async def test_removing_a_pod_removes_all_its_volumes(bench: Bench) -> None:
    put(bench, colour="red")
    memory = {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    pod = bench.pod(volumes=[*VOLUMES, memory])
    await pod.create_sandbox()
    in_use = await asyncio.to_thread(Path("/proc/self/mounts").read_text)
    assert (pod.uid in in_use) == bench.node.context.may_mount
    await pod.kill()
    for _ in range(2):
        await pod.remove()
        context = bench.node.context
        left = [*context.state_dir.glob(f"pods/*{pod.uid}*"), *context.memory_dir.glob(f"pods/*{pod.uid}*")]
        assert left == []
    assert pod.uid not in await asyncio.to_thread(Path("/proc/self/mounts").read_text)
