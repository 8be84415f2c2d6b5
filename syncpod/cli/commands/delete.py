"""``syncpod delete`` and ``syncpod fleet delete``: delete objects, and wait until they are gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named, read_dry_run, read_field_selector, read_selector, read_timeout
from syncpod.cli.input.contexts import InFleet, OnlyFleet, OnlyNode
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Selection, Thing
from syncpod.cli.input.fleet_names import fleet_names, require_pods
from syncpod.cli.input.kind_words import OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import (
    AllNamespaces,
    AllOfKind,
    DryRun,
    FieldConditions,
    Filenames,
    GracePeriod,
    IgnoreNotFound,
    NamespaceOrFiles,
    Selector,
    StateDir,
    Things,
    Timeout,
    UntilGone,
    node_of,
)
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of

_KINDS_OF_FLEET: Final = one_of((*(each.lower() for each in TEMPLATED), "pod", "configmap", "secret"))
_PLURALS: Final = ", ".join(KINDS[each].words[1] for each in TEMPLATED)


@dataclass(frozen=True)
class DeleteOptions:
    """The options of `delete` and `fleet delete`."""

    what: Things = None
    filename: Filenames = None
    selector: Selector = ""
    everything: AllOfKind = False
    namespace: NamespaceOrFiles = ""
    all_namespaces: AllNamespaces = False
    grace_period: OnlyNode[GracePeriod] = -1
    now: OnlyNode[Annotated[bool, typer.Option("--now", help="Same as --grace-period=1.")]] = False
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Kill at once, without a grace period; on a node that is away, free the name at least."
        ),
        InFleet("Count pods as gone even if an unreachable node may still run them."),
    ] = False
    node: OnlyFleet[
        Annotated[
            str,
            typer.Option(
                "--node", metavar="NODE", help="Delete pods only there.", show_default="all nodes", callback=node_of
            ),
        ]
    ] = ""
    wait: UntilGone = True
    timeout: Timeout = "0"
    ignore_not_found: IgnoreNotFound = False
    dry_run: DryRun = "none"
    field_selector: FieldConditions = ""
    state_dir: OnlyFleet[StateDir] = ""


def delete(given: DeleteOptions) -> None:
    """Delete pods, ConfigMaps and Secrets.

    As with kubectl: `delete web`, `delete pod/web`, `delete cm settings`, `delete secret/keys`.

    Containers are stopped with the pod's grace period, and nothing of the pod is left on the node. A running container
    keeps the content of a deleted ConfigMap or Secret; a container that starts later waits until the object exists
    again.

    After five seconds the command prints on standard error what each pod waits for.
    """
    in_files = None
    if given.filename:
        from syncpod.cli.input.manifests import named_in

        in_files = partial(named_in, given.filename, given.namespace)
    things: Mapping[str, Sequence[str]] = dict(named(given.what or []).items())
    request = _request(given, things, in_files, "`syncpod delete pods --all`, or configmaps, or secrets")
    how = _how(given, "pod, configmap or secret")
    grace = _grace(given)
    if "Pod" in request.kinds:
        from syncpod.cli.actions.delete import delete_things

        delete_things(request, how, grace)
    else:
        from syncpod.cli.actions.delete_objects import delete_objects

        delete_objects(request, how)


def fleet_delete(given: DeleteOptions) -> None:
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
    if given.filename:
        from syncpod.cli.input.fleet_manifests import named_in

        in_files = partial(named_in, given.filename, given.namespace)
    kinds = {**WORKLOADS, **OBJECTS, **PODS}
    things = fleet_names(given.what, kinds, _KINDS_OF_FLEET, bare="Pod") if given.what else {"Pod": []}
    others = f"`syncpod fleet delete pods --all`, or {_PLURALS}, configmaps, or secrets"
    request = _request(given, things, in_files, others)
    require_pods(request.kinds, {"--force": given.force, "--node": bool(given.node)})
    how = _how(given, _KINDS_OF_FLEET)

    from syncpod.cli.actions.fleet_change import delete_things

    delete_things(request, how, given.node, given.state_dir)


def _request(
    given: DeleteOptions,
    things: Mapping[str, Sequence[str]],
    files: Callable[[], Sequence[Thing]] | None,
    others: str,
) -> DeletionRequest:
    """Return the objects to delete, which are named in exactly one way, as in kubectl's delete.go, v1.36.

    `things` are the kinds and names that were read from the words; a kind without names is for a selection. `files`
    reads the manifests; None if none were given. `others` is the hint for `--all` without a kind. Raises BadInput.
    """
    words, of_pods = given.what or [], set(things) == {"Pod"}
    conditions, fields = read_selector(given.selector), read_field_selector(given.field_selector, of_pods=of_pods)
    if fields.fields and not of_pods:
        raise BadInput("--field-selector: only pods are deleted by their fields")
    selects, is_named = bool(conditions.requirements or fields.fields), any(things.values())
    if given.all_namespaces and not (selects or given.everything):
        raise BadInput("--all-namespaces: is for objects that -l, --field-selector or --all selects")
    if sum([is_named, files is not None, selects, given.everything]) != 1 or (files and words):
        raise BadInput("say what to delete, in one of these ways: NAME..., -f FILE, -l SELECTOR or --all")
    if files is not None:
        return DeletionRequest(files())
    if not (words or selects):  # as with kubectl, --all alone names no kind
        raise BadInput(f"--all: say of which kind: {others}")
    namespace = given.namespace or "default"
    if not is_named:
        scope = None if given.all_namespaces else namespace
        return DeletionRequest(selection=Selection(list(things), scope, conditions, fields))
    each = [Thing(kind, namespace, name) for kind, names in things.items() for name in names]
    return DeletionRequest(each, is_bare=len(words) > 1 and dict(things) == {"Pod": list(dict.fromkeys(words))})


def _how(given: DeleteOptions, kinds: str) -> Deleting:
    """Return how the objects are deleted; `kinds` are those that can be. Raises BadInput."""
    return Deleting(
        kinds=kinds,
        mark=read_dry_run(given.dry_run),
        force=given.force,
        wait=given.wait,
        patience=read_timeout(given.timeout),
        ignore_not_found=given.ignore_not_found,
    )


def _grace(given: DeleteOptions) -> int | None:
    """Return the grace period to request, None = the pod's own, by kubectl's rules (cmd/delete, v1.36)."""
    seconds = given.grace_period
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if given.now and (given.force or seconds != -1):
        raise BadInput("--now means a grace of 1 second: leave out --grace-period and --force")
    if given.now:
        return 1
    if given.force and seconds > 0:
        raise BadInput("--force means no grace: leave out --grace-period, or make it 0")
    if given.force:
        return 0
    if seconds == 0:
        remark("Note: without --force, a grace period of 0 means 1 second")
        return 1
    return None if seconds == -1 else seconds
