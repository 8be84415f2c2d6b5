"""``syncpod describe`` and ``syncpod fleet describe``: details of pods, nodes, workloads, ConfigMaps and Secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named, named_nodes, read_selector
from syncpod.cli.input.contexts import OnlyFleet
from syncpod.cli.input.fleet_names import fleet_names, labels_are_sealed, require_pods
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import Namespace, OfNode, Selector, StateDir, Things
from syncpod.fleet.workload_traits import POD, TEMPLATED, one_of

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector as Conditions

_KINDS_OF_FLEET: Final = one_of((*(each.lower() for each in TEMPLATED), "node", "pod", "configmap", "secret"))


@dataclass(frozen=True)
class DescribeOptions:
    """The options of `describe` and `fleet describe`."""

    what: Things = None
    namespace: Namespace = "default"
    selector: Selector = ""
    node: OnlyFleet[OfNode] = ""
    state_dir: OnlyFleet[StateDir] = ""


def describe(given: DescribeOptions) -> None:
    """Show a pod in full: state, conditions, events, steps.

    Also shows a node, `describe node n1`; a ConfigMap, `describe cm settings`; and a Secret without its values,
    `describe secret keys`. A kind without a name means all of that kind: `describe pods`, in the namespace; `describe
    nodes`.
    """
    what = given.what or []
    if (nodes := named_nodes(what)) is not None:
        if given.selector:
            raise BadInput("--selector: nodes are described by name")
        from syncpod.cli.actions.node_listing import describe_nodes

        describe_nodes(nodes)
        return
    things = named(what)
    _conditions(given, any(things.values()), "name what to describe, or choose it with --selector")
    if set(things) == {"Pod"}:
        from syncpod.cli.actions.describe import describe_pods as describe_things
    else:
        from syncpod.cli.actions.object_listing import describe_objects as describe_things
    describe_things(things, given.namespace, given.selector, what)


def fleet_describe(given: DescribeOptions) -> None:
    """Show a workload, node, pod or object of the fleet: `deployment web`, `daemonset logs`, `node n1`, `secret keys`.

    For a workload this shows the state of its rollout and its pods, why a pod is being removed, and why a pod fits no
    node. For a pod it shows what `syncpod describe pod` shows on its node, or why no node has it yet. While the pod's
    node is Unknown, it shows the node's last report, and whether and when another pod replaces the pod. For a ConfigMap
    or Secret it shows everything but its content, which is sealed. Name several kinds as `deployment/web pod/web-1`.

    A kind without a name means all of that kind in the namespace, and with --selector those with these labels. With
    --selector alone, the pods with these labels are shown.
    """
    kinds = {**WORKLOADS, **NODES, **PODS, **OBJECTS}
    things = fleet_names(given.what, kinds, _KINDS_OF_FLEET) if given.what else {POD.name: []}
    require_pods(things, {"--node": bool(given.node)})
    conditions = _conditions(
        given,
        any(things.values()),
        f"name what to describe, a kind ({_KINDS_OF_FLEET}) and a name, or choose pods with --selector",
    )
    if conditions.requirements and (sealed := next((kind for kind in things if kind in OBJECTS.values()), "")):
        raise labels_are_sealed("--selector", sealed)

    from syncpod.cli.actions.fleet_describe import describe_things

    describe_things(things, given.namespace, conditions, given.node, given.state_dir)


def _conditions(given: DescribeOptions, is_named: bool, required: str) -> Conditions:
    """Return the conditions of --selector. Raises BadInput if they choose objects, and others are named.

    Raises BadInput too if nothing is named or chosen; then `required` is the error.
    """
    conditions = read_selector(given.selector)
    if not given.what and not conditions.requirements:
        raise BadInput(required)
    if is_named and conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector, not both")
    return conditions
