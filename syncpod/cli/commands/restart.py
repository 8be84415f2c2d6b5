"""``syncpod restart``: stop containers with their grace period, and start them again."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_timeout
from syncpod.cli.input.options import Container, Namespace, PodNames, Timeout


def restart(
    what: PodNames = None,
    container: Container = "",
    namespace: Namespace = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they run again and the pod is ready.")] = False,
    timeout: Timeout = "5m",
) -> None:
    """Restart a pod's containers, or one of them.

    Each container is stopped with its grace period, after its preStop hook, and started again at once, without a
    back-off, even if its restart policy says otherwise. A container that is waiting in a back-off is started now. The
    pod keeps its node, its addresses and its volumes. Sidecars are restarted only when they are named, init containers
    never.
    """
    names = pod_names(what or [])
    if not names:
        raise BadInput("name a pod")
    patience = read_timeout(timeout)
    from syncpod.cli.actions.restart import restart_pods

    restart_pods(namespace, names, container, patience, wait=wait)
