"""``syncpod adopt``: start workflows for pods that run without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import NamespaceOfAll, OnlyNames, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.strays.listing import Here, Stray

_AT_ONCE: Final = 8
"""How many pods are adopted at a time. With many more, a node would answer later than this command waits."""


def adopt(
    what: PodNames = None,
    everything: Annotated[bool, typer.Option("--all", help="Every pod of this node that has no workflow.")] = False,
    namespace: NamespaceOfAll = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Also a pod with an open workflow that cannot go on: the workflow is replaced."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be adopted.")] = False,
    output: OnlyNames = "",
) -> None:
    """Start a workflow for pods that run without one.

    Pods of this machine lose their workflows when the Temporal server loses its database, or is replaced by another:
    then nothing kills them, and nothing looks after them. A pod is adopted from its node's record of it, under the same
    UID. Whatever runs keeps running, and no container is restarted. Restart counts continue from what the runtime has;
    back-offs, events and history start afresh. A pod that has ended stays ended.

    With --force, the workflow of a named pod is terminated at the moment when the new one starts. Terminating it first
    would leave the pod an orphan, which its node kills.
    """
    from syncpod.cli.several import do_all
    from syncpod.cli.strays.listing import chosen, here, named_only, require_choice
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.pod_apply import has_search_attributes

    names, brief = pod_names(what or []), named_only(output)
    require_choice(names, everything=everything)
    if force and everything:
        raise BadInput("--force: name the pods; with --all only those without a workflow are adopted")
    place = here()

    async def work(client: Client) -> None:
        strays, nameless = await chosen(client, place, names, namespace=namespace)
        if nameless:
            remark(f"Note: {len(nameless)} of what runs names no pod, and cannot be adopted; see `syncpod node`")
        if force and len({(each.pod.namespace, each.pod.name) for each in strays}) < len(strays):
            raise Failure("--force: the runtime has several pods of that name; `syncpod prune` removes the others")
        if not strays and everything:
            remark("No pods without a workflow")
        has_attributes = await has_search_attributes(client)
        how = _How(brief=brief, dry_run=dry_run, force=force, has_attributes=has_attributes)
        await do_all([_adopt(client, place, stray, how) for stray in strays], at_once=_AT_ONCE)

    session.run(work)


@dataclass(frozen=True)
class _How:
    brief: bool
    dry_run: bool
    force: bool
    has_attributes: bool


async def _adopt(client: Client, place: Here, stray: Stray, how: _How) -> None:
    """Adopt one pod. Raises Failure with the reason if that is impossible."""
    from syncpod.cli.strays.adoption import start_for, until_adopted
    from syncpod.cli.strays.listing import refusal_of_open, taken

    name = stray.pod.name
    if stray.standing == "open" and not how.force:
        raise Failure(refusal_of_open(stray))
    if stray.standing == "another":
        raise Failure(taken(stray))
    if stray.record is None:
        raise Failure(
            f'pod "{name}" cannot be adopted: node {place.node.name} has no record of what its manifest says, and the '
            "runtime does not know that; `syncpod prune` ends it, then apply its manifest again (a pod of the manifest "
            "directory is adopted by itself)"
        )
    if not how.dry_run:
        await start_for(client, place.node.name, stray.record, has_attributes=how.has_attributes, replace=how.force)
        await until_adopted(client, place, stray)
    said = " (dry run)" if how.dry_run else ""
    say(f"pod/{name}" if how.brief else f"{stray.called} adopted{said}; running: {stray.running}")
