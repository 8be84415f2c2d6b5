"""Warns of images that nodes of a fleet do not have, since their embedded runtime pulls none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.machine.embedded_images import NO_REGISTRY, full_name, images_with_files
from syncpod.cli.temporal import fleet
from syncpod.fleet.workloads import Workload, kind_of
from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView
from syncpod.pod import PodSpec

_EMBEDDED: Final = "syncpod-embedded://"
_JOINING_SECONDS: Final = 5.0
"""How long to wait for the first report of a node that has just joined."""
_LOOK_SECONDS: Final = 0.25
_NAMED: Final = 3
"""Maximum number of nodes that a warning names."""


async def image_warnings(client: Client, workloads: Sequence[Workload]) -> list[str]:
    """Return a sentence for each image that these workloads use and that nodes with an embedded runtime lack.

    Only nodes with such a runtime are queried. A node that has just joined is queried after its first report. A node
    counts only if the pod's nodeName and nodeSelector allow it. Nodes that do not answer are left out.
    """
    specs = [(each, kind_of(each).template(each).spec) for each in workloads]
    wanted = [(each, spec, image) for each, spec in specs for image in images_with_files(spec)]
    if not wanted:
        return []
    there = await fleet.summaries(client)
    await asyncio.gather(*(_until_reported(client, each.name) for each in there if _has_just_joined(each)))
    runtimes = ((each, each.node_info.container_runtime_version) for each in there)
    embedded = [each.name for each, runtime in runtimes if not runtime or runtime.startswith(_EMBEDDED)]
    answers = await asyncio.gather(*(fleet.view(client, each) for each in embedded), return_exceptions=True)
    nodes = [each for each in answers if isinstance(each, FleetNodeView)]
    if wrong := [each for each in answers if not isinstance(each, FleetNodeView | Failure)]:
        raise wrong[0]
    warnings = []
    for workload, spec, image in wanted:
        lacking = [each.name for each in nodes if _may_go_to(spec, each) and _lacks(each, image)]
        if lacking:
            named = f"{workload.kind.lower()} {workload.metadata.name}: image {image}"
            warnings.append(f"{named}: {_listed(lacking)} cannot pull it: {NO_REGISTRY}")
    return warnings


def _has_just_joined(node: FleetNodeSummary) -> bool:
    """Return whether a node has joined, and has not reported its facts yet."""
    return node.presence != "Unknown" and not node.node_info.container_runtime_version


async def _until_reported(client: Client, name: str) -> None:
    """Wait for a node's first report to the fleet, at most _JOINING_SECONDS."""
    with contextlib.suppress(Failure, TimeoutError):
        async with asyncio.timeout(_JOINING_SECONDS):
            while _has_just_joined(await fleet.view(client, name)):  # noqa: ASYNC110  # no event shows it
                await asyncio.sleep(_LOOK_SECONDS)


def _lacks(node: FleetNodeView, image: str) -> bool:
    """Return whether a node is known to lack an image."""
    return node.images is not None and full_name(image) not in node.images


def _may_go_to(spec: PodSpec, node: FleetNodeView) -> bool:
    asked = spec.node_selector.items()
    return spec.node_name in ("", None, node.name) and all(node.labels.get(key) == value for key, value in asked)


def _listed(names: Iterable[str]) -> str:
    """Return names for a sentence: ``n1 and n2``, ``n1, n2, n3 and 4 other nodes``."""
    found = sorted(names)
    if len(found) > _NAMED + 1:
        return f"{', '.join(found[:_NAMED])} and {len(found) - _NAMED} other nodes"
    return " and ".join(filter(None, (", ".join(found[:-1]), found[-1])))
