"""``syncpod fleet describe``: show a workload, a node or a pod of a fleet in detail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS
from syncpod.cli.input.options import Namespace, OfNode, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.fleet_pods import FoundPod


def describe(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    node: OfNode = "",
    state_dir: StateDir = "",
) -> None:
    """Show a workload, node, pod or object of the fleet: `deployment web`, `daemonset logs`, `node n1`, `secret keys`.

    For a workload this shows the state of its rollout and its pods, why a pod is being removed, and why a pod fits no
    node. For a pod it shows what `syncpod describe pod` shows on its node, or why no node has it yet. While its node is
    Unknown, it shows the node's last report, and whether another pod replaces it, and when. For a ConfigMap or Secret
    it shows everything but its content, which is sealed.
    """
    from syncpod.cli.temporal import fleet, fleet_objects, fleet_workloads
    from syncpod.cli.view.fleet_description import describe_node, describe_object, describe_workload

    kinds = {**fleet_workloads.KINDS, **NODES, **PODS, **OBJECTS}
    known = "deployment, daemonset, node, pod, configmap or secret"
    (kind, names), *others = fleet_names(what, kinds, known).items()
    if others:
        raise BadInput(f"KIND: must be one kind, not both {kind} and {others[0][0]}")
    if not names:
        raise BadInput(f"NAME: required: which {kind}")

    async def work(client: Client) -> None:
        now = datetime.now(UTC)
        if kind == "Pod":
            await _describe_pods(client, names, namespace, node)
            return
        if kind == "Node":
            found = [describe_node(each, now) for each in await fleet.views(client, names)]
        elif kind in OBJECTS.values():
            there = {one.name: one for one in await fleet_objects.views(client, kind, namespace)}
            if missing := [name for name in names if name not in there]:
                lines = [f'{kind.lower()}s "{name}" not found in the fleet' for name in missing]
                raise Failure("\n".join(lines))
            found = [describe_object(there[name], now) for name in names]
        else:
            views = await fleet_workloads.views(client, kind, namespace, names)
            found = [describe_workload(each, now) for each in views]
        say("\n\n".join("\n".join(lines) for lines in found))

    fleet.run(work, state_dir=state_dir)


async def _describe_pods(client: Client, names: Sequence[str], namespace: str, node: str) -> None:
    """Print the description of each pod by its node, or by the fleet where the node cannot be asked. Raises Failure."""
    from syncpod.cli.fleet_remote_commands import Silent, print_there
    from syncpod.cli.temporal.fleet_pods import OnNoNode, find_pod
    from syncpod.cli.temporal.fleet_unheard import unheard
    from syncpod.cli.view import unheard_pod
    from syncpod.cli.view.untaken_pod import described, described_without_node

    for number, name in enumerate(names):
        try:
            found: FoundPod | OnNoNode = await find_pod(client, [name], namespace, node)
        except OnNoNode as waits:
            found = waits
        if number:
            say("\n")
        if isinstance(found, OnNoNode):
            say("\n".join(described_without_node(namespace, found.pod, found.why, datetime.now(UTC))))
            continue
        if found.placed is not None and found.placed.is_untaken:
            say("\n".join(described(found.node, found.placed, datetime.now(UTC))))
            continue
        if (pod := await unheard(client, found)) is not None:
            say("\n".join(unheard_pod.described(pod, datetime.now(UTC))))
            continue
        words = ["describe", "pod", found.name, f"--namespace={namespace}"]
        try:
            await print_there(client, found.node, words)
        except Silent as silent:
            if (pod := await unheard(client, found, silent=str(silent))) is None:
                raise
            say("\n".join(unheard_pod.described(pod, datetime.now(UTC))))
