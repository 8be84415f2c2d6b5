"""``syncpod delete``: delete pods, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named, read_dry_run, read_timeout
from syncpod.cli.input.deletion_request import Deleting, read_request
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
    Things,
    Timeout,
    UntilGone,
)

Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Kill at once, without a grace period; on a node that is away, free the name at least."
    ),
]


def delete(
    what: Things = None,
    filename: Filenames = None,
    selector: Selector = "",
    everything: AllOfKind = False,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    grace_period: GracePeriod = -1,
    now: Annotated[bool, typer.Option("--now", help="Same as --grace-period=1.")] = False,
    force: Force = False,
    wait: UntilGone = True,
    timeout: Timeout = "0",
    ignore_not_found: IgnoreNotFound = False,
    dry_run: DryRun = "none",
    field_selector: FieldConditions = "",
) -> None:
    """Delete pods, ConfigMaps and Secrets.

    As with kubectl: `delete web`, `delete pod/web`, `delete cm settings`, `delete secret/keys`.

    Containers are stopped with the pod's grace period, and nothing of the pod is left on the node. A running container
    keeps the content of a deleted ConfigMap or Secret; a container that starts later waits until the object exists
    again.

    After five seconds the command prints on standard error what each pod waits for.
    """
    in_files = None
    if filename:
        from syncpod.cli.input.manifests import named_in

        in_files = partial(named_in, filename, namespace)
    request = read_request(
        what or [],
        dict(named(what or []).items()),
        in_files,
        others="`syncpod delete pods {flag}`, or configmaps, or secrets",
        namespace=namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        field_selector=field_selector,
        everything=everything,
    )
    how = Deleting(
        kinds="pod, configmap or secret",
        mark=read_dry_run(dry_run),
        force=force,
        wait=wait,
        patience=read_timeout(timeout),
        ignore_not_found=ignore_not_found,
    )
    grace = _grace(grace_period, now=now, force=force)
    if "Pod" in request.kinds:
        from syncpod.cli.actions.delete import delete_things

        delete_things(request, how, grace)
    else:
        from syncpod.cli.actions.delete_objects import delete_objects

        delete_objects(request, how)


def _grace(seconds: int, *, now: bool, force: bool) -> int | None:
    """Return the grace period to request, None = the pod's own, by kubectl's rules (cmd/delete, v1.36)."""
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if now and (force or seconds != -1):
        raise BadInput("--now means a grace of 1 second: leave out --grace-period and --force")
    if now:
        return 1
    if force and seconds > 0:
        raise BadInput("--force means no grace: leave out --grace-period, or make it 0")
    if force:
        return 0
    if seconds == 0:
        remark("Note: without --force, a grace period of 0 means 1 second")
        return 1
    return None if seconds == -1 else seconds
