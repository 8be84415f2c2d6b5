"""Describes the workloads, nodes, pods and objects of a fleet, by the fleet's records or the pod's node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import Silent, print_said, said_there
from syncpod.cli.input.kind_words import OBJECTS, PODS
from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
from syncpod.cli.temporal.fleet_pods import OnNoNode, find_pod
from syncpod.cli.temporal.fleet_unheard import unheard
from syncpod.cli.view import unheard_pod
from syncpod.cli.view.fleet_description import describe_node, describe_object, describe_workload
from syncpod.cli.view.untaken_pod import described, described_without_node

if TYPE_CHECKING:
    from temporalio.client import Client


def describe_things(things: Mapping[str, Sequence[str]], namespace: str, node: str, state_dir: str) -> None:
    """Print the description of each of these names by kind.

    `node` is the node of the pods; "" = any. Raises BadInput, and one Failure for all that cannot be described.
    """

    async def work(client: Client) -> None:
        descriptions = Descriptions()
        for kind, names in things.items():
            for name in names:
                try:
                    if kind in PODS.values():
                        await describe_pod(client, descriptions, name, namespace, node)
                    else:
                        descriptions.show(await _description(client, kind, name, namespace))
                except Failure as failure:  # the others are described all the same
                    descriptions.failures.append(failure)
        descriptions.end("")

    fleet.run(work, state_dir=state_dir)


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


async def describe_pod(client: Client, descriptions: Descriptions, name: str, namespace: str, node: str) -> None:
    """Print the description of a pod by its node. Raises Failure.

    If the node does not answer, or does not have the pod, the fleet's own records are printed.
    """
    try:
        found = await find_pod(client, [name], namespace, node)
    except OnNoNode as waits:
        descriptions.show(described_without_node(namespace, waits.pod, waits.why, datetime.now(UTC)))
        return
    if found.placed is not None and found.placed.is_untaken:
        descriptions.show(described(found.node, found.placed, datetime.now(UTC)))
        return
    if (pod := await unheard(client, found)) is not None:
        descriptions.show(unheard_pod.described(pod, datetime.now(UTC)))
        return
    try:
        words = ["describe", "pod", found.name, f"--namespace={namespace}"]
        code, out, err = await said_there(client, found.node, words)
    except Silent as silent:
        if (pod := await unheard(client, found, silent=str(silent))) is None:
            raise
        descriptions.show(unheard_pod.described(pod, datetime.now(UTC)))
        return
    descriptions.begin()
    print_said(out, err)
    if code:
        raise Failure("", code)
