"""``syncpod prune``: end and remove what runs without a workflow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.arguments import pod_names
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.options import NamespaceOfAll, OnlyNames, PodNames

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from temporalio.client import Client

    from syncpod.cli.strays import Here, Stray
    from syncpod.cri.inventory import Nameless


def prune(
    what: PodNames = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything of this node that has no workflow, what names no pod too.")
    ] = False,
    namespace: NamespaceOfAll = "",
    grace_period: Annotated[
        int,
        typer.Option(
            "--grace-period", metavar="SECONDS", help="Instead of the pod's own grace.", show_default="its own"
        ),
    ] = -1,
    now: Annotated[bool, typer.Option("--now", help="As --grace-period=1.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be killed and removed.")] = False,
    output: OnlyNames = "",
) -> None:
    """Kill and remove pods that run on this machine without a workflow.

    Their containers are stopped with the pod's grace; sandbox, containers, volumes and logs are removed. A pod that has
    a workflow is left alone: `syncpod delete` ends it. What has not the node's label is never touched.
    """
    from syncpod.cli import session
    from syncpod.cli.strays import chosen, here, named_only

    grace, brief = _grace(grace_period, now=now), named_only(output)
    names, place = pod_names(what or []), here()

    async def work(client: Client) -> None:
        strays, nameless = await chosen(client, place, names, everything=everything, namespace=namespace)
        if not strays and not nameless:
            remark("Nothing without a workflow")
        deeds: list[Coroutine[Any, Any, None]] = [
            *(_prune(client, place, stray, grace, brief=brief, dry_run=dry_run) for stray in strays),
            *(_prune_nameless(place, thing, grace, brief=brief, dry_run=dry_run) for thing in nameless),
        ]
        done = await asyncio.gather(*deeds, return_exceptions=True)
        failures = [each for each in done if isinstance(each, BaseException)]
        if unforeseen := [each for each in failures if not isinstance(each, Failure)]:
            raise unforeseen[0]
        if failures:
            raise Failure("\n".join(map(str, failures)))

    session.run(work)


def _grace(seconds: int, *, now: bool) -> int | None:
    """Return the grace to kill with, None = each pod's own; as kubectl has it (cmd/delete, v1.36)."""
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if now and seconds != -1:
        raise BadInput("--now is --grace-period=1: give one of the two")
    if now or seconds == 0:
        return 1
    return None if seconds == -1 else seconds


async def _prune(client: Client, place: Here, stray: Stray, grace: int | None, *, brief: bool, dry_run: bool) -> None:
    """Prune one pod. Raises Failure with the reason why it cannot be."""
    from syncpod.cli import pruning
    from syncpod.cli.strays import refusal_of_open

    if stray.standing == "open":
        raise Failure(f"{refusal_of_open(stray)}; `syncpod delete` ends it")
    if not dry_run:
        await pruning.prune_pod(client, place, stray, grace)
    said = f" (dry run): kills {stray.running}" if dry_run else ""
    say(f"pod/{stray.pod.name}" if brief else f"{stray.called} pruned{said}")


async def _prune_nameless(place: Here, thing: Nameless, grace: int | None, *, brief: bool, dry_run: bool) -> None:
    from syncpod.cli import pruning

    if not dry_run:
        await pruning.prune_nameless(place, thing, grace)
    said = " (dry run)" if dry_run else ""
    say(f"{thing.kind}/{thing.id}" if brief else f"{thing.kind}/{thing.id} pruned{said}")
