"""The work of ``syncpod prune``: kill and remove orphans, which run without a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.orphans import removal
from syncpod.cli.orphans.found_orphans import refusal_of_open

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here
    from syncpod.node.inventory import Nameless


@dataclass(frozen=True)
class How:
    """How pods and containers are pruned."""

    grace: int | None
    """Seconds; None = each pod's own."""
    brief: bool
    dry_run: bool
    has_attributes: bool


async def prune_one(client: Client, place: Here, orphan: FoundOrphan, how: How) -> None:
    """Prune one pod. Raises Failure with the reason if that is impossible."""
    if orphan.standing == "open":
        raise Failure(f"{refusal_of_open(place, orphan.pod.name)}; `syncpod delete` ends it")
    if not how.dry_run:
        await removal.prune_pod(client, place, orphan, how.grace, has_attributes=how.has_attributes)
    said = f" (dry run): kills {orphan.running}" if how.dry_run else ""
    say(f"pod/{orphan.pod.name}" if how.brief else f"{orphan.called} pruned{said}")


async def prune_nameless(place: Here, thing: Nameless, how: How) -> None:
    """Prune one container or sandbox that belongs to no pod. Raises Failure."""
    if not how.dry_run:
        await removal.prune_nameless(place, thing, how.grace)
    said = " (dry run)" if how.dry_run else ""
    say(f"{thing.kind}/{thing.id}" if how.brief else f"{thing.kind}/{thing.id} pruned{said}")
