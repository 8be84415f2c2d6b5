"""``syncpod prune``: kill and remove orphans, which run without a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import GracePeriod, NamespaceOfAll, OnlyNames, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client


_AT_ONCE: Final = 50
"""Maximum number of pods pruned at the same time. A pod may take its whole grace period: with a smaller number, a full
node would take long. Each pod needs a connection to the runtime: a larger number would be too many."""


def prune(
    what: PodNames = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything of this node without a workflow, also what names no pod.")
    ] = False,
    namespace: NamespaceOfAll = "",
    grace_period: GracePeriod = -1,
    now: Annotated[bool, typer.Option("--now", help="Same as --grace-period=1.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be killed and removed.")] = False,
    output: OnlyNames = "",
) -> None:
    """Kill and remove pods and containers without a workflow.

    Containers of this machine's pods that have no workflow are stopped with the pod's grace period; sandbox,
    containers, volumes and logs are removed. A pod that has a workflow is left alone: `syncpod delete` ends it.
    Anything without the node's label is never touched.
    """
    from syncpod.cli.orphans.found_orphans import chosen, here, named_only, require_choice
    from syncpod.cli.several import do_all
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.pod_apply import has_search_attributes

    grace, brief = _grace(grace_period, now=now), named_only(output)
    names = pod_names(what or [])
    require_choice(names, everything=everything)
    place = here()

    from syncpod.cli.actions.prune import How, prune_nameless, prune_one

    async def work(client: Client) -> None:
        orphans, nameless = await chosen(client, place, names, namespace=namespace)
        if not orphans and not nameless:
            remark("Nothing without a workflow")
        how = How(grace, brief=brief, dry_run=dry_run, has_attributes=await has_search_attributes(client))
        deeds = [
            *(prune_one(client, place, orphan, how) for orphan in orphans),
            *(prune_nameless(place, thing, how) for thing in nameless),
        ]
        await do_all(deeds, at_once=_AT_ONCE)

    session.run(work)


def _grace(seconds: int, *, now: bool) -> int | None:
    """Return the grace period, None = each pod's own, by kubectl's rules (cmd/delete, v1.36)."""
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if now and seconds != -1:
        raise BadInput("--now is --grace-period=1: give one of the two")
    if now or seconds == 0:
        return 1
    return None if seconds == -1 else seconds
