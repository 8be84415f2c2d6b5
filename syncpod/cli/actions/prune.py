"""Kills and removes what runs on this node without a workflow: pods, and containers and sandboxes that name no pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.orphans import removal
from syncpod.cli.orphans.found_orphans import chosen, here, refusal_of_open
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_apply import has_search_attributes

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here
    from syncpod.node.inventory import Nameless

_AT_ONCE: Final = 50
"""Maximum number of pods pruned at the same time. A pod may take its whole grace period: with a smaller number, a full
node would take long. Each pod needs a connection to the runtime: a larger number would be too many."""


@dataclass(frozen=True)
class Pruning:
    """How pods and containers are pruned."""

    grace: int | None
    """Seconds; None = each pod's own."""
    brief: bool
    """Whether only names are printed."""
    dry_run: bool
    """Whether nothing is killed, only printed."""


def prune_all(names: Sequence[str], namespace: str, how: Pruning) -> None:
    """Prune the named pods, or without names everything that has no workflow, and print each.

    `namespace` is that of the names, "" = ``default``; without names it selects the pods, "" = all. Raises BadInput,
    and Failure with all that went wrong.
    """
    place = here()

    async def work(client: Client) -> None:
        orphans, nameless = await chosen(client, place, names, namespace=namespace)
        if not orphans and not nameless:
            remark("Nothing without a workflow")
        has_attributes = await has_search_attributes(client)
        deeds = [
            *(_prune(client, place, orphan, how, has_attributes=has_attributes) for orphan in orphans),
            *(_prune_nameless(place, thing, how) for thing in nameless),
        ]
        await do_all(deeds, at_once=_AT_ONCE)

    session.run(work)


async def _prune(client: Client, place: Here, orphan: FoundOrphan, how: Pruning, *, has_attributes: bool) -> None:
    """Prune one pod. Raises Failure with the reason if that is impossible."""
    if orphan.standing == "open":
        raise Failure(f"{refusal_of_open(place, orphan.pod.name)}; `syncpod delete` ends it")
    if not how.dry_run:
        await removal.prune_pod(client, place, orphan, how.grace, has_attributes=has_attributes)
    said = f" (dry run): kills {orphan.running}" if how.dry_run else ""
    say(f"pod/{orphan.pod.name}" if how.brief else f"{orphan.called} pruned{said}")


async def _prune_nameless(place: Here, thing: Nameless, how: Pruning) -> None:
    """Prune one container or sandbox that belongs to no pod. Raises Failure."""
    if not how.dry_run:
        await removal.prune_nameless(place, thing, how.grace)
    said = " (dry run)" if how.dry_run else ""
    say(f"{thing.kind}/{thing.id}" if how.brief else f"{thing.kind}/{thing.id} pruned{said}")
