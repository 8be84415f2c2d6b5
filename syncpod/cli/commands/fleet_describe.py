"""``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from datetime import UTC, datetime
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

    async def work(client: Client) -> None:
        descriptions = Descriptions()
        for kind, names in things.items():
            for name in names:
                try:
                    if kind in PODS.values():
                        await describe_pod(client, descriptions, name, namespace, node)
                    else:
                        descriptions.show(await _lines(client, kind, name, namespace))
                except Failure as failure:  # the others are described all the same
                    descriptions.failures.append(failure)
        descriptions.end("")

    fleet.run(work, state_dir=state_dir)


async def _lines(client: Client, kind: str, name: str, namespace: str) -> list[str]:
    """Return the description of a node, a workload or an object. Raises Failure."""
    from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
    from syncpod.cli.view.fleet_description import describe_node, describe_object, describe_workload

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
    from syncpod.cli.fleet_remote_commands import Silent, print_said, said_there
    from syncpod.cli.temporal.fleet_pods import OnNoNode, find_pod
    from syncpod.cli.temporal.fleet_unheard import unheard
    from syncpod.cli.view import unheard_pod
    from syncpod.cli.view.untaken_pod import described, described_without_node

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
