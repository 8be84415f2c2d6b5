"""Sets a condition that a pod's node does not set, such as a readiness gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.temporal import session
from syncpod.cli.temporal.operator_signals import signal
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.lifecycle.conditions import foreign_problem
from syncpod.messages.pod_commands import SET_CONDITION
from syncpod.messages.signals import SetCondition
from syncpod.pod import PodCondition

if TYPE_CHECKING:
    from temporalio.client import Client


def set_condition(namespace: str, name: str, payload: dict[str, str]) -> None:
    """Set the condition that the payload of the signal has. Raises BadInput if the pod's node sets it, and Failure."""

    async def work(client: Client) -> None:
        pod = (await TemporalPods(client).required(namespace, name)).pod
        if problem := foreign_problem(PodCondition.model_validate(payload), pod.status.conditions):
            raise BadInput(problem)
        if pod.metadata.deletion_timestamp is not None and pod.status.phase in ("Succeeded", "Failed"):
            raise Failure(f'pod "{name}" has ended and is being deleted')
        await signal(client, pod, SET_CONDITION, SetCondition.model_validate(payload))
        say(f"pod/{name} condition {payload['type']} is {payload['status']}")

    session.run(work)
