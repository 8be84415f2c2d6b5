"""``syncpod fleet apply``, ``delete``, ``cordon``, ``uncordon``: change what a fleet's nodes run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import Filenames, ManifestNamespace, Namespace, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

NodeNames = Annotated[list[str], typer.Argument(metavar="NODE", hidden=True, show_default=False)]


def apply(filename: Filenames = None, namespace: ManifestNamespace = "", state_dir: StateDir = "") -> None:
    """Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.

    The fleet chooses a node for each pod by its affinity, tolerations, spread and requests. A pod with a
    `spec.nodeName` runs on that node. A new template is rolled out pod by pod; if one of its pods fails, the fleet
    rolls back to the last good template by itself. Nodes keep their pods running even while the fleet cannot be
    reached. A ConfigMap or Secret goes only to nodes with pods that refer to it.
    """
    from syncpod.cli.input.fleet_manifests import fleet_manifests
    from syncpod.cli.temporal import fleet, fleet_objects, fleet_pod_changes, fleet_workloads

    if not filename:
        raise BadInput("--filename: required: the manifests to apply")
    manifests = fleet_manifests(filename, namespace)
    for warning in manifests.warnings:
        warn(warning)
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> None:
        for each in manifests.objects:
            change = await fleet_objects.apply(client, sealing, each)
            say(f"{each.kind.lower()}/{each.metadata.name} {change}")
        if manifests.pods:
            async for pod, change in fleet_pod_changes.apply(client, manifests.pods):
                say(f"pod/{pod.metadata.name} {change}")
        for workload in manifests.workloads:
            word = await fleet_workloads.apply(client, workload)
            say(f"{workload.kind.lower()}.apps/{workload.metadata.name} {word}")

    fleet.run(work, state_dir=state_dir)


def delete(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    force: Annotated[
        bool, typer.Option("--force", help="Count pods as gone even if an unreachable node may still run them.")
    ] = False,
    state_dir: StateDir = "",
) -> None:
    """Delete workloads, pods, ConfigMaps and Secrets of the fleet, on all nodes.

    Name them as with kubectl: `deployment web`, `daemonset logs`, `pod web`, `secret keys`.

    A node that cannot be reached ends its pods when it is back. Until then they count as ending. With `--force` they
    count as gone at once, which is meant for nodes that never come back. If such a node is in fact still running, so
    are its pods, beside those that replace them.
    """
    from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads

    words = [word for each in what for word in each.split("/", 1)]
    kind, of_object = fleet_workloads.KINDS.get(words[0]), fleet_objects.KINDS.get(words[0])
    names = list(dict.fromkeys(words[1:] if kind or of_object or words[0] in ("pod", "pods", "po") else words))
    if not names:
        raise BadInput("NAME: required: what to delete")
    if force and (kind or of_object):
        raise BadInput(f"--force: is for pods, not for a {kind or of_object}")

    async def work(client: Client) -> None:
        missing = []
        for name in names:
            if of_object is not None:
                if await fleet_objects.delete(client, of_object, namespace, name):
                    say(f'{of_object.lower()} "{name}" deleted from {namespace} namespace')
                else:
                    missing.append(f'{of_object.lower()}s "{name}" not found in the fleet')
            elif kind is None:
                missing += await _delete_pod(client, name, namespace, force=force)
            elif await fleet_workloads.delete(client, kind, namespace, name):
                say(f'{kind.lower()}.apps "{name}" deleted from {namespace} namespace')
            else:
                missing.append(f'{kind.lower()}s.apps "{name}" not found in the fleet')
        if missing:
            raise Failure("\n".join(missing))

    fleet.run(work, state_dir=state_dir)


async def _delete_pod(client: Client, name: str, namespace: str, *, force: bool) -> list[str]:
    """Delete a pod on all nodes; return a sentence if there is none. Raises Failure."""
    from syncpod.cli.temporal import fleet_pod_changes

    ended = await fleet_pod_changes.delete(client, namespace, name, force=force)
    for node in ended.nodes:
        forced = " by force" if force else ""
        say(f'pod "{name}" deleted from {namespace} namespace on node/{node.name}{forced}')
        if node.presence == "Unknown" and force:
            warn(
                f"node {node.name} cannot be reached: if it is running, the pod runs there until the node is back and "
                "ends it; until then give nothing that the pod holds, such as a lock or a volume, to another pod"
            )
        elif node.presence == "Unknown":
            remark(f"node {node.name} cannot be reached: it ends the pod when it is back (--force does not wait)")
    if ended.is_placed and not ended.nodes:
        say(f'pod "{name}" deleted from {namespace} namespace')
    for owner in ended.owners:
        remark(f"Note: {owner} creates another pod in its place")
    return [] if ended.is_placed or ended.nodes else [f'pods "{name}" not found in the fleet']


def cordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place no new pods on these nodes. Existing pods keep running."""
    _change(nodes, "cordon", state_dir)


def uncordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place new pods on these nodes again."""
    _change(nodes, "uncordon", state_dir)


def _change(nodes: list[str], change: Literal["cordon", "uncordon"], state_dir: str) -> None:
    from syncpod.cli.temporal import fleet

    async def work(client: Client) -> None:
        for name in nodes:
            await fleet.update(client, name.rpartition("/")[2], change)
            say(f"node/{name.rpartition('/')[2]} {change}ed")

    fleet.run(work, state_dir=state_dir)
