"""Warnings of images that nodes of a fleet do not have, since their embedded runtime pulls none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet
from syncpod.fleet.workload_documents import Workload, template_of
from syncpod.messages.fleet import FleetNodeView
from syncpod.pod import PodSpec, parse_image_name

_EMBEDDED: Final = "syncpod-embedded://"
_STAND_INS: Final = ("docker.io/library/busybox", "registry.k8s.io/pause")
"""Images that the embedded runtime stands for by itself."""
_NAMED: Final = 3
"""The most nodes that a warning names."""


async def image_warnings(client: Client, workloads: Sequence[Workload]) -> list[str]:
    """Return a sentence for each image of these workloads that nodes with an embedded runtime do not have.

    Only nodes with such a runtime are asked, and only those count that a pod may go to by its nodeName and
    nodeSelector. Nodes that do not answer are left out.
    """
    wanted = [(each, image) for each in workloads if (images := _images(template_of(each).spec)) for image in images]
    if not wanted:
        return []
    there = await fleet.summaries(client)
    embedded = [each.name for each in there if each.node_info.container_runtime_version.startswith(_EMBEDDED)]
    answers = await asyncio.gather(*(fleet.view(client, each) for each in embedded), return_exceptions=True)
    nodes = [each for each in answers if isinstance(each, FleetNodeView)]
    if wrong := [each for each in answers if not isinstance(each, FleetNodeView | Failure)]:
        raise wrong[0]
    warnings = []
    for workload, image in wanted:
        lacking = [each.name for each in nodes if _may_go_to(template_of(workload).spec, each) and _lacks(each, image)]
        if lacking:
            named = f"{workload.kind.lower()} {workload.metadata.name}: image {image}"
            warnings.append(
                f"{named}: {_listed(lacking)} cannot pull it: the embedded runtime has no registry, so its containers "
                f"run programs of the machine there; `syncpod load` on the node gives the image files of its own"
            )
    return warnings


def _images(spec: PodSpec) -> list[str]:
    """Return the images of a template's containers that a machine's programs are not meant to stand for, each once."""
    found = dict.fromkeys(each.image for each in (*spec.init_containers, *spec.containers))
    return [image for image in found if (name := parse_image_name(image)) and name.repository not in _STAND_INS]


def _lacks(node: FleetNodeView, image: str) -> bool:
    """Say whether a node is known to lack an image."""
    return node.images is not None and _full(image) not in node.images


def _full(image: str) -> str:
    name = parse_image_name(image)
    if name is None:
        return image
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.tag}"


def _may_go_to(spec: PodSpec, node: FleetNodeView) -> bool:
    asked = spec.node_selector.items()
    return spec.node_name in ("", None, node.name) and all(node.labels.get(key) == value for key, value in asked)


def _listed(names: Iterable[str]) -> str:
    """Return names for a sentence: ``n1 and n2``, ``n1, n2, n3 and 4 other nodes``."""
    found = sorted(names)
    if len(found) > _NAMED + 1:
        return f"{', '.join(found[:_NAMED])} and {len(found) - _NAMED} other nodes"
    return " and ".join(filter(None, (", ".join(found[:-1]), found[-1])))
