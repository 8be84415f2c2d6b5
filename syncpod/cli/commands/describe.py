"""``syncpod describe``: details of pods, nodes, ConfigMaps, and of Secrets without their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.description import Descriptions
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, named_nodes, read_selector, with_likely_kind
from syncpod.cli.input.options import Namespace, Selector, Things

if TYPE_CHECKING:
    pass


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
    descriptions, missing = Descriptions(), list[str]()
    from syncpod.cli.actions.describe import describe_objects, describe_pods

    for kind, names in things.items():
        described, absent = (
            describe_pods(names, namespace, selector)
            if kind == "Pod"
            else describe_objects(kind, names, namespace, conditions)
        )
        for lines in described:
            descriptions.show(lines)
        missing += absent
    if missing:
        descriptions.failures.append(Failure(with_likely_kind(missing, what or [])))
    descriptions.end(f"No resources found in {namespace} namespace.")
