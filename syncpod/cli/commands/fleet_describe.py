"""``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.description import Descriptions
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS
from syncpod.cli.input.options import Namespace, OfNode, StateDir
from syncpod.fleet.workload_traits import TEMPLATED, one_of

if TYPE_CHECKING:
    from temporalio.client import Client


def describe(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    node: OfNode = "",
    state_dir: StateDir = "",
) -> None:
    """Show a workload, node, pod or object of the fleet: `deployment web`, `daemonset logs`, `node n1`, `secret keys`.

    For a workload this shows the state of its rollout and its pods, why a pod is being removed, and why a pod fits no
    node. For a pod it shows what `syncpod describe pod` shows on its node, or why no node has it yet. While the pod's
    node is Unknown, it shows the node's last report, and whether and when another pod replaces the pod. For a ConfigMap
    or Secret it shows everything but its content, which is sealed. Name several kinds as `deployment/web pod/web-1`.
    """
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_workloads import WORKLOADS

    kinds = {**WORKLOADS, **NODES, **PODS, **OBJECTS}
    known = one_of((*(each.lower() for each in TEMPLATED), "node", "pod", "configmap", "secret"))
    things = fleet_names(what, kinds, known)
    if not all(things.values()):
        raise BadInput(f"NAME: required: which {next(kind for kind, names in things.items() if not names)}")

    from syncpod.cli.actions.fleet_describe import describe_pod, description_lines

    async def work(client: Client) -> None:
        descriptions = Descriptions()
        for kind, names in things.items():
            for name in names:
                try:
                    if kind in PODS.values():
                        await describe_pod(client, descriptions, name, namespace, node)
                    else:
                        descriptions.show(await description_lines(client, kind, name, namespace))
                except Failure as failure:  # the others are described all the same
                    descriptions.failures.append(failure)
        descriptions.end("")

    fleet.run(work, state_dir=state_dir)
