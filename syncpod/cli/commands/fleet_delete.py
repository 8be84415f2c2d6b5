"""``syncpod fleet delete``: delete workloads, pods, ConfigMaps and Secrets, and wait until they are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.fleet_names import PODS, fleet_names
from syncpod.cli.input.options import Namespace, StateDir, Timeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from temporalio.client import Client

    from syncpod.cli.temporal.fleet_deletion import Going


def delete(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    force: Annotated[
        bool, typer.Option("--force", help="Count pods as gone even if an unreachable node may still run them.")
    ] = False,
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="Delete pods only there.", show_default="all nodes")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they are gone.")] = True,
    timeout: Timeout = "0",
    state_dir: StateDir = "",
) -> None:
    """Delete workloads, pods, ConfigMaps and Secrets of the fleet, on all nodes.

    Name them as with kubectl: `deployment web`, `daemonset logs`, `pod web`, or `deployment/web secret/keys`. Names
    alone are of pods.

    A workload is gone once its last pod is, and a ConfigMap or Secret once its nodes have been told. After five
    seconds the command says on standard error what it waits for. The deletion goes on even if the command ends.

    A node that cannot be reached ends its pods when it is back. Until then they count as ending. With `--force` they
    count as gone at once, which is meant for nodes that never come back. If such a node is in fact still running, so
    are its pods, beside those that replace them.
    """
    from syncpod.cli.temporal import fleet, fleet_deletion, fleet_objects, fleet_workloads

    kinds = {**fleet_workloads.KINDS, **fleet_objects.KINDS, **PODS}
    named = fleet_names(what, kinds, "deployment, daemonset, pod, configmap or secret", bare="Pod")
    _check(named, node, force=force)
    patience = read_timeout(timeout)

    async def work(client: Client) -> None:
        missing, going = [], []
        for kind, name in [(kind, name) for kind, names in named.items() for name in names]:
            if kind in fleet_objects.KINDS.values():
                if await fleet_objects.delete(client, kind, namespace, name):
                    say(f'{kind.lower()} "{name}" deleted from {namespace} namespace')
                    going.append(fleet_deletion.fleet_object(client, kind, namespace, name))
                else:
                    missing.append(f'{kind.lower()}s "{name}" not found in the fleet')
            elif kind == "Pod":
                found = await _delete_pod(client, name, namespace, node.rpartition("/")[2], force=force)
                going += found
                missing += [] if found else [f'pods "{name}" not found in the fleet']
            elif await fleet_workloads.delete(client, kind, namespace, name):
                say(f'{kind.lower()}.apps "{name}" deleted from {namespace} namespace')
                going.append(fleet_deletion.workload(client, kind, namespace, name))
            else:
                missing.append(f'{kind.lower()}s.apps "{name}" not found in the fleet')
        if wait:
            await fleet_deletion.until_gone(going, patience)
        if missing:
            raise Failure("\n".join(missing))

    fleet.run(work, state_dir=state_dir)


def _check(named: Mapping[str, Sequence[str]], node: str, *, force: bool) -> None:
    """Raise BadInput if nothing is named, or a flag is not for what is named."""
    for kind, names in named.items():
        if not names:
            raise BadInput("NAME: required: what to delete")
        if force and kind != "Pod":
            raise BadInput(f"--force: is for pods, not for a {kind}")
        if node and kind != "Pod":
            raise BadInput(f"--node: is for pods, not for a {kind}")


async def _delete_pod(client: Client, name: str, namespace: str, on: str, *, force: bool) -> list[Going]:
    """Delete a pod on all nodes, or `on` one; return what is going then: nothing, if there is no such pod.

    Raises Failure.
    """
    from syncpod.cli.temporal import fleet_deletion, fleet_pod_changes, fleet_workloads

    ended = await fleet_pod_changes.delete(client, namespace, name, node=on, force=force)
    for node in ended.nodes:
        forced = " by force" if force else ""
        say(f'pod "{name}" deleted from {namespace} namespace on node/{node.name}{forced}')
        if node.presence == "Unknown" and force:
            warn(
                f"node {node.name} cannot be reached: if it is running, the pod runs there until the node is back and "
                "ends it; until then give nothing that the pod holds, such as a lock or a volume, to another pod"
            )
        elif node.presence == "Unknown":
            remark(f"node {node.name} cannot be reached: it ends the pod when it is back (--force does not wait)")
    if ended.is_placed and not ended.nodes:
        say(f'pod "{name}" deleted from {namespace} namespace')
    for owner in ended.owners:
        remark(f"Note: {owner} creates another pod in its place")
    going = [fleet_deletion.workload(client, fleet_workloads.POD, namespace, name)] if ended.is_placed else []
    return [*going, *(fleet_deletion.pod(client, namespace, name, node.name) for node in ended.nodes)]
