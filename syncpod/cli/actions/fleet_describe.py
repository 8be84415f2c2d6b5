"""The work of ``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import Silent, print_said, said_there
from syncpod.cli.input.kind_words import OBJECTS
from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
from syncpod.cli.temporal.fleet_pods import OnNoNode, find_pod
from syncpod.cli.temporal.fleet_unheard import unheard
from syncpod.cli.view import unheard_pod
from syncpod.cli.view.fleet_description import describe_node, describe_object, describe_workload
from syncpod.cli.view.untaken_pod import described, described_without_node

if TYPE_CHECKING:
    from temporalio.client import Client


async def description_lines(client: Client, kind: str, name: str, namespace: str) -> list[str]:
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
