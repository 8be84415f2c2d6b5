"""Volumes of every kind seen from containers: updates while they run, and waits for missing objects."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from syncpod.objects import ObjectRef
from syncpod.pod import ConfigMap, Secret
from syncpod.translation.features import mounts_images
from tests.e2e.engine import PATIENCE, EngineNode, LivePod, Pods, shell, status_of
from tests.runtimes.images import BUSYBOX_2

pytestmark = pytest.mark.every_runtime("mounts are made by the runtime", one_containerd=True)

OF_EACH_KIND = 8
GROUP = 2000
SECURITY = {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": GROUP}


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap.model_validate({"metadata": {"name": name, "namespace": "default"}, "data": data})


def secret(name: str, **data: str) -> Secret:
    return Secret.model_validate({"metadata": {"name": name, "namespace": "default"}, "stringData": data})


@pytest.fixture
def names() -> dict[str, str]:
    """Names of objects, unique to a test."""
    suffix = uuid.uuid4().hex[:6]
    return {kind: f"{kind}-{suffix}" for kind in ("settings", "password", "later")}


def volumes(names: dict[str, str], place: Path) -> list[dict[str, Any]]:
    """Eight volumes of each kind that every runtime has, and each type of hostPath among them."""
    (place / "directory").mkdir()
    (place / "file").write_text("of the node")
    host_paths = [
        ("DirectoryOrCreate", place / "made"), ("Directory", place / "directory"), ("File", place / "file"),
        ("FileOrCreate", place / "made-file"), ("CharDevice", Path("/dev/null")), ("", place), ("", place),
        ("Directory", place),
    ]  # fmt: skip
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    memory = {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}
    parts = [
        {"configMap": {"name": names["settings"], "items": [{"key": "colour", "path": "deep/er/colour"}]}},
        {"secret": {"name": names["password"], "items": [{"key": "root", "path": "root", "mode": 0o400}]}},
        {"downwardAPI": {"items": [label, {"path": "memory", "resourceFieldRef": memory}]}},
        {"configMap": {"name": names["later"], "optional": True}},
    ]
    sources: dict[str, list[dict[str, Any]]] = {
        "disk": [{"emptyDir": {}}] * OF_EACH_KIND,
        "memory": [{"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}] * OF_EACH_KIND,
        "host": [{"hostPath": {"path": str(path), "type": kind}} for kind, path in host_paths],
        "map": [{"configMap": {"name": names["settings"]}}] * OF_EACH_KIND,
        "secret": [{"secret": {"secretName": names["password"], "defaultMode": 0o400}}] * OF_EACH_KIND,
        "downward": [{"downwardAPI": {"items": [label]}}] * OF_EACH_KIND,
        "projected": [{"projected": {"sources": parts, "defaultMode": 0o600}}] * OF_EACH_KIND,
    }
    return [{"name": f"{kind}-{index}", **each} for kind, some in sources.items() for index, each in enumerate(some)]


async def seen(pod: LivePod, command: str, wanted: str) -> None:
    """Wait until a command in the container prints this text."""
    deadline = time.monotonic() + PATIENCE
    while (printed := await pod.exec("main", command)) != wanted:
        assert time.monotonic() < deadline, f"{command} printed {printed!r}\n{pod.node.said}"
        await asyncio.sleep(0.2)


async def test_a_pod_sees_eight_volumes_of_each_kind_and_their_updates(
    pods: Pods, engine: EngineNode, names: dict[str, str], tmp_path: Path
) -> None:
    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="red", shape="round"))
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="secret-text"))
    wanted = volumes(names, tmp_path)
    document = pods.manifest(
        "volumes",
        shell(
            "main",
            volumeMounts=[{"name": each["name"], "mountPath": f"/v/{each['name']}"} for each in wanted],
            resources={"limits": {"memory": "64Mi"}},
        ),
        volumes=wanted,
        securityContext=SECURITY,
    )
    document["metadata"]["labels"] = {"app": "one"}
    pod = pods.know(document)
    await pod.apply(document)
    await pod.running()

    await assert_as_written(pod, tmp_path)
    await assert_kept_up_to_date(pod, engine, names)
    assert status_of(await pod.get(), "main")["restartCount"] == 0
    await pod.delete()
    assert (tmp_path / "made").is_dir()
    assert (tmp_path / "file").read_text() == "of the node"


async def warned(pod: LivePod, message: str) -> None:
    """Wait until a volume has failed with this message."""
    deadline = time.monotonic() + PATIENCE
    while message not in {event["message"] for event in await pod.events("FailedMount")}:
        assert time.monotonic() < deadline, pod.node.said
        await asyncio.sleep(0.1)


async def assert_as_written(pod: LivePod, place: Path) -> None:
    """Assert the contents and owners of the first and the last volume of each kind."""
    for index in (0, OF_EACH_KIND - 1):
        assert await pod.exec("main", f"cd /v/map-{index}; cat colour shape; stat -Lc '%a %g' colour") == (
            f"redround644 {GROUP}"
        )
        # 0400, and readable for the pod's group as well.
        assert await pod.exec("main", f"cd /v/secret-{index}; cat root; stat -Lc '%a %g' root") == (
            f"secret-text440 {GROUP}"
        )
        assert await pod.exec("main", f"cat /v/downward-{index}/labels") == 'app="one"'
        assert await pod.exec("main", f"cd /v/projected-{index}; ls; cat deep/er/colour root labels memory") == (
            'deep\nlabels\nmemory\nroot\nredsecret-textapp="one"64'
        )
        assert await pod.exec("main", f"stat -Lc '%a' /v/projected-{index}/root /v/projected-{index}/labels") == (
            "440\n640"
        )
        for medium, mode in (("disk", "2777"), ("memory", "3777")):
            at = f"/v/{medium}-{index}"
            assert await pod.exec("main", f"stat -c '%a %g' {at}; echo hello > {at}/file; stat -c %g {at}/file") == (
                f"{mode} {GROUP}\n{GROUP}"
            )
    assert "1.0M" in await pod.exec("main", "df -h /v/memory-0 | tail -1")
    assert "No space" in await pod.exec("main", "dd if=/dev/zero of=/v/memory-0/big bs=1M count=2; rm /v/memory-0/big")
    for kind in ("map", "secret", "downward", "projected"):
        assert "Read-only file system" in await pod.exec("main", f"echo > /v/{kind}-0/new")
    assert await pod.exec("main", "cat /v/host-2; ls -d /v/host-0; test -c /v/host-4 && echo device") == (
        "of the node/v/host-0\ndevice"
    )
    assert (place / "made").is_dir()
    assert (place / "made-file").is_file()


async def assert_kept_up_to_date(pod: LivePod, engine: EngineNode, names: dict[str, str]) -> None:
    """Assert that changes of objects, optional objects and the pod itself arrive in mounted files."""
    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="blue", size="large"))
    await seen(pod, "cd /v/map-7; ls; cat colour size", "colour\nsize\nbluelarge")
    await seen(pod, "cat /v/projected-7/deep/er/colour", "blue")
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="other-text"))
    await seen(pod, "cat /v/secret-7/root /v/projected-0/root; stat -Lc %a /v/secret-7/root", "other-textother-text440")
    await asyncio.to_thread(engine.objects.put, config_map(names["later"], more="more"))
    await seen(pod, "cat /v/projected-0/more", "more")
    await asyncio.to_thread(engine.objects.delete, ObjectRef("ConfigMap", "default", names["later"]))
    await seen(pod, "ls /v/projected-0", "deep\nlabels\nmemory\nroot")

    labels = {"app": "two", "tier": "front"}
    await pod.apply({**pod.document, "metadata": {**pod.document["metadata"], "labels": labels}})
    await seen(pod, "cat /v/downward-0/labels", 'app="two"\ntier="front"')
    await seen(pod, "cat /v/projected-7/labels", 'app="two"\ntier="front"')


async def test_a_volume_can_be_mounted_inside_each_file_volume(
    pods: Pods, engine: EngineNode, names: dict[str, str]
) -> None:
    """Row 121: as sidecars do, which mount a volume of their own inside a projected one with a token or labels."""
    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="red"))
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="secret-text"))
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    of_files: dict[str, dict[str, Any]] = {
        "map": {"configMap": {"name": names["settings"]}},
        "secret": {"secret": {"secretName": names["password"]}},
        "downward": {"downwardAPI": {"items": [label]}},
        "projected": {"projected": {"sources": [{"configMap": {"name": names["settings"]}}]}},
    }
    mounts = [
        mount
        for name in of_files
        for mount in (
            {"name": name, "mountPath": f"/v/{name}"},
            {"name": "disk", "mountPath": f"/v/{name}/in/side"},
            {"name": "disk", "mountPath": f"/v/{name}/part", "subPath": name},
        )
    ]
    disk = {"name": "disk", "emptyDir": {}}
    document = pods.manifest(
        "nested",
        shell("main", volumeMounts=mounts),
        volumes=[disk, *({"name": name, **source} for name, source in of_files.items())],
    )
    document["metadata"]["labels"] = {"app": "one"}
    pod = pods.know(document)
    await pod.apply(document)
    await pod.running()
    assert await pod.exec("main", "echo hello > /v/map/in/side/file; cat /v/*/in/side/file") == "\n".join(["hello"] * 4)
    assert await pod.exec("main", "touch /v/secret/part/new; ls /v/map/in/side/secret") == "new"
    shown = "cat /v/map/colour /v/secret/root /v/downward/labels /v/projected/colour"
    assert await pod.exec("main", shown) == 'redsecret-textapp="one"red'
    if os.geteuid() == 0:
        kinds = await pod.exec("main", "cd /v; stat -c %a map secret downward projected")
        assert kinds == "777\n1777\n1777\n1777"
        of_memory = await pod.exec("main", "df -T /v/downward /v/projected | awk 'NR > 1 {print $2}'")
        assert of_memory == "tmpfs\ntmpfs"

    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="blue"))
    await seen(pod, "cat /v/map/colour /v/projected/colour /v/projected/in/side/file", "bluebluehello")
    later = {
        **shell("later"),
        "volumeMounts": [{"name": "map", "mountPath": "/e"}, {"name": "disk", "mountPath": "/e/later"}],
    }
    await pod.handle.execute_update("add_ephemeral_container", later)
    await pod.until(lambda pod: "running" in status_of(pod, "later").get("state", {}))
    assert await pod.exec("later", "cat /e/colour /e/later/file") == "bluehello"
    assert await pod.exec("main", "cat /v/map/colour /v/map/in/side/file") == "bluehello"
    await pod.delete()


async def test_a_pod_waits_for_missing_volume_sources_and_continues_once_they_exist(
    pods: Pods, engine: EngineNode, names: dict[str, str]
) -> None:
    items = [{"key": "colour", "path": "colour"}]
    mounts = [{"name": "map", "mountPath": "/map"}, {"name": "secret", "mountPath": "/secret"}]
    pod = await pods.apply(
        "waits",
        shell("main", volumeMounts=mounts),
        volumes=[
            {"name": "map", "configMap": {"name": names["settings"], "items": items}},
            {"name": "secret", "secret": {"secretName": names["password"]}},
        ],
    )
    setup = "MountVolume.SetUp failed for volume"
    not_there = {
        f'{setup} "map" : configmap "{names["settings"]}" not found',
        f'{setup} "secret" : secret "{names["password"]}" not found',
    }
    await pod.event("FailedMount")
    assert {event["message"] for event in await pod.events("FailedMount")} == not_there
    assert (await pod.get())["status"]["phase"] == "Pending"

    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], shape="round"))
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="secret-text"))
    is_key_missing = f'{setup} "map" : configmap references non-existent config key: colour'
    await warned(pod, is_key_missing)
    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="red"))
    await pod.running()
    assert await pod.exec("main", "cat /map/colour /secret/root") == "redsecret-text"
    # The pod was signalled; it did not wait for the end of the back-off.
    told = f'configmap "{names["settings"]}" has come or changed: the back-off of create_sandbox ends'
    assert told in {line["reason"] for line in await pod.history("signal")}
    assert "secret-text" not in engine.said


async def test_an_image_volume_is_mounted_if_the_runtime_supports_it_and_else_refused_by_name(
    pods: Pods, engine: EngineNode
) -> None:
    """Row 57: image volumes."""
    mounts = [{"name": "image", "mountPath": "/all"}, {"name": "image", "mountPath": "/part", "subPath": "etc"}]
    pod = await pods.apply(
        "image",
        shell("main", volumeMounts=mounts),
        volumes=[{"name": "image", "image": {"reference": BUSYBOX_2}}],
    )
    version = await engine.cri.version()
    if mounts_images(version):
        await pod.running()
        assert (await pod.exec("main", "ls /all/bin/busybox; head -1 /part/passwd")).startswith(
            "/all/bin/busybox\nroot:x:0:0"
        )
        assert "Read-only file system" in await pod.exec("main", "echo > /all/new")
        return
    refusal = f"spec.volumes[0].image: {version.name} {version.version} cannot mount images"
    deadline = time.monotonic() + PATIENCE
    while not any(refusal in line["reason"] for line in await pod.history("hold")):
        assert time.monotonic() < deadline, pod.node.said
        await asyncio.sleep(0.1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the first test shows more of it")
async def test_volumes_work_without_root(pods: Pods, engine: EngineNode, names: dict[str, str]) -> None:
    await asyncio.to_thread(engine.objects.put, config_map(names["settings"], colour="red"))
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="secret-text"))
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    parts = [{"secret": {"name": names["password"]}}, {"downwardAPI": {"items": [label]}}]
    wanted: list[dict[str, Any]] = [
        {"name": "map", "configMap": {"name": names["settings"]}},
        {"name": "secret", "secret": {"secretName": names["password"], "defaultMode": 0o400}},
        {"name": "parts", "projected": {"sources": parts}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/v-{each['name']}"} for each in wanted]
    document = pods.manifest("volumes", shell("main", volumeMounts=mounts), volumes=wanted)
    document["metadata"]["labels"] = {"app": "one"}
    pod = pods.know(document)
    await pod.apply(document)
    await pod.running()
    assert await pod.exec("main", "cat /v-map/colour /v-secret/root /v-parts/labels") == 'redsecret-textapp="one"'
    assert await pod.exec("main", "echo hello > /v-memory/file; cat /v-memory/file") == "hello"
    home = engine.worker.state_dir.parent
    assert {path.name for path in home.glob("memory/pods/*/volumes/*/*")} == {"memory", "parts", "secret"}
    await asyncio.to_thread(engine.objects.put, secret(names["password"], root="other-text"))
    await seen(pod, "cat /v-secret/root /v-parts/root", "other-textother-text")
    await pod.delete()
