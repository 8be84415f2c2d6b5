"""``syncpod adopt``: start workflows for pods that run without one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.manifests import admitted
from syncpod.cli.input.options import Filenames, NamespaceOfAll, OnlyNames, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod

_AT_ONCE: Final = 8
"""Maximum number of pods adopted at the same time. With many more, a node's answers would come after our timeout."""


def adopt(
    what: PodNames = None,
    everything: Annotated[bool, typer.Option("--all", help="Every pod of this node that has no workflow.")] = False,
    filename: Filenames = None,
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
    UID. Containers keep running, and none is restarted. Restart counts continue from what the runtime has;
    back-offs, events and history start afresh. A pod that has ended stays ended.

    With -f, the pods of the manifests are adopted. If the node has lost its record of a pod, with its state directory,
    the pod is adopted from its manifest and its labels in the runtime. Its containers must have been made from this
    manifest.

    With --force, the workflow of a named pod is terminated at the moment when the new one starts. Terminating it first
    would leave the pod an orphan: a node that takes only signed commands lets an orphan run until `adopt` or `prune`,
    and any other node kills it.
    """
    from syncpod.cli.orphans.found_orphans import chosen, here, named_only, require_choice, staying
    from syncpod.cli.several import do_all
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.pod_apply import has_search_attributes

    names, brief = pod_names(what or []), named_only(output)
    manifests = _manifests(filename, namespace, names, everything=everything)
    if not manifests:
        require_choice(names, everything=everything)
    if force and everything:
        raise BadInput("--force: name the pods; with --all only those without a workflow are adopted")
    place = here()

    from syncpod.cli.actions.adopt import How, adopt_pod

    async def work(client: Client) -> None:
        found, nameless = await chosen(client, place, names, namespace=namespace, keys=tuple(manifests))
        orphans = await staying(place, found) if everything else found
        if nameless:
            remark(f"Note: objects that name no pod cannot be adopted ({len(nameless)} found); see `syncpod node`")
        if force and len({(each.pod.namespace, each.pod.name) for each in orphans}) < len(orphans):
            raise Failure("--force: the runtime has several pods of that name; `syncpod prune` removes the others")
        if not orphans and everything:
            remark("No pods without a workflow")
        how = How(
            brief=brief,
            dry_run=dry_run,
            force=force,
            has_attributes=await has_search_attributes(client),
            everything=everything,
            manifests=manifests,
        )
        await do_all([adopt_pod(client, place, orphan, how) for orphan in orphans], at_once=_AT_ONCE)

    session.run(work)


def _manifests(
    filename: list[str] | None, namespace: str, names: Sequence[str], *, everything: bool
) -> dict[tuple[str, str], Pod]:
    """Return the pods of the manifests by namespace and name. Raises BadInput if names or --all are given as well.

    If the files have ConfigMaps or Secrets, a note says that these are ignored.
    """
    if not filename:
        return {}
    if names or everything:
        raise BadInput("-f names the pods: leave out other names, and --all")
    found = admitted(filename, namespace, ignore_other_kinds=True)
    if not found.pods:
        raise BadInput(f"{', '.join(filename)}: no pod in it")
    if found.objects:
        remark(
            "Note: the ConfigMaps and Secrets of these files are not looked at: "
            f"`syncpod apply -f {shlex.quote(filename[0])}` afterwards keeps them on the node again"
        )
    return {(each.pod.metadata.namespace, each.pod.metadata.name): each.pod for each in found.pods}
