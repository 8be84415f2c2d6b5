"""Image garbage collection removes no more than needed, no image in use, and no image that others pulled.

Holds: Only images that this node pulled are removed.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncpod.agent.storage.image_gc import ImageGc, ImageGcFailed
from syncpod.cri import CriRuntime
from syncpod.cri.client import CriClient
from syncpod.cri.errors import RuntimeFailure
from syncpod.cri.port import ContainerSummary, FilesystemUsage, ImageFsInfo, ImageStatus, RuntimeStatus
from syncpod.lifecycle.image_gc import ImageGcPolicy
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.pull_records import PullRecords, pulled_images
from syncpod.node.verification import Verification
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until_asked
from tests.node.owned_pods import owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX, Image, images, write_archive
from tests.runtimes.runtime import Runtime

DAY = timedelta(days=1)
MIN_AGE = timedelta(minutes=2)


@dataclass
class Images:
    """A runtime with images of 100 bytes each, named `<name>:1` with the id `id-<name>`."""

    there: list[ImageStatus] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    """Ids of images that containers use."""
    refuses: str = ""
    removed: list[str] = field(default_factory=list)
    info: dict[str, str] = field(default_factory=dict)

    def has(self, *names: str, pinned: bool = False) -> None:
        self.there += [
            ImageStatus(
                id=f"id-{name}",
                repo_tags=(f"{name}:1",),
                repo_digests=(f"{name}@sha256:0",),
                size=100,
                uid=None,
                username="",
                pinned=pinned,
            )
            for name in names
        ]

    async def list_images(self) -> tuple[ImageStatus, ...]:
        return tuple(self.there)

    async def image_status(self, image: str) -> ImageStatus | None:
        return next((each for each in self.there if image in (each.id, *each.repo_tags)), None)

    async def list_containers(self) -> tuple[ContainerSummary, ...]:
        return tuple(
            ContainerSummary(id, "s", "c", 0, "exited", None, image=id, image_ref=id, labels={}, annotations={})
            for id in self.used
        )

    async def remove_image(self, image: str) -> None:
        if image == self.refuses:
            raise RuntimeFailure("remove_image", "UNKNOWN", "read-only file system")
        self.removed.append(image)
        self.there = [each for each in self.there if each.id != image]

    async def image_fs_info(self) -> ImageFsInfo:
        return ImageFsInfo(image_filesystems=(FilesystemUsage("/images", None, 1, 1),))

    async def status(self, *, verbose: bool = False) -> RuntimeStatus:
        return RuntimeStatus(
            runtime_ready=True,
            network_ready=True,
            runtime_message="",
            network_message="",
            supplemental_groups_policy=False,
            user_namespaces_host_network=False,
            mount_options=False,
            runtime_handlers=(),
            info=self.info if verbose else {},
        )


class Scene:
    """A node whose clock, and the usage of its images' disk of 1,000 bytes, are set by the test."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = a_node(directory)
        self.runtime = Images()
        self.pulls = PullRecords(directory, Verification())
        self.now = datetime.now(UTC) + DAY
        self.available = 1000
        disk = lambda _: SimpleNamespace(f_blocks=1000, f_frsize=1, f_bavail=self.available)  # noqa: E731
        monkeypatch.setattr(os, "statvfs", disk)

    def pulled(self, *names: str) -> None:
        """Record pulls of these images by this node, one after another."""
        for name in names:
            self.pulls.pulled(f"{name}:1", f"id-{name}", None)

    def gc(self, policy: ImageGcPolicy | None = None) -> ImageGc:
        runtime = cast("CriRuntime", self.runtime)
        return ImageGc(self.node, runtime, policy or ImageGcPolicy(), self.pulls.prune, now=lambda: self.now)


def a_node(directory: Path) -> NodeContext:
    return NodeContext(name="n", state_dir=directory, memory_dir=directory, log_dir=directory, cluster="c/default")


def record_pod(node: NodeContext, **spec: Any) -> None:
    """Record a pod of this node."""
    pod = Pod.model_validate({"metadata": {"name": "web", "uid": "u1"}, "spec": {"containers": [], **spec}})
    pod_directory(node, "u1").mkdir(parents=True)
    write_pod_record(node, PodRecord(pod=pod))


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


async def test_no_image_is_removed_while_there_is_room(scene: Scene) -> None:
    scene.runtime.has("old")
    scene.pulled("old")
    assert await scene.gc().collect() == 0
    assert scene.runtime.removed == []


async def test_no_more_images_are_removed_than_needed_and_the_longest_unused_first(scene: Scene) -> None:
    scene.runtime.has("c", "a", "b", "d")
    scene.pulled("a", "b", "c", "d")
    gc = scene.gc()
    scene.runtime.used = ["id-a"]
    await gc.collect()
    scene.runtime.used = []
    scene.now += DAY
    scene.available = 50
    assert await gc.collect() == 200
    assert scene.runtime.removed == ["id-b", "id-c"]
    assert {record.image_ref for record in pulled_images(scene.node.state_dir)} == {"id-a", "id-d"}


