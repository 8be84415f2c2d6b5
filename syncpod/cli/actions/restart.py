"""The work of ``syncpod restart``: stop containers with their grace period, and start them again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.containers import chosen_container, status_of
from syncpod.cli.temporal.operator_signals import pod_to_signal, signal, until_up
from syncpod.lifecycle.restart import is_sidecar
from syncpod.messages.pod_commands import RESTART
from syncpod.messages.signals import Restart

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod


async def restart_containers(
    client: Client, namespace: str, name: str, container: str, patience: timedelta | None, *, wait: bool
) -> None:
    """Restart a pod's containers, or one of them; with `wait`, wait until they run. Raises BadInput, Failure."""
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
    status = status_of(pod, container)
    return status.container_id if status.state.running is not None else ""
