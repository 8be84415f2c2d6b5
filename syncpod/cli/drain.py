"""``syncpod drain``: take a node's pods away, before something is done to its machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.options import Timeout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from temporalio.client import Client

    from syncpod.cli.pods import Reading


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Also end pods that nobody makes again: here, all that were applied.")
    ] = False,
    delete_emptydir_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Also end pods that have data in an emptyDir, which is lost.")
    ] = False,
    grace_period: Annotated[
        int,
        typer.Option(
            "--grace-period", metavar="SECONDS", help="Instead of each pod's own grace.", show_default="its own"
        ),
    ] = -1,
    timeout: Timeout = "0",
) -> None:
    """Cordon a node and end its pods.

    What its manifest directory has stays, and is named: static pods end when their files go. Nothing is ended where a
    pod stands in the way, as for kubectl.
    """
    from syncpod.cli import session
    from syncpod.cli.apply import parse_timeout
    from syncpod.cli.node_listing import named_nodes

    names = named_nodes([node])
    name = names[0] if names else node
    if grace_period < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    patience = parse_timeout(timeout)
    grace = None if grace_period == -1 else grace_period

    async def work(client: Client) -> None:
        await _drain(client, name, _Rules(force, delete_emptydir_data), grace, patience)

    session.run(work)


@dataclass(frozen=True)
class _Rules:
    force: bool
    delete_data: bool


async def _drain(client: Client, name: str, rules: _Rules, grace: int | None, patience: timedelta | None) -> None:
    from syncpod.cli.cordon import set_schedulable
    from syncpod.cli.pods import list_pods
    from syncpod.cli.selector import parse_selector

    say(f"node/{name} {await set_schedulable(client, name, 'cordon')}")
    there = [one for one in await list_pods(client, None, parse_selector("")) if one.pod.spec.node_name == name]
    silent = [one for one in there if not one.current]
    if silent:
        raise Failure(
            f"node {name} does not answer, so it is not known what its {len(silent)} pods are; it stays cordoned"
        )
    static = [one for one in there if _is_static(one)]
    pods = [one for one in there if not _is_static(one)]
    _refuse(name, pods, rules)
    if static:
        remark(f"Static pods stay: {_names(static)} (they end when their manifests go)")
    unmanaged = [one for one in pods if not _has_ended(one)]
    if unmanaged:
        warn(f"deleting Pods that declare no controller: {_names(unmanaged)}")
    await _end(client, pods, grace, patience)
    say(f"node/{name} drained")


def _refuse(name: str, pods: Sequence[Reading], rules: _Rules) -> None:
    """Raise Failure for what stands in the way (kubectl's pkg/drain/filters.go, v1.36), before anything is ended."""
    live = [one for one in pods if not _has_ended(one)]
    reasons = []
    if live and not rules.force:
        reasons.append(f"cannot delete Pods that declare no controller (use --force to override): {_names(live)}")
    with_data = [one for one in live if any(volume.empty_dir is not None for volume in one.pod.spec.volumes)]
    if with_data and not rules.delete_data:
        reasons.append(
            f"cannot delete Pods with local storage (use --delete-emptydir-data to override): {_names(with_data)}"
        )
    if reasons:
        raise Failure("\n".join([f'unable to drain node "{name}", which stays cordoned:', *reasons]))


async def _end(client: Client, pods: Sequence[Reading], grace: int | None, patience: timedelta | None) -> None:
    """End pods all at once, and say of each when it has gone. Raises Failure where one takes too long."""
    from syncpod.cli.delete import begin
    from syncpod.cli.waiting import until_gone

    async def end(one: Reading) -> None:
        namespace, name = one.key
        say(f"evicting pod {namespace}/{name}")
        if await begin(client, namespace, name, grace) is not None:
            await until_gone(client, namespace, name, one.pod.metadata.uid)
        say(f"pod/{name} evicted")

    ending = [asyncio.create_task(end(one), name="/".join(one.key)) for one in pods]
    if not ending:
        return
    done, pending = await asyncio.wait(ending, timeout=patience.total_seconds() if patience else None)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()
    if pending:
        names = ", ".join(sorted(task.get_name() for task in pending))
        raise Failure(f"timed out waiting for {names} to end; the deletion goes on, and the node stays cordoned")


def _is_static(one: Reading) -> bool:
    from syncpod.node_messages import FILE_SOURCE, SOURCE_ANNOTATION

    return one.pod.metadata.annotations.get(SOURCE_ANNOTATION) == FILE_SOURCE


def _has_ended(one: Reading) -> bool:
    return one.pod.status.phase in ("Succeeded", "Failed")


def _names(pods: Sequence[Reading]) -> str:
    return ", ".join(sorted("/".join(one.key) for one in pods))
