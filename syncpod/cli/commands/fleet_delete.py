"""``syncpod fleet delete``: delete workloads, pods, ConfigMaps and Secrets, and wait until they are gone."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_dry_run, read_timeout
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, read_request
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import (
    AllNamespaces,
    AllOfKind,
    DryRun,
    FieldConditions,
    Filenames,
    IgnoreNotFound,
    ManifestNamespace,
    Selector,
    StateDir,
    Things,
    Timeout,
    UntilGone,
)
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of

Force = Annotated[
    bool, typer.Option("--force", help="Count pods as gone even if an unreachable node may still run them.")
]
OnlyOnNode = Annotated[
    str, typer.Option("--node", metavar="NODE", help="Delete pods only there.", show_default="all nodes")
]

_KNOWN: Final = one_of((*(each.lower() for each in TEMPLATED), "pod", "configmap", "secret"))
_PLURALS: Final = ", ".join(KINDS[each].words[1] for each in TEMPLATED)


def delete(
    what: Things = None,
    filename: Filenames = None,
    selector: Selector = "",
    everything: AllOfKind = False,
    namespace: ManifestNamespace = "",
    all_namespaces: AllNamespaces = False,
    force: Force = False,
    node: OnlyOnNode = "",
    wait: UntilGone = True,
    timeout: Timeout = "0",
    ignore_not_found: IgnoreNotFound = False,
    dry_run: DryRun = "none",
    field_selector: FieldConditions = "",
    state_dir: StateDir = "",
) -> None:
    """Delete workloads, pods, ConfigMaps and Secrets of the fleet, on all nodes.

    Name them as with kubectl: `deployment web`, `daemonset logs`, `pod web`, or `deployment/web secret/keys`, or with
    the manifests that were applied. Names without a kind are pods: if one of several is unknown, none is deleted.

    A workload is gone once its last pod is, and a ConfigMap or Secret once its nodes have received its deletion. After
    five seconds the command prints on standard error what it waits for. The deletion goes on even if the command ends.

    A node that cannot be reached ends its pods when it is back. Until then they count as ending. With `--force` they
    count as gone at once, which is meant for nodes that never come back. If such a node still runs, its pods run on
    beside their replacements.
    """
    in_files = None
    if filename:
        from syncpod.cli.input.fleet_manifests import named_in

        in_files = partial(named_in, filename, namespace)
    request = read_request(
        what or [],
        _named_things(what or []),
        in_files,
        others=f"`syncpod fleet delete pods {{flag}}`, or {_PLURALS}, configmaps, or secrets",
        namespace=namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        field_selector=field_selector,
        everything=everything,
    )
    _check(request, node, force=force)
    how = Deleting(
        kinds=_KNOWN,
        mark=read_dry_run(dry_run),
        force=force,
        wait=wait,
        patience=read_timeout(timeout),
        ignore_not_found=ignore_not_found,
    )

    from syncpod.cli.actions.fleet_change import delete_things

    delete_things(request, how, node.rpartition("/")[2], state_dir)


def _named_things(words: list[str]) -> dict[str, list[str]]:
    """Return names by kind; no words mean all pods. Raises BadInput."""
    return fleet_names(words, {**WORKLOADS, **OBJECTS, **PODS}, _KNOWN, bare="Pod") if words else {"Pod": []}


def _check(request: DeletionRequest, node: str, *, force: bool) -> None:
    """Raise BadInput if --force or --node is given with a kind that is not Pod."""
    for kind in request.kinds:
        if force and kind not in PODS.values():
            raise BadInput(f"--force: is for pods, not for a {kind}")
        if node and kind not in PODS.values():
            raise BadInput(f"--node: is for pods, not for a {kind}")
