"""``syncpod fleet apply``, ``delete``, ``cordon``, ``uncordon``: what a fleet's nodes shall run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import Filenames, ManifestNamespace, Namespace, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod

NodeNames = Annotated[list[str], typer.Argument(metavar="NODE", hidden=True, show_default=False)]
PodNames = Annotated[list[str], typer.Argument(metavar="POD", hidden=True, show_default=False)]


def apply(filename: Filenames = None, namespace: ManifestNamespace = "", state_dir: StateDir = "") -> None:
    """Run pods on the nodes that their manifests name in `spec.nodeName`.

    The node keeps them running from then on, also while the fleet cannot be reached.
    """
    from syncpod.cli.input.manifests import admitted
    from syncpod.cli.temporal import fleet
    from syncpod.pod import pod_to_wire

    if not filename:
        raise BadInput("--filename: required: the manifests to apply")
    manifests = admitted(filename, namespace)
    if manifests.objects:
        raise BadInput("a fleet takes pods: apply ConfigMaps and Secrets on the node itself, with `syncpod apply`")
    pods = [_with_node(each.pod) for each in manifests.pods]

    async def work(client: Client) -> None:
        there = {(pod.namespace, pod.name): node for node in await fleet.views(client) for pod in node.placed}
        for pod in pods:
            name, where = pod.metadata.name, pod.spec.node_name or ""
            held = there.get((pod.metadata.namespace or "default", name))
            if held is not None and held.name != where:
                raise Failure(f"pod {name} is on node {held.name}: delete it there before it goes to {where}")
            before = held.generation if held is not None else -1
            answer = await fleet.update(client, where, "place", {"pods": [pod_to_wire(pod)]})
            word = "created" if held is None else "unchanged" if answer["generation"] == before else "configured"
            say(f"pod/{name} {word} on node/{where}")

    fleet.run(work, state_dir=state_dir)


def _with_node(pod: Pod) -> Pod:
    if not pod.spec.node_name:
        raise BadInput(f"pod {pod.metadata.name}: spec.nodeName: required: the node of the fleet that shall run it")
    return pod


def delete(pods: PodNames, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """End pods of the fleet, on whichever nodes they are.

    A node that cannot be reached ends them when it is back.
    """
    from syncpod.cli.temporal import fleet

    names = list(dict.fromkeys(word.rpartition("/")[2] for word in pods if word not in ("pod", "pods", "po")))
    if not names:
        raise BadInput("POD: required: the pods to delete")

    async def work(client: Client) -> None:
        missing = set(names)
        for node in await fleet.views(client):
            here = [each for each in node.placed if each.name in names and each.namespace == namespace]
            if not here:
                continue
            keys = [{"namespace": namespace, "name": each.name} for each in here]
            await fleet.update(client, node.name, "withdraw", {"pods": keys, "reason": "deleted by hand"})
            for each in here:
                say(f'pod "{each.name}" deleted from {namespace} namespace on node/{node.name}')
            missing -= {each.name for each in here}
            if node.presence == "Unknown":
                remark(f"node {node.name} is not heard: it ends them when it is back")
        if missing:
            raise Failure("\n".join(f'pods "{each}" not found in the fleet' for each in sorted(missing)))

    fleet.run(work, state_dir=state_dir)


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
