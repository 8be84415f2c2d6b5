"""Describes the workloads, nodes, pods and objects of a fleet, by the fleet's records or the pod's node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.field_selector import FieldSelector
from syncpod.cli.console import remark
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import Silent, output_on, print_output
from syncpod.cli.input.kind_words import OBJECTS, PODS
from syncpod.cli.listing import selecting
from syncpod.cli.temporal import fleet, fleet_lists, fleet_objects, fleet_workloads
from syncpod.cli.temporal.fleet_pods import NotTaken, OnNoNode, find_pod, require_taken
from syncpod.cli.temporal.fleet_unheard import unheard
from syncpod.cli.view import unheard_pod
from syncpod.cli.view.fleet_description import describe_node, describe_object, describe_workload
from syncpod.cli.view.untaken_pod import described, described_without_node

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector


def describe_things(
    things: Mapping[str, Sequence[str]], namespace: str, conditions: Selector, node: str, state_dir: str
) -> None:
    """Print the description of each of these names by kind; without names, of all of the kind that meet the conditions.

    `node` is the node of the pods; "" = any. Raises BadInput, and one Failure for all that cannot be described.
    """
    nothing = "No resources found" if set(things) == {"Node"} else f"No resources found in {namespace} namespace."

    async def work(client: Client) -> None:
        descriptions = Descriptions()
        for kind, names in things.items():
            chosen = [(name, node) for name in names]
            for name, where in chosen or await _chosen(client, kind, namespace, conditions, node):
                try:
                    if kind in PODS.values():
                        await describe_pod(client, descriptions, name, namespace, where, is_fleets=not names)
                    else:
                        descriptions.show(await _description(client, kind, name, namespace))
                except Failure as failure:  # the others are described all the same
                    descriptions.failures.append(failure)
        descriptions.end(nothing)

    fleet.run(work, state_dir=state_dir)


async def _chosen(client: Client, kind: str, namespace: str, conditions: Selector, node: str) -> list[tuple[str, str]]:
    """Return the objects of a kind that meet the conditions: the name of each, and a pod's node. Raises Failure."""
    if node:
        await fleet.view(client, node)  # fails if there is no such node
    found = await fleet_lists.find(client, kind, (), selecting(namespace, conditions, FieldSelector()))
    for note in found.notes:
        remark(note)
    return [(row.name, row.place) for row in found.rows if kind not in PODS.values() or node in ("", row.place)]


async def _description(client: Client, kind: str, name: str, namespace: str) -> list[str]:
    """Return the description of a node, a workload or an object. Raises Failure."""
    now = datetime.now(UTC)
    if kind == "Node":
        return describe_node(await fleet.view(client, name), now)
    if kind not in OBJECTS.values():
        (workload,) = await fleet_workloads.views(client, kind, namespace, [name])
        return describe_workload(workload, now)
    found = [one for one in await fleet_objects.views(client, kind, namespace) if one.name == name]
    if not found:
        raise Failure(f'{kind.lower()}s "{name}" not found in the fleet')
    return describe_object(found[0], now)


async def describe_pod(
    client: Client, descriptions: Descriptions, name: str, namespace: str, node: str, *, is_fleets: bool = False
) -> None:
    """Print the description of a pod by its node. Raises Failure.

    If the node does not answer, or does not have the pod, the fleet's own records are printed. With a `node`, the
    node's own pod may be meant, unless `is_fleets`.
    """
    try:
        found = await find_pod(client, [name], namespace, node)
        if is_fleets or (found.placed is not None and not found.placed.refusal):
            require_taken(found)
    except OnNoNode as waits:
        descriptions.show(described_without_node(namespace, waits.pod, waits.why, datetime.now(UTC)))
        return
    except NotTaken as untaken:
        descriptions.show(described(untaken.node, untaken.placed, datetime.now(UTC)))
        return
    if (pod := await unheard(client, found)) is not None:
        descriptions.show(unheard_pod.described(pod, datetime.now(UTC)))
        return
    try:
        words = ["describe", "pod", found.name, f"--namespace={namespace}"]
        code, out, err = await output_on(client, found.node, words)
    except Silent as silent:
        if (pod := await unheard(client, found, silent=str(silent))) is None:
            raise
        descriptions.show(unheard_pod.described(pod, datetime.now(UTC)))
        return
    descriptions.begin()
    print_output(out, err)
    if code:
        raise Failure("", code)
