"""``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import Namespace, OfNode, StateDir
from syncpod.fleet.workload_traits import TEMPLATED, one_of

_KNOWN: Final = one_of((*(each.lower() for each in TEMPLATED), "node", "pod", "configmap", "secret"))


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
    things = fleet_names(what, {**WORKLOADS, **NODES, **PODS, **OBJECTS}, _KNOWN)
    if not all(things.values()):
        raise BadInput(f"NAME: required: which {next(kind for kind, names in things.items() if not names)}")

    from syncpod.cli.actions.fleet_describe import describe_things

    describe_things(things, namespace, node, state_dir)
