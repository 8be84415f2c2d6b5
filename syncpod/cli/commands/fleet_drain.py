"""``syncpod fleet drain``: move the pods of nodes elsewhere, before maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.fleet_change import NodeNames
from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import node_names, read_dry_run, read_timeout
from syncpod.cli.input.options import DryRun, StateDir, Timeout
from syncpod.fleet.workload_traits import is_per_node

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.messages.fleet import FleetNodeView, PlacedPod

_LOOK_SECONDS = 0.5

Force = Annotated[bool, typer.Option("--force", help="Also end pods that name the node in `spec.nodeName`.")]
IgnoreDaemonSets = Annotated[
    bool, typer.Option("--ignore-daemonsets", help="Leave the pods of DaemonSets where they are.")
]
DeleteData = Annotated[
    bool, typer.Option("--delete-emptydir-data", help="Also move pods with an emptyDir, whose data is lost.")
]
SkipWait = Annotated[
    int,
    typer.Option(
        "--skip-wait-for-delete-timeout",
        metavar="SECONDS",
        min=0,
        help="Do not wait for a pod that has been ending for longer than this; 0 = wait for each.",
    ),
]


@dataclass(frozen=True)
class _How:
    force: bool = False
    ignore_daemon_sets: bool = False
    delete_data: bool = False
    patience: timedelta | None = None
    skip_after: int = 0
    """Pods that have been ending for more than so many seconds are not waited for; 0 = each is."""
    mark: str = ""
    """Printed after each line of a dry run; "" if this is not a dry run."""


def drain(
    nodes: NodeNames,
    force: Force = False,
    ignore_daemonsets: IgnoreDaemonSets = False,
    delete_emptydir_data: DeleteData = False,
    skip_wait_for_delete_timeout: SkipWait = 0,
    timeout: Timeout = "0",
    dry_run: DryRun = "none",
    state_dir: StateDir = "",
) -> None:
    """Move the pods of nodes elsewhere: cordon the nodes, and have their pods replaced on other nodes.

    A Deployment's pods are replaced as in a rollout, within its `maxSurge` and `maxUnavailable`: with a surge, a pod is
    removed once another one is available elsewhere. A single Pod is removed before it runs elsewhere. The command says
    what the drain waits for. The fleet goes on with the drain even if this command ends. `fleet uncordon` stops it for
    the pods that are still there. If one of several nodes cannot be drained, the others are.
    """
    from syncpod.cli.temporal import fleet

    how = _How(
        force=force,
        ignore_daemon_sets=ignore_daemonsets,
        delete_data=delete_emptydir_data,
        patience=read_timeout(timeout),
        skip_after=skip_wait_for_delete_timeout,
        mark=read_dry_run(dry_run),
    )
    names = node_names(nodes)

    async def work(client: Client) -> None:
        await _drain_all(client, names, how)

    fleet.run(work, state_dir=state_dir)


async def _drain_all(client: Client, names: Sequence[str], how: _How) -> None:
    """Drain nodes one after the other. Raises Failure before any is cordoned if one of them does not exist.

    A node that cannot be drained is reported at once, and the others are drained. Raises Failure at the end then.
    """
    from syncpod.cli.temporal import fleet

    await fleet.views(client, names)
    for name in names:
        if not how.mark:
            await fleet.update(client, name, "cordon")
        say(f"node/{name} cordoned{how.mark}")
    failed = []
    for name in names:
        try:
            await _drain(client, name, how)
        except Failure as failure:
            if len(names) == 1:
                raise
            failed.append(name)
            remark(str(failure))
    if failed:
        raise Failure(f"not drained: {', '.join(failed)}")


async def _drain(client: Client, name: str, how: _How) -> None:
    """Move the pods of one node, and wait until they are gone; in a dry run, only say which. Raises Failure."""
    from syncpod.cli.temporal import fleet

    node = await fleet.view(client, name)
    staying = [each for each in node.placed if is_daemon(each)]
    unmanaged = [each for each in node.placed if not each.owner and each.state != "ending"]
    await _refuse(client, node, staying, unmanaged, how)
    if staying:
        warn(f"ignoring DaemonSet-managed Pods: {_names(staying)}")
    if unmanaged:
        warn(f"deleting Pods that declare no controller: {_names(unmanaged)}")
    if not how.mark:
        await fleet.update(client, name, "drain")
        if unmanaged:
            keys = [{"namespace": each.namespace, "name": each.name} for each in unmanaged]
            await fleet.update(client, name, "withdraw", {"pods": keys, "reason": f"{name} is being drained"})
    leaving = [each for each in node.placed if each not in staying]
    for each in leaving:
        say(f"evicting pod {each.namespace}/{each.name}{how.mark}")
    if not how.mark:
        await _until_empty(client, name, leaving, how)
    say(f"node/{name} drained{how.mark}")


async def _refuse(
    client: Client, node: FleetNodeView, daemons: Sequence[PlacedPod], unmanaged: Sequence[PlacedPod], how: _How
) -> None:
    """Raise Failure for pods that may not be removed, before any is (kubectl's pkg/drain/filters.go, v1.36)."""
    from syncpod.cli.temporal import fleet

    reasons = []
    if daemons and not how.ignore_daemon_sets:
        reasons.append(f"cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): {_names(daemons)}")
    if unmanaged and not how.force:
        reasons.append(f"cannot delete Pods that declare no controller (use --force to override): {_names(unmanaged)}")
    if not how.delete_data:
        daemon_keys = {(each.namespace, each.name) for each in daemons}
        told = await fleet.intent(client, node.name)
        metas = [each.get("metadata", {}) for each in told.pods if _has_data(each)]
        keys = {(each.get("namespace") or "default", each.get("name", "")) for each in metas} - daemon_keys
        if keys:
            named = ", ".join(sorted("/".join(each) for each in keys))
            reasons.append(f"cannot delete Pods with local storage (use --delete-emptydir-data to override): {named}")
    if reasons:
        stays = "" if how.mark else ", which stays cordoned"
        raise Failure("\n".join([f'unable to drain node "{node.name}"{stays}:', *reasons]))


async def _until_empty(client: Client, name: str, pods: Sequence[PlacedPod], how: _How) -> None:
    """Wait until these pods are gone from the node, and say what they wait for. Raises Failure on a timeout."""
    import asyncio

    from syncpod.cli.temporal import fleet

    left = {(each.namespace, each.name): each for each in pods}
    loop, said = asyncio.get_running_loop(), ""
    end = loop.time() + how.patience.total_seconds() if how.patience else None
    while left:
        node = await fleet.view(client, name)
        there = {(each.namespace, each.name): each for each in node.placed}
        for key in [key for key in left if key not in there]:
            say(f"pod/{left.pop(key).name} evicted")
        for key in [key for key in left if _is_long_ending(there[key], how)]:
            warn(f"pod {'/'.join(key)} has been ending for more than {how.skip_after} s, and is not waited for")
            del left[key]
        if not node.draining:
            raise Failure(f"node {name} was uncordoned meanwhile, so these pods stay: {_names(left.values())}")
        if left and (why := await _in_the_way(client, node, [there[key] for key in left])) != said:
            said = why
            if why:
                remark(why)
        if left and end is not None and loop.time() > end:
            raise Failure(
                f"timed out waiting for {_names(left.values())} to leave {name}; the fleet goes on with the drain, "
                f"and `fleet uncordon {name}` stops it"
            )
        if left:
            await asyncio.sleep(_LOOK_SECONDS)


async def _in_the_way(client: Client, node: FleetNodeView, pods: Sequence[PlacedPod]) -> str:
    """Return a line for everything that the drain of a node waits for, as long as it has these pods.

    Pods that have been withdrawn wait for their node, and all others for their workloads.
    """
    from syncpod.cli.temporal import fleet_workloads
    from syncpod.fleet.workload_pods import workload_in

    lines = []
    ending = [each for each in pods if each.state == "ending"]
    if ending and node.presence == "Unknown":
        until = "count as ending until it is back (`fleet delete pod --force` counts them as gone)"
        lines.append(f"node {node.name} cannot be reached, so these pods {until}: {_names(ending)}")
    elif ending:
        whose = "its grace period" if len(ending) == 1 else "their grace periods"
        lines.append(f"node {node.name} is ending {_names(ending)}, within {whose}")
    for owner in sorted({each.owner for each in pods if each.owner and each.state != "ending"}):
        view = await fleet_workloads.view(client, *workload_in(owner))
        if view is None:
            lines.append(f"{owner} no longer exists: delete its pods with `fleet delete pod`")
        elif view.pending:
            first = view.pending[0]
            lines.append(f"{owner}: {first.name} has no node yet: {first.why or 'the fleet is looking for one'}")
        else:
            lines.append(f"{owner}: {view.says}")
    return "\n".join(lines)


def _is_long_ending(pod: PlacedPod, how: _How) -> bool:
    if not how.skip_after or pod.ending is None:
        return False
    return datetime.now(UTC) - pod.ending > timedelta(seconds=how.skip_after)


def is_daemon(pod: PlacedPod) -> bool:
    """Say whether a pod belongs to its node, as those of DaemonSets do."""
    from syncpod.fleet.workload_pods import workload_in

    return is_per_node(workload_in(pod.owner)[0])


def _has_data(document: dict[str, object]) -> bool:
    spec = document.get("spec")
    volumes = spec.get("volumes", ()) if isinstance(spec, dict) else ()
    return any("emptyDir" in each for each in volumes)


def _names(pods: Iterable[PlacedPod]) -> str:
    return ", ".join(sorted(f"{each.namespace}/{each.name}" for each in pods))
