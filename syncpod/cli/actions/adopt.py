"""Starts workflows for pods that run without one, from the node's records of them, or from manifests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.manifests import admitted
from syncpod.cli.orphans.adoption import HasWorkflow, start_for, until_adopted
from syncpod.cli.orphans.found_orphans import chosen, here, refusal_of_open, staying, taken
from syncpod.cli.orphans.from_manifest import record_from
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_apply import has_search_attributes

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here
    from syncpod.pod import Pod

_AT_ONCE: Final = 8
"""Maximum number of pods adopted at the same time. With many more, a node's answers would come after our timeout."""


@dataclass(frozen=True)
class AdoptRequest:
    """Which pods are adopted, and how."""

    names: Sequence[str]
    """The named pods."""
    filenames: Sequence[str]
    """The manifests whose pods are adopted. With neither names nor manifests, all pods without a workflow are."""
    namespace: str
    """The namespace of the names, and of manifests that name none; "" = ``default``. It selects the pods of all."""
    force: bool
    """Whether an open workflow of a pod is replaced."""
    dry_run: bool
    """Whether the pods are only printed."""
    brief: bool
    """Whether only names are printed."""

    @property
    def of_all(self) -> bool:
        """Whether every pod without a workflow is adopted."""
        return not (self.names or self.filenames)


def adopt_pods(wanted: AdoptRequest) -> None:
    """Adopt the pods, several at a time, and print each. Raises BadInput, and Failure with all that went wrong."""
    manifests = _manifests(wanted) if wanted.filenames else {}
    place = here()

    async def work(client: Client) -> None:
        found, nameless = await chosen(client, place, wanted.names, namespace=wanted.namespace, keys=tuple(manifests))
        orphans = await staying(place, found) if wanted.of_all else found
        if nameless:
            remark(f"Note: objects that name no pod cannot be adopted ({len(nameless)} found); see `syncpod node`")
        if wanted.force and len({(each.pod.namespace, each.pod.name) for each in orphans}) < len(orphans):
            raise Failure("--force: the runtime has several pods of that name; `syncpod prune` removes the others")
        if not orphans and wanted.of_all:
            remark("No pods without a workflow")
        has_attributes = await has_search_attributes(client)

        async def adopt(orphan: FoundOrphan) -> None:
            manifest = manifests.get((orphan.pod.namespace, orphan.pod.name))
            await _adopt(client, place, orphan, wanted, manifest, has_attributes=has_attributes)

        await do_all([adopt(orphan) for orphan in orphans], at_once=_AT_ONCE)

    session.run(work)


def _manifests(wanted: AdoptRequest) -> Mapping[tuple[str, str], Pod]:
    """Return the pods of the manifests by namespace and name. Raises BadInput.

    If the files have ConfigMaps or Secrets, a note says that these are ignored.
    """
    found = admitted(wanted.filenames, wanted.namespace, ignore_other_kinds=True)
    if not found.pods:
        raise BadInput(f"{', '.join(wanted.filenames)}: no pod in it")
    if found.objects:
        remark(
            "Note: the ConfigMaps and Secrets of these files are not looked at: "
            f"`syncpod apply -f {shlex.quote(wanted.filenames[0])}` afterwards keeps them on the node again"
        )
    return {(each.pod.metadata.namespace, each.pod.metadata.name): each.pod for each in found.pods}


async def _adopt(
    client: Client,
    place: Here,
    orphan: FoundOrphan,
    wanted: AdoptRequest,
    manifest: Pod | None,
    *,
    has_attributes: bool,
) -> None:
    """Adopt one pod; `manifest` is the given one, None = none. Raises Failure with the reason if it is impossible."""
    name = orphan.pod.name
    if orphan.standing == "open" and not wanted.force:
        raise Failure(refusal_of_open(place, name))
    if orphan.standing == "another":
        raise Failure(taken(orphan))
    record = orphan.record or (record_from(manifest, orphan, place.node.name) if manifest is not None else None)
    if record is None:
        raise Failure(
            f'pod "{name}" cannot be adopted: node {place.node.name} has no record of its manifest, and the runtime '
            "does not store manifests: `syncpod adopt -f FILE` reads the manifest from a file (the node itself adopts "
            "a pod of the manifest directory); `syncpod prune` ends the pod instead"
        )
    if not wanted.dry_run:
        try:
            await start_for(client, place.node.name, record, has_attributes=has_attributes, replace=wanted.force)
        except HasWorkflow:
            if wanted.of_all:  # it has got a workflow since the orphans were listed
                return
            raise Failure(refusal_of_open(place, name)) from None
        await until_adopted(client, place, orphan)
    said = " (dry run)" if wanted.dry_run else ""
    say(f"pod/{name}" if wanted.brief else f"{orphan.called} adopted{said}; running: {orphan.running}")