async def test_images_in_use_pinned_images_and_the_sandbox_image_are_kept(scene: Scene) -> None:
    names = ("used", "named", "volume", "pause", "pinned")
    scene.runtime.has(*names[:-1])
    scene.runtime.has("pinned", pinned=True)
    scene.pulled(*names)
    scene.runtime.used = ["id-used"]
    scene.runtime.info = {"config": json.dumps({"sandboxImage": "pause:1"})}
    record_pod(
        scene.node,
        containers=[{"name": "c", "image": "named:1"}],
        volumes=[{"name": "v", "image": {"reference": "volume:1"}}],
    )
    scene.available = 0
    with pytest.raises(ImageGcFailed, match=r"freed 0 bytes.*other data\.$"):
        await scene.gc().collect()
    assert scene.runtime.removed == []


async def test_images_not_pulled_by_this_node_are_kept_and_counted(scene: Scene) -> None:
    scene.runtime.has("ours", "imported", "another's")
    scene.pulled("ours")
    scene.available = 0
    with pytest.raises(ImageGcFailed, match=r"freed 100 bytes.*Images that this node did not pull.*: 2\.$") as failed:
        await scene.gc().collect()
    assert failed.value.event == "FreeDiskSpaceFailed"
    assert scene.runtime.removed == ["id-ours"]


async def test_images_younger_than_the_minimum_age_are_kept(scene: Scene) -> None:
    scene.runtime.has("just")
    scene.pulled("just")
    scene.now = datetime.now(UTC)
    scene.available = 0
    with pytest.raises(ImageGcFailed):
        await scene.gc(ImageGcPolicy(min_age=MIN_AGE)).collect()
    assert scene.runtime.removed == []


async def test_a_failed_image_removal_is_logged_and_the_others_are_removed(scene: Scene) -> None:
    scene.runtime.has("a", "b", "c")
    scene.pulled("a", "b", "c")
    scene.runtime.refuses = "id-a"
    scene.available = 100
    with pytest.raises(ImageGcFailed, match=r"freed 100 bytes of images with errors.*read-only file system") as failed:
        await scene.gc().collect()
    assert failed.value.event == "ImageGCFailed"
    assert scene.runtime.removed == ["id-b"]


async def test_images_unused_for_too_long_are_removed_even_if_there_is_room(scene: Scene) -> None:
    scene.runtime.has("busy", "idle")
    scene.pulled("busy", "idle")
    scene.runtime.used = ["id-busy"]
    gc = scene.gc(ImageGcPolicy(max_age=7 * DAY))
    scene.now += 7 * DAY
    assert await gc.collect() == 0
    scene.now += DAY
    assert await gc.collect() == 100
    assert scene.runtime.removed == ["id-idle"]


async def test_a_repeated_image_gc_failure_is_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    gc = scene.gc()
    scene.available = 0
    for _ in range(3):
        await gc.round()
    assert [record.getMessage().partition(" free disk")[0] for record in caplog.records] == [
        "FreeDiskSpaceFailed: Insufficient"
    ]
    scene.available = 1000
    await gc.round()
    scene.available = 0
    await gc.round()
    assert len(caplog.records) == 2


async def test_a_policy_that_removes_nothing_ends_at_once(scene: Scene) -> None:
    async with asyncio.timeout(10):
        await scene.gc(ImageGcPolicy(high_threshold_percent=100)).run()


ANY_USE_IS_TOO_MUCH = ImageGcPolicy(high_threshold_percent=0, low_threshold_percent=0, min_age=timedelta(0))


@pytest.mark.every_runtime("images are listed and removed by the runtime")
async def test_on_containerd_only_unused_images_pulled_by_the_node_are_removed(
    containerd: Containerd, tmp_path: Path
) -> None:
    own = "docker.io/syncpod/collected:1"
    archive = tmp_path / "own.tar"
    write_archive(archive, [Image(own, images()[0].layer, {"Cmd": ["/pause"], "Labels": {"of": "collected"}})])
    containerd.ctr("images", "import", archive)
    pulls = PullRecords(tmp_path, Verification())
    async with (
        CriClient(containerd.endpoint) as cri,
        owned_pod(cri, cgroup_parent=containerd.cgroup_parent, logs=tmp_path) as pod,
    ):
        await until_asked(lambda: _is_there(cri, own))
        before = {image.id for image in await cri.list_images()}
        for name in (own, BUSYBOX, "docker.io/syncpod/pause:1"):
            image = await cri.image_status(name)
            assert image is not None
            pulls.pulled(name, image.id, None)
        await pod.run()
        await pod.create()
        gc = ImageGc(a_node(tmp_path), cri, ANY_USE_IS_TOO_MUCH, pulls.prune)
        with pytest.raises(ImageGcFailed, match="Insufficient free disk space"):
            await gc.collect()
        gone = before - {image.id for image in await cri.list_images()}
    assert len(gone) == 1
    assert not {record.image_ref for record in pulled_images(tmp_path)} & gone


async def test_on_the_embedded_runtime_unused_images_pulled_by_the_node_are_removed(
    embedded: Runtime, tmp_path: Path
) -> None:
    own = "docker.io/syncpod/collected:1"
    pulls = PullRecords(tmp_path, Verification())
    async with CriClient(embedded.endpoint) as cri:
        pulls.pulled(own, await cri.pull_image(own), None)
        before = {image.id for image in await cri.list_images()}
        with pytest.raises(ImageGcFailed, match="Insufficient free disk space"):
            await ImageGc(a_node(tmp_path), cri, ANY_USE_IS_TOO_MUCH, pulls.prune).collect()
        assert await cri.image_status(own) is None
        assert len(before - {image.id for image in await cri.list_images()}) == 1


async def _is_there(cri: CriClient, name: str) -> bool:
    return await cri.image_status(name) is not None
