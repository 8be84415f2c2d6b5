"""``syncpod fleet apply``, ``cordon``, ``uncordon``: change what a fleet's nodes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.console import say, warn
from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_manifests import fleet_manifests
from syncpod.cli.input.options import Filenames, ManifestNamespace, NodeNames, StateDir
from syncpod.fleet.workload_traits import KINDS

if TYPE_CHECKING:
    from temporalio.client import Client


def apply(filename: Filenames = None, namespace: ManifestNamespace = "", state_dir: StateDir = "") -> None:
    """Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.

    The fleet chooses a node for each pod by its affinity, tolerations, spread and requests. A pod with a
    `spec.nodeName` runs on that node. A new template is rolled out pod by pod; if one of its pods fails, the fleet
    rolls back to the last good template by itself. Nodes keep their pods running even while the fleet cannot be
    reached. A ConfigMap or Secret goes only to nodes with pods that refer to it. A warning names each image that is not
    loaded on a node with the embedded runtime: such a node pulls nothing.
    """
    from syncpod.cli.temporal import fleet, fleet_objects, fleet_pod_changes, fleet_workloads
    from syncpod.cli.temporal.fleet_images import image_warnings

    if not filename:
        raise BadInput("--filename: required: the manifests to apply")
    manifests = fleet_manifests(filename, namespace)
    for warning in manifests.warnings:
        warn(warning)
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> None:
        for warning in await image_warnings(client, [*manifests.pods, *manifests.workloads]):
            warn(warning)
        for each in manifests.objects:
            change = await fleet_objects.apply(client, sealing, each)
            say(f"{each.kind.lower()}/{each.metadata.name} {change}")
        if manifests.pods:
            async for pod, change in fleet_pod_changes.apply(client, manifests.pods):
                say(f"pod/{pod.metadata.name} {change}")
        for workload in manifests.workloads:
            word = await fleet_workloads.apply(client, workload)
            say(f"{KINDS[workload.kind].resource}/{workload.metadata.name} {word}")

    fleet.run(work, state_dir=state_dir)


def cordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place no new pods on these nodes. Existing pods keep running."""
    from syncpod.cli.actions.fleet_change import change_nodes

    change_nodes(nodes, "cordon", state_dir)


def uncordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place new pods on these nodes again."""
    from syncpod.cli.actions.fleet_change import change_nodes

    change_nodes(nodes, "uncordon", state_dir)
