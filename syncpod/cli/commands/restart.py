"""``syncpod restart``: stop containers with their grace period, and start them again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, read_timeout
from syncpod.cli.input.options import Container, Namespace, PodNames, Timeout

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod


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

    async def work(client: Client) -> None:
        await do_all(
            [_restart(client, namespace, name, container, patience, wait=wait) for name in names], at_once=len(names)
        )

    session.run(work)


async def _restart(
    client: Client, namespace: str, name: str, container: str, patience: timedelta | None, *, wait: bool
) -> None:
    from syncpod.cli.machine.containers import chosen_container
    from syncpod.cli.temporal.operator_signals import pod_to_signal, signal, until_up
    from syncpod.lifecycle.restart import is_sidecar
    from syncpod.messages.pod_commands import RESTART
    from syncpod.messages.signals import Restart

    pod = await pod_to_signal(client, namespace, name)
    if any(each.name == container and not is_sidecar(each) for each in pod.spec.init_containers):
        raise BadInput(
            f'container "{container}" of pod "{name}" is an init container: init containers are never restarted alone'
        )
    chosen = [chosen_container(pod, container)] if container else [each.name for each in pod.spec.containers]
    await signal(client, pod, RESTART, Restart(container=container))
    say(f"pod/{name} restarting ({', '.join(chosen)})")
    if wait:
        before = {each: _instance(pod, each) for each in chosen}
        state = await until_up(
            client, pod, patience, lambda seen: all(_instance(seen, each) not in ("", before[each]) for each in chosen)
        )
        say(f"pod/{name} {state}")


def _instance(pod: Pod, container: str) -> str:
    """Return the id of the running instance; "" if none runs."""
    from syncpod.cli.machine.containers import status_of

    status = status_of(pod, container)
    return status.container_id if status.state.running is not None else ""
