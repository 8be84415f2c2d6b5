"""Warns of images that this machine's embedded runtime lacks: it pulls none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.pod import Pod, PodSpec, parse_image_name
from syncpod.settings.process_records import running_runtime
from syncpod.settings.worker_record import serving

NO_REGISTRY: Final = (
    "the embedded runtime has no registry, so its containers run programs of the machine there; `syncpod load` on the "
    "node gives the image files of its own"
)
"""Why the embedded runtime pulls no image, and what helps."""
_STAND_INS: Final = ("docker.io/library/busybox", "registry.k8s.io/pause")
"""Images that stand for the machine's own programs."""


def images_with_files(spec: PodSpec) -> list[str]:
    """Return the images of a pod's containers that need files of their own, each once: all but those stand-ins."""
    found = dict.fromkeys(each.image for each in (*spec.init_containers, *spec.containers))
    return [image for image in found if (name := parse_image_name(image)) and name.repository not in _STAND_INS]


def full_name(image: str) -> str:
    """Return an image's full name, as ``docker.io/library/nginx:1``."""
    name = parse_image_name(image)
    if name is None:
        return image
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.tag}"


async def image_warnings(state_dir: Path, node: str, pods: Sequence[Pod]) -> dict[str, list[str]]:
    """Return, by pod name, a warning for each image that this machine's embedded runtime does not have.

    Pods of other nodes are left out. The result is empty if no worker uses the embedded runtime, if that runtime only
    simulates, or if it does not answer, which the worker reports.
    """
    wanted = {each.metadata.name: found for each in pods if (found := images_with_files(each.spec))}
    own, worker = running_runtime(state_dir), serving(state_dir)
    if not wanted or own is None or own.simulated or worker is None or worker.endpoint != own.endpoint:
        return {}
    loaded = await _loaded(own.endpoint)
    if loaded is None:
        return {}
    ours = [each.metadata.name for each in pods if (each.spec.node_name or node) == worker.node]
    return {
        name: [f"image {image}: it is not pulled: {NO_REGISTRY}" for image in images if full_name(image) not in loaded]
        for name, images in wanted.items()
        if name in ours
    }


async def _loaded(endpoint: str) -> set[str] | None:
    """Return the full names of the images with files of their own; None if the runtime does not answer."""
    try:
        async with CriClient(endpoint) as runtime:
            images = await runtime.list_images()
    except CriError:
        return None
    own = (image for image in images if not image.stands_for_machine)
    return {name for image in own for name in (*image.repo_tags, *image.repo_digests)}
