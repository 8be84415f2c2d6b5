"""``syncpod drain``: cordon nodes and end their pods, before maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.api.label_selector import Selector
from syncpod.api.views.text import printable
from syncpod.cli.commands.cordon import NodeNames, set_schedulable
from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names, read_dry_run, read_selector, read_timeout
from syncpod.cli.input.options import DryRun, GracePeriod, Timeout
from syncpod.cli.orphans import orphan_of, way_for
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.fetched import FetchedPod


Force = Annotated[
    bool, typer.Option("--force", help="Also end pods that nothing creates again: here, all that were applied.")
]
DeleteData = Annotated[
    bool, typer.Option("--delete-emptydir-data", help="Also end pods with an emptyDir, whose data is lost.")
]
IgnoreDaemonSets = Annotated[
    bool, typer.Option("--ignore-daemonsets", help="Accepted as by kubectl; there are no DaemonSets here.")
]
PodSelector = Annotated[
    str, typer.Option("--pod-selector", metavar="SELECTOR", help="Only pods with these labels, as for `get -l`.")
]


def drain(
    nodes: NodeNames,
    force: Force = False,
    delete_emptydir_data: DeleteData = False,
    _ignore_daemonsets: IgnoreDaemonSets = False,
    pod_selector: PodSelector = "",
    grace_period: GracePeriod = -1,
    timeout: Timeout = "0",
    dry_run: DryRun = "none",
) -> None:
    """Drain nodes: cordon them, and end their pods.

    Pods from a node's manifest directory stay, and are listed: static pods end when their files are removed. A pod that
    runs without a workflow cannot be ended so: `syncpod prune` ends it first. As with kubectl, no pod of a node is
    ended if one of them must not be.
    """
    from syncpod.cli.temporal import session

    names = node_names(nodes)
    if grace_period < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    how = _How(
        force=force,
        delete_data=delete_emptydir_data,
        conditions=read_selector(pod_selector, "--pod-selector"),
        grace=None if grace_period == -1 else grace_period,
        patience=read_timeout(timeout),
        mark=read_dry_run(dry_run),
    )
    session.run(lambda client: _drain_all(client, names, how))


@dataclass(frozen=True)
class _How:
    force: bool
    delete_data: bool
    conditions: Selector
    grace: int | None
    """Seconds; None = each pod's own."""
    patience: timedelta | None
    mark: str
    """Printed after each line of a dry run; "" if this is not a dry run."""

    @property
    def dry_run(self) -> bool:
        """Whether this is a dry run."""
        return bool(self.mark)

    @property
    def cordoned(self) -> str:
        """Added to the name of a node that is only cordoned, not drained."""
        return "" if self.dry_run else ", which stays cordoned"


async def _drain_all(client: Client, names: Sequence[str], how: _How) -> None:
    """Cordon all nodes, then drain one after the other; one that fails stops no other. Raises Failure."""
    from temporalio.service import RPCError

    from syncpod.cli.several import together
    from syncpod.cli.temporal import session

    for name in names:
        await _cordon(client, name, how)
    failures = []
    for name in names:
        try:
            await _drain(client, name, how)
        except Failure as failure:
            failures.append(failure)
        except RPCError as error:
            failures.append(session.refused(error))
    if failures:
        raise together(failures, done=True)


async def _cordon(client: Client, name: str, how: _How) -> None:
    from syncpod.cli.temporal.nodes import require_node

    if not how.dry_run:
        say(f"node/{name} {await set_schedulable(client, name, 'cordon')}")
        return
    already = "already " if (await require_node(client, name)).view.unschedulable else ""
    say(f"node/{name} {already}cordoned{how.mark}")


