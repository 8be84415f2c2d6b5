"""``syncpod restart``: stop containers with their grace period, and start them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_timeout
from syncpod.cli.input.options import Container, Namespace, PodNames, Timeout

if TYPE_CHECKING:
    from temporalio.client import Client


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
    from syncpod.cli.several import do_all
    from syncpod.cli.temporal import session

    names = pod_names(what or [])
    if not names:
        raise BadInput("name a pod")
    patience = read_timeout(timeout)

    from syncpod.cli.actions.restart import restart_containers

    async def work(client: Client) -> None:
        await do_all(
            [restart_containers(client, namespace, name, container, patience, wait=wait) for name in names],
            at_once=len(names),
        )

    session.run(work)
