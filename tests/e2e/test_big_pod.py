"""A pod of 20 containers, 10 init containers and eight volumes of each kind, one a ConfigMap of 1 MiB."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from syncpod.pod import ConfigMap, Secret
from syncpod.translation.features import mounts_images
from tests.e2e.engine import EngineNode, LivePod, Pods, shell
from tests.runtimes.images import HTTPD

CONTAINERS, INIT_CONTAINERS, OF_EACH_KIND = 20, 10, 8
WAITS = "trap 'exit 0' TERM; while :; do sleep 1; done"
"""Not `sleep 10000 & wait`: containerd 2.4 takes two seconds for the end of each container that leaves a child, one
after the other."""
BIG = "0123456789abcde\n" * (64 * 1024 - 1)
"""A text of 1 MiB minus 16 bytes, which leaves room for the rest of the ConfigMap."""


def objects(name: str) -> tuple[ConfigMap, Secret]:
    """A ConfigMap of 1 MiB to the last byte, and a Secret."""
    metadata = {"name": name, "namespace": "default"}
    data = {"big": BIG, "small": "x" * (2**20 - len(BIG))}
    return (
        ConfigMap.model_validate({"metadata": metadata, "data": data}),
        Secret.model_validate({"metadata": metadata, "stringData": {"password": "of-the-big-pod"}}),
    )


def volumes(name: str, host: Path, *, images: bool) -> list[dict[str, Any]]:
    """Eight volumes of each kind, named after it and numbered."""
    labels = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    sources: dict[str, dict[str, Any]] = {
        "disk": {"emptyDir": {}},
        "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        "host": {"hostPath": {"path": str(host), "type": "Directory"}},
        "map": {"configMap": {"name": name}},
        "secret": {"secret": {"secretName": name}},
        "projected": {
            "projected": {
                "sources": [
                    {"configMap": {"name": name, "items": [{"key": "small", "path": "of/map"}]}},
                    {"secret": {"name": name, "items": [{"key": "password", "path": "of/secret"}]}},
                    {"downwardAPI": labels},
                ]
            }
        },
        "downward": {"downwardAPI": labels},
        **({"image": {"image": {"reference": HTTPD}}} if images else {}),
    }
    return [
        {"name": f"{kind}-{number}", **source} for kind, source in sources.items() for number in range(OF_EACH_KIND)
    ]


def mounts(some: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in some]


def document(pods: Pods, name: str, wanted: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod. Its first container mounts every volume, each other container one volume of each kind."""

    def share(number: int) -> list[dict[str, Any]]:
        return [volume for volume in wanted if volume["name"].endswith(f"-{number % OF_EACH_KIND}")]

    made = pods.manifest(
        "big",
        shell("c0", WAITS, volumeMounts=mounts(wanted)),
        *(
            shell(f"c{number}", f"sha256sum < /v/map-{number % OF_EACH_KIND}/big; {WAITS}",
                  volumeMounts=mounts(share(number)))
            for number in range(1, CONTAINERS)
        ),
        initContainers=[
            shell(f"i{number}", f"echo {number} >> /v/disk-0/order", volumeMounts=mounts(share(0)))
            for number in range(INIT_CONTAINERS)
        ],
        volumes=wanted,
    )  # fmt: skip
    made["metadata"]["labels"] = {"app": "big"}
    return made


@pytest.fixture
def name() -> str:
    return f"big-{uuid.uuid4().hex[:6]}"


async def test_a_big_pod_starts_is_correct_from_inside_and_leaves_nothing(
    pods: Pods, engine: EngineNode, name: str, tmp_path: Path
) -> None:
    (tmp_path / "word").write_text("of the node")
    for made in objects(name):
        await asyncio.to_thread(engine.objects.put, made)
    wanted = volumes(name, tmp_path, images=mounts_images(await engine.cri.version()))
    pod = pods.know(document(pods, name, wanted))

    begun = time.monotonic()
    await pod.apply(pod.document)
    await pod.running()
    up = time.monotonic() - begun
    events = await history_events(pod)
    steps = Counter(shown.partition(" ")[0] for shown in await pod.scheduled())
    late = steps["start_init_container"] - INIT_CONTAINERS  # one that had begun before the one before it was over
    assert late in (0, 1)
    steps["start_init_container"] -= late
    assert steps == {"create_sandbox": 1, "start_init_container": INIT_CONTAINERS, "start_container": CONTAINERS}

    await assert_right_from_inside(pod, wanted)
    begun = time.monotonic()
    final = await pod.delete()
    down = time.monotonic() - begun
    assert final["metadata"]["uid"] not in await asyncio.to_thread(Path("/proc/self/mountinfo").read_text)
    assert (tmp_path / "word").read_text() == "of the node"
    sys.stdout.write(
        f"\nbig pod on {engine.runtime.name}: {len(wanted)} volumes, up in {up:.1f} s with {events} events of history, "
        f"down in {down:.1f} s with {await history_events(pod)}\n"
    )


async def assert_right_from_inside(pod: LivePod, wanted: list[dict[str, Any]]) -> None:
    """Assert that the first container sees every volume right, and that each other one has read the large ConfigMap."""
    order = "\n".join(str(number) for number in range(INIT_CONTAINERS))
    assert await pod.exec("c0", "cat /v/disk-0/order") == order
    seen = (await pod.exec("c0", "ls /v")).split()
    assert sorted(seen) == sorted(volume["name"] for volume in wanted)
    digest = hashlib.sha256(BIG.encode()).hexdigest()
    numbers = " ".join(str(number) for number in range(OF_EACH_KIND))
    look = f"""
        for n in {numbers}; do
            sha256sum < /v/map-$n/big; wc -c < /v/map-$n/small
            cat /v/secret-$n/password /v/projected-$n/of/secret; echo
            wc -c < /v/projected-$n/of/map; cat /v/projected-$n/labels /v/downward-$n/labels; echo
            cat /v/host-$n/word; echo
            echo $n > /v/disk-$n/own; echo $n > /v/memory-$n/own
        done
        for n in {numbers}; do cat /v/disk-$n/own /v/memory-$n/own; done
    """
    small = 2**20 - len(BIG)
    each = [
        *(f"{digest}  -", str(small), "of-the-big-podof-the-big-pod", str(small), 'app="big"app="big"', "of the node"),
    ]
    own = [str(number) for number in range(OF_EACH_KIND) for _ in range(2)]
    assert (await pod.exec("c0", look)).splitlines() == [*each * OF_EACH_KIND, *own]
    if "image-0" in seen:
        pages = await pod.exec("c0", f"for n in {numbers}; do grep -c works /v/image-$n/var/www/index.html; done")
        assert pages.split() == ["1"] * OF_EACH_KIND
    for number in range(1, CONTAINERS):
        assert await pod.logged(f"c{number}") == [f"{digest}  -"]
    # One container reads what another wrote into a shared volume.
    assert await pod.exec("c7", "cat /v/disk-7/own /v/memory-7/own; ls /v | wc -l") == (
        f"7\n7\n{len(wanted) // OF_EACH_KIND}"
    )


async def history_events(pod: LivePod) -> int:
    """The number of events in the newest run's history."""
    return (await pod.handle.describe()).history_length
