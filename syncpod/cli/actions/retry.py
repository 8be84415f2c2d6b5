"""Ends a pod's back-offs, so that what they hold is tried now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from syncpod.api.views.pod_columns import summarize
from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.machine.containers import chosen_container
from syncpod.cli.temporal import session
from syncpod.cli.temporal.operator_signals import pod_to_signal, signal, until_up
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.pod_commands import BACKOFF_EXPIRED
from syncpod.messages.signals import BackoffExpired
from syncpod.pod import pod_to_wire

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Pod


def retry_pod(namespace: str, name: str, container: str, patience: timedelta | None, *, wait: bool) -> None:
    """End the back-off of a container; "" = all back-offs of the pod. With `wait`, wait until the pod is up.

    Raises Failure, also if there is no such back-off.
    """

    async def work(client: Client) -> None:
        pod = (await TemporalPods(client).required(namespace, name)).pod
        held = await _held(client, namespace, name)
        if not held:
            await pod_to_signal(client, namespace, name)  # raises Failure if the pod is ending or has ended
        subjects = [subject for subject in held if container in ("", subject)]
        if not subjects:
            raise _nothing_waits(pod, container, held)
        for subject in subjects:
            await signal(client, pod, BACKOFF_EXPIRED, BackoffExpired(container=subject))
        say(f"pod/{name} retrying ({', '.join(subjects)})")
        if wait:
            say(f"pod/{name} {await until_up(client, pod, patience, lambda _: True)}")

    session.run(work)


async def _held(client: Client, namespace: str, name: str) -> list[str]:
    """Return what the pod's back-offs hold: containers, and steps of the whole pod such as ``create_sandbox``."""
    try:
        plan = await TemporalPods(client).answer((namespace, name), "plan", result_type=dict)
    except (WorkflowQueryFailedError, RPCError):
        raise Failure(f'pod "{name}" does not answer') from None
    return [hold["subject"] for hold in plan["holds"]]


def _nothing_waits(pod: Pod, container: str, held: list[str]) -> Failure:
    """Return the failure that there is no back-off to end, with the pod's state."""
    name = pod.metadata.name
    if not container:
        return Failure(f'pod "{name}" is not in a back-off: it is {summarize(pod_to_wire(pod)).status}')
    chosen_container(pod, container)
    others = f"; {', '.join(held)} is" if held else ""
    return Failure(f'container "{container}" in pod "{name}" is not in a back-off{others}')
