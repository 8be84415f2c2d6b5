"""``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.input.fleet_names import fleet_names, labels_are_sealed
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import Namespace, OfNode, Selector, StateDir, Things
from syncpod.fleet.workload_traits import POD, TEMPLATED, one_of

_KNOWN: Final = one_of((*(each.lower() for each in TEMPLATED), "node", "pod", "configmap", "secret"))


def describe(
    what: Things = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    node: OfNode = "",
    state_dir: StateDir = "",
) -> None:
    """Show a workload, node, pod or object of the fleet: `deployment web`, `daemonset logs`, `node n1`, `secret keys`.

    For a workload this shows the state of its rollout and its pods, why a pod is being removed, and why a pod fits no
    node. For a pod it shows what `syncpod describe pod` shows on its node, or why no node has it yet. While the pod's
    node is Unknown, it shows the node's last report, and whether and when another pod replaces the pod. For a ConfigMap
    or Secret it shows everything but its content, which is sealed. Name several kinds as `deployment/web pod/web-1`.

    A kind without a name means all of that kind in the namespace, and with --selector those with these labels. With
    --selector alone, the pods with these labels are shown.
    """
    conditions = read_selector(selector)
    if not what and not conditions.requirements:
        raise BadInput(f"name what to describe, a kind ({_KNOWN}) and a name, or choose pods with --selector")
    things = fleet_names(what, {**WORKLOADS, **NODES, **PODS, **OBJECTS}, _KNOWN) if what else {POD.name: []}
    if any(things.values()) and conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector, not both")
    if conditions.requirements and (sealed := next((kind for kind in things if kind in OBJECTS.values()), "")):
        raise labels_are_sealed("--selector", sealed)

    from syncpod.cli.actions.fleet_describe import describe_things

    describe_things(things, namespace, conditions, node.rpartition("/")[2], state_dir)
