"""``syncpod fleet apply``, ``delete``, ``cordon``, ``uncordon``: what a fleet's nodes shall run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import Filenames, ManifestNamespace, Namespace, StateDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.pod import Pod

NodeNames = Annotated[list[str], typer.Argument(metavar="NODE", hidden=True, show_default=False)]


def apply(filename: Filenames = None, namespace: ManifestNamespace = "", state_dir: StateDir = "") -> None:
    """Keep Deployments and DaemonSets (apps/v1) on the fleet's nodes, and pods on the node in their `spec.nodeName`.

    Where a workload's pods run is chosen by their affinity, tolerations, spread and requests. A new template is rolled
    out pod by pod; if one of its pods fails, the last good template comes back by itself. Nodes keep what they were
    given running, also while the fleet cannot be reached.
    """
    from syncpod.cli.input.fleet_manifests import fleet_manifests
    from syncpod.cli.temporal import fleet, fleet_workloads

    if not filename:
        raise BadInput("--filename: required: the manifests to apply")
    manifests = fleet_manifests(filename, namespace)
    for pod in manifests.pods:
        if not pod.spec.node_name:
            raise BadInput(
                f"pod {pod.metadata.name}: spec.nodeName: required: the node that shall run it "
                "(a Deployment's pods are placed by the fleet)"
            )
    for warning in manifests.warnings:
        warn(warning)

    async def work(client: Client) -> None:
        if manifests.pods:
            await _place(client, manifests.pods)
        for workload in manifests.workloads:
            word = await fleet_workloads.apply(client, workload)
            say(f"{workload.kind.lower()}.apps/{workload.metadata.name} {word}")

    fleet.run(work, state_dir=state_dir)


async def _place(client: Client, pods: Sequence[Pod]) -> None:
    """Have each pod's node run it. The fleet's nodes are asked once for what they have. Raises Failure."""
    from syncpod.cli.temporal import fleet
    from syncpod.pod import pod_to_wire

    nodes = await fleet.views(client)
    held = {(one.namespace, one.name): node.name for node in nodes for one in node.placed}
    generations = {node.name: node.generation for node in nodes}
    for pod in pods:
        name, where = pod.metadata.name, pod.spec.node_name or ""
        key = (pod.metadata.namespace or "default", name)
        if (there := held.get(key, where)) != where:
            raise Failure(f"pod {name} is on node {there}: delete it there before it goes to {where}")
        generation = (await fleet.update(client, where, "place", {"pods": [pod_to_wire(pod)]}))["generation"]
        changed = "unchanged" if generation == generations.get(where) else "configured"
        say(f"pod/{name} {changed if key in held else 'created'} on node/{where}")
        held[key], generations[where] = where, generation


def delete(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    state_dir: StateDir = "",
) -> None:
    """End workloads and pods of the fleet, on whichever nodes they are: `deployment web`, `daemonset logs`, `pod web`.

    A node that cannot be reached ends them when it is back.
    """
    from syncpod.cli.temporal import fleet, fleet_workloads

    words = [word for each in what for word in each.split("/", 1)]
    kind = fleet_workloads.KINDS.get(words[0])
    names = list(dict.fromkeys(words[1:] if kind or words[0] in ("pod", "pods", "po") else words))
    if not names:
        raise BadInput("NAME: required: what to delete")

    async def work(client: Client) -> None:
        missing = await _delete_pods(client, names, namespace) if kind is None else []
        for name in names if kind is not None else ():
            if await fleet_workloads.delete(client, kind or "", namespace, name):
                say(f'{(kind or "").lower()}.apps "{name}" deleted from {namespace} namespace')
            else:
                missing.append(f'{(kind or "").lower()}s.apps "{name}" not found in the fleet')
        if missing:
            raise Failure("\n".join(missing))

    fleet.run(work, state_dir=state_dir)


async def _delete_pods(client: Client, names: list[str], namespace: str) -> list[str]:
    """Withdraw pods from their nodes; return a sentence for each that is on none. Raises Failure."""
    from syncpod.cli.temporal import fleet

    missing = set(names)
    for node in await fleet.views(client):
        here = [each for each in node.placed if each.name in names and each.namespace == namespace]
        if not here:
            continue
        keys = [{"namespace": namespace, "name": each.name} for each in here]
        await fleet.update(client, node.name, "withdraw", {"pods": keys, "reason": "deleted by hand"})
        for each in here:
            say(f'pod "{each.name}" deleted from {namespace} namespace on node/{node.name}')
            if each.owner:
                remark(f"Note: {each.owner} makes another in its place")
        missing -= {each.name for each in here}
        if node.presence == "Unknown":
            remark(f"node {node.name} is not heard: it ends them when it is back")
    return [f'pods "{each}" not found in the fleet' for each in sorted(missing)]


def cordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place no new pods on these nodes; those that are there go on."""
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
