"""Pods that exceed their storage limits are evicted with the kubelet's messages; other pods keep running."""

from __future__ import annotations

from typing import Any

from tests.e2e.engine import RUNS, LivePod, Pods, shell

CACHE = {"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}
IN_MEMORY = {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


def writes(megabytes: int, file: str, limit: str = "", *volumes: dict[str, Any]) -> dict[str, Any]:
    """A container `web` that writes this much into a file and keeps running, with an ephemeral-storage limit."""
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    resources = {"limits": {"ephemeral-storage": limit}} if limit else {}
    script = f"dd if=/dev/zero of={file} bs=1M count={megabytes}; {RUNS}"
    return shell("web", script, volumeMounts=mounts, resources=resources)


async def evicted(pod: LivePod) -> str:
    """Wait until a pod is evicted; returns its message."""
    failed = await pod.phase("Failed")
    assert failed["status"]["reason"] == "Evicted"
    message: str = failed["status"]["message"]
    (event,) = await pod.events("Evicted")
    assert (event["type"], event["message"]) == ("Warning", message)
    assert not [each for each in await pod.containers() if each.state == "running"]
    return message


async def test_pods_over_their_storage_limits_are_evicted(pods: Pods) -> None:
    """Row 118: local storage limits, in the kubelet's words."""
    volume = await pods.apply("volume", writes(2, "/cache/file", "", CACHE), volumes=[CACHE])
    shared = await pods.apply("pod", writes(3, "/scratch/file", "2Mi", SCRATCH), volumes=[SCRATCH])
    layer = await pods.apply(
        "layer",
        writes(3, "/root/file", "1Mi"),
        {**shell("other"), "resources": {"limits": {"ephemeral-storage": "1Gi"}}},
    )
    memory = await pods.apply("memory", writes(3, "/fast/file", "", IN_MEMORY), volumes=[IN_MEMORY])
    larger = {"name": "cache", "emptyDir": {"sizeLimit": "2Mi"}}
    quiet = await pods.apply("quiet", writes(1, "/cache/file", "1Gi", larger), volumes=[larger])

    assert await evicted(volume) == 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
    assert await evicted(shared) == "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
    assert await evicted(layer) == 'Container web exceeded its local ephemeral storage limit "1Mi". '
    if "tmpfs" in await memory.exec("web", "grep ' /fast ' /proc/mounts"):
        # The kernel enforces its size.
        size = await memory.exec("web", "stat -c %s /fast/file")
        assert int(size) == 1 << 20
    await quiet.running()
    await quiet.delete()
    await volume.delete()
