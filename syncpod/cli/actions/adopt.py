"""The work of ``syncpod adopt``: start workflows for pods that run without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.orphans.adoption import HasWorkflow, start_for, until_adopted
from syncpod.cli.orphans.found_orphans import refusal_of_open, taken
from syncpod.cli.orphans.from_manifest import record_from

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here
    from syncpod.pod import Pod


@dataclass(frozen=True)
class How:
    """How pods are adopted."""

    brief: bool
    dry_run: bool
    force: bool
    has_attributes: bool
    everything: bool
    """True with --all: every orphan is adopted. False: the orphans were named."""
    manifests: Mapping[tuple[str, str], Pod]
    """The pods of the manifests given with -f, by namespace and name; empty without -f."""


async def adopt_pod(client: Client, place: Here, orphan: FoundOrphan, how: How) -> None:
    """Adopt one pod. Raises Failure with the reason if that is impossible."""
    name = orphan.pod.name
    if orphan.standing == "open" and not how.force:
        raise Failure(refusal_of_open(place, name))
    if orphan.standing == "another":
        raise Failure(taken(orphan))
    manifest = how.manifests.get((orphan.pod.namespace, name))
    record = orphan.record or (record_from(manifest, orphan, place.node.name) if manifest is not None else None)
    if record is None:
        raise Failure(
            f'pod "{name}" cannot be adopted: node {place.node.name} has no record of its manifest, and the runtime '
            "does not store manifests: `syncpod adopt -f FILE` reads the manifest from a file (the node itself adopts "
            "a pod of the manifest directory); `syncpod prune` ends the pod instead"
        )
    if not how.dry_run:
        try:
            await start_for(client, place.node.name, record, has_attributes=how.has_attributes, replace=how.force)
        except HasWorkflow:
            if how.everything:  # it has got a workflow since the orphans were listed
                return
            raise Failure(refusal_of_open(place, name)) from None
        await until_adopted(client, place, orphan)
    said = " (dry run)" if how.dry_run else ""
    say(f"pod/{name}" if how.brief else f"{orphan.called} adopted{said}; running: {orphan.running}")
