"""``syncpod resize``: change the CPU and memory of a running pod in place."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name, read_timeout
from syncpod.cli.input.options import Namespace, PodNames, Timeout

Containers = Annotated[
    list[str] | None,
    typer.Option(
        "--container",
        "-c",
        metavar="NAME",
        help="The container; * matches anything. May be repeated.",
        show_default="every main container",
    ),
]
Limits = Annotated[
    str, typer.Option("--limits", metavar="cpu=…,memory=…", help="The most that it may use.", show_default=False)
]
Requests = Annotated[
    str, typer.Option("--requests", metavar="cpu=…,memory=…", help="The guaranteed amounts.", show_default=False)
]


def resize(
    what: PodNames = None,
    container: Containers = None,
    limits: Limits = "",
    requests: Requests = "",
    whole: Annotated[bool, typer.Option("--pod", help="Resize the pod as a whole, not its containers.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    namespace: Namespace = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done.")] = False,
    timeout: Timeout = "5m",
) -> None:
    """Change the CPU and memory of a running pod in place.

    Other amounts stay as they are; a request or limit can be added or changed, but not removed. The pod's QoS class
    must not change: for a Guaranteed pod, change requests and limits alike. Containers keep running, unless their
    resizePolicy requires a restart. If the node has no room now, the resize is Deferred until there is room; if there
    can never be room, it is Infeasible. The pod's conditions PodResizePending and PodResizeInProgress show the
    progress.

    \b
    Examples:
      syncpod resize web --limits cpu=500m,memory=256Mi
      syncpod resize web -c app --requests cpu=200m --limits memory=1Gi --wait
      syncpod resize web --pod --limits cpu=2
      syncpod resize web --limits memory=128Mi --dry-run
    """  # fmt: skip  # noqa: D301
    from syncpod.cli.input.resize_request import ResizeRequest, parse_amounts

    name = pod_name(what or [])
    amounts = parse_amounts(limits, "--limits"), parse_amounts(requests, "--requests")
    if not any(amounts):
        raise BadInput("say what is to change: --limits cpu=500m,memory=256Mi, or --requests, or both")
    if whole and container:
        raise BadInput("either --pod or --container: --pod resizes the pod as a whole")
    request, patience = ResizeRequest(container or (), *amounts, whole=whole), read_timeout(timeout)
    from syncpod.cli.actions.resize import resize_pod, show_plan

    if dry_run:
        show_plan(namespace, name, request)
    else:
        resize_pod(namespace, name, request, wait=wait, patience=patience)
