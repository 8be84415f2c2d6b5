"""Restarts containers of pods: each ends with its grace period, and is started again at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.containers import chosen_container, status_of
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.operator_signals import pod_to_signal, signal, until_up
from syncpod.lifecycle.restart import is_sidecar
from syncpod.messages.pod_commands import RESTART
from syncpod.messages.signals import Restart

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod


def restart_pods(
    namespace: str, names: Sequence[str], container: str, patience: timedelta | None, *, wait: bool
) -> None:
    """Restart one container of each pod; "" = all its main containers. With `wait`, wait until they run.

    A failure of one pod does not stop the others. Raises Failure, also for a container that a pod does not have, and
    BadInput for an init container.
    """

    async def work(client: Client) -> None:
        restarts = [_restart(client, namespace, name, container, patience, wait=wait) for name in names]
        await do_all(restarts, at_once=len(names))

    session.run(work)


async def _restart(
    client: Client, namespace: str, name: str, container: str, patience: timedelta | None, *, wait: bool
) -> None:
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
