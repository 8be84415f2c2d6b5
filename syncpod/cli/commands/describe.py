"""``syncpod describe``: details of pods, nodes, ConfigMaps, and of Secrets without their values."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named, named_nodes, read_selector
from syncpod.cli.input.options import Namespace, Selector, Things


def describe(
    what: Things = None,
    namespace: Namespace = "default",
    selector: Selector = "",
) -> None:
    """Show a pod in full: state, conditions, events, steps.

    Also shows a node, `describe node n1`; a ConfigMap, `describe cm settings`; and a Secret without its values,
    `describe secret keys`. A kind without a name means all of that kind: `describe pods`, in the namespace; `describe
    nodes`.
    """
    if (nodes := named_nodes(what or [])) is not None:
        if selector:
            raise BadInput("--selector: nodes are described by name")
        from syncpod.cli.actions.node_listing import describe_nodes

        describe_nodes(nodes)
        return
    things = named(what or [])
    conditions = read_selector(selector)
    if not what and not conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector")
    if any(things.values()) and conditions.requirements:
        raise BadInput("name what to describe, or choose it with --selector, not both")
    if set(things) == {"Pod"}:
        from syncpod.cli.actions.describe import describe_pods as describe_things
    else:
        from syncpod.cli.actions.object_listing import describe_objects as describe_things
    describe_things(things, namespace, selector, what or [])
