"""``syncpod adopt``: start workflows for pods that run without one."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named_only, pod_names, require_choice
from syncpod.cli.input.options import Filenames, NamespaceOfAll, OnlyNames, PodNames


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
    names, brief = pod_names(what or []), named_only(output)
    if not filename:
        require_choice(names, everything=everything)
    elif names or everything:
        raise BadInput("-f names the pods: leave out other names, and --all")
    if force and everything:
        raise BadInput("--force: name the pods; with --all only those without a workflow are adopted")

    from syncpod.cli.actions.adopt import AdoptRequest, adopt_pods

    wanted = AdoptRequest(names, tuple(filename or ()), namespace, force=force, dry_run=dry_run, brief=brief)
    adopt_pods(wanted)
