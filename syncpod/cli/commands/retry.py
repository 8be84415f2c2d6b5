"""``syncpod retry``: end a pod's back-offs."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.arguments import pod_name, read_timeout
from syncpod.cli.input.options import Container, Namespace, PodNames, Timeout


def retry(
    what: PodNames = None,
    container: Container = "",
    namespace: Namespace = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the pod is ready or has finished.")] = False,
    timeout: Timeout = "5m",
) -> None:
    """Retry now what a pod is waiting to retry.

    This ends back-offs: of a container that crashes, of an image that cannot be pulled, of a sandbox that cannot be
    created, of a kill that has failed. Without --container, it ends all back-offs of the pod. The next back-off is as
    long as it would have been.

    A pod of the node's manifests that the node has rejected waits in such a back-off, too: the node checks it again.

    This also releases a container that is held by its restart limit (annotation `syncpod.dev/restart-limit`), and
    counts its restarts afresh.
    """
    name = pod_name(what or [])
    patience = read_timeout(timeout)
    from syncpod.cli.actions.retry import retry_pod

    retry_pod(namespace, name, container, patience, wait=wait)
