"""``syncpod prune``: kill and remove orphans, which run without a workflow."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named_only, pod_names, require_choice
from syncpod.cli.input.options import GracePeriod, NamespaceOfAll, OnlyNames, PodNames


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
    grace, brief = _grace(grace_period, now=now), named_only(output)
    names = pod_names(what or [])
    require_choice(names, everything=everything)

    from syncpod.cli.actions.prune import Pruning, prune_all

    prune_all(names, namespace, Pruning(grace, brief=brief, dry_run=dry_run))


def _grace(seconds: int, *, now: bool) -> int | None:
    """Return the grace period, None = each pod's own, by kubectl's rules (cmd/delete, v1.36)."""
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if now and seconds != -1:
        raise BadInput("--now is --grace-period=1: give one of the two")
    if now or seconds == 0:
        return 1
    return None if seconds == -1 else seconds