async def _drain(client: Client, name: str, how: _How) -> None:
    from syncpod.cli.temporal.pods import list_pods

    there = [one for one in await list_pods(client, None, Selector()) if one.pod.spec.node_name == name]
    silent = [one for one in there if not one.current]
    if silent:
        raise Failure(f"node {name}{how.cordoned}, does not answer: nothing is known of its {len(silent)} pods")
    # Only now: the labels of a pod that does not answer may be incomplete.
    chosen = [one for one in there if how.conditions.matches(one.pod.metadata.labels)]
    static = [one for one in chosen if _is_static(one)]
    orphans = [one for one in chosen if why_orphaned(one.wire) and not _is_static(one)]
    pods = [one for one in chosen if one not in orphans and not _is_static(one)]
    _refuse(name, pods, orphans, how)
    if static:
        remark(f"Static pods stay: {_names(static)} (they end when their manifests are removed)")
    unmanaged = [one for one in pods if not _has_ended(one)]
    if unmanaged:
        warn(f"deleting Pods that declare no controller: {_names(unmanaged)}")
    await _end(client, pods, how)
    say(f"node/{name} drained{how.mark}")


def _refuse(name: str, pods: Sequence[FetchedPod], orphans: Sequence[FetchedPod], how: _How) -> None:
    """Raise Failure for pods that must not be ended (kubectl's pkg/drain/filters.go, v1.36), before any is.

    It also raises for `orphans`, which run without a workflow: nothing would heed the deletion, and they would run on.
    """
    live = [one for one in pods if not _has_ended(one)]
    reasons = []
    if live and not how.force:
        reasons.append(f"cannot delete Pods that declare no controller (use --force to override): {_names(live)}")
    with_data = [one for one in live if any(volume.empty_dir is not None for volume in one.pod.spec.volumes)]
    if with_data and not how.delete_data:
        reasons.append(
            f"cannot delete Pods with local storage (use --delete-emptydir-data to override): {_names(with_data)}"
        )
    if orphans:
        reasons.append(_left_running([one.wire for one in orphans]))
    if reasons:
        raise Failure("\n".join([f'unable to drain node "{name}"{how.cordoned}:', *reasons]))


def _left_running(orphans: Sequence[Mapping[str, Any]]) -> str:
    """Say that these printed pods run without a workflow, and what ends them."""
    names = sorted({str(one["metadata"]["name"]) for one in orphans})
    which = f"pod {names[0]} runs" if len(names) == 1 else f"pods {', '.join(names)} run"
    end = f"drain cannot end {'it' if len(names) == 1 else 'them'}: {way_for('prune', orphans)}"
    return printable(f"{which} without a workflow, so {end}")


async def _end(client: Client, pods: Sequence[FetchedPod], how: _How) -> None:
    """End all pods at once, and print each when it has gone. Raises Failure on a timeout."""
    import asyncio

    from syncpod.cli.temporal.pod_deletion import remark_on_source, request_deletion
    from syncpod.cli.temporal.pod_waits import until_gone

    async def end(one: FetchedPod) -> None:
        namespace, name = one.key
        say(f"evicting pod {namespace}/{name}{how.mark}")
        if how.dry_run:
            return
        if await request_deletion(client, namespace, name, how.grace) is not None:
            await until_gone(client, namespace, name, one.pod.metadata.uid)
        elif (orphan := await asyncio.to_thread(orphan_of, namespace, name)) is not None:
            raise Failure(_left_running([orphan]))  # somebody has ended its workflow since the list
        say(f"pod/{name} evicted")
        remark_on_source(one)

    ending = [asyncio.create_task(end(one), name="/".join(one.key)) for one in pods]
    if not ending:
        return
    done, pending = await asyncio.wait(ending, timeout=how.patience.total_seconds() if how.patience else None)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()
    if pending:
        names = ", ".join(sorted(task.get_name() for task in pending))
        raise Failure(f"timed out waiting for {names} to end; the deletion continues, and the node stays cordoned")


def _is_static(one: FetchedPod) -> bool:
    from syncpod.messages.node import FILE_SOURCE
    from syncpod.messages.sources import list_of

    return list_of(one.pod.metadata) == FILE_SOURCE


def _has_ended(one: FetchedPod) -> bool:
    return one.pod.status.phase in ("Succeeded", "Failed")


def _names(pods: Sequence[FetchedPod]) -> str:
    return ", ".join(sorted("/".join(one.key) for one in pods))
