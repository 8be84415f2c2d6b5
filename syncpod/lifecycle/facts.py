"""What is remembered of containers that the runtime no longer has: how they ended, and why they ran again.

The kubelet infers both from dead containers it keeps for the purpose. Here they are recorded when they are seen, and
live in the pod's snapshot: a dead container may be removed at once, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.pod import Model, Time

PAST_RESTARTS_KEPT: Final = 50
"""How many past restarts of a pod are kept, the newest ones."""

PAST_RESTART_MESSAGE_LIMIT: Final = 256
"""Characters kept of a past restart's message: fifty full termination messages would fill a snapshot."""


class Termination(Model):
    """How one instance of a container ended."""

    container_id: str = ""
    """Id in the runtime, without the runtime's name."""
    restart_count: int = 0
    """The instance's number."""
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class PastRestart(Model):
    """One restart of a container: when it was decided, why, and how the instance before it had ended."""

    container: str = ""
    restart: int = 0
    """Number of the instance that the restart began."""
    at: Time | None = None
    exit_code: int | None = None
    """Of the instance before; None when it is not known how that ended."""
    reason: str = ""
    """Of the instance before: `Completed`, `Error`, `OOMKilled`, ..."""
    message: str = ""
    """Of the instance before; cut."""
    cause: str = ""
    """Why it ran again: `exited 1 (Error)`, `Container web failed liveness probe, will be restarted`, ..."""


def termination_of(container: ObservedContainer) -> Termination:
    """Return how an exited instance ended."""
    return Termination(
        container_id=container.id,
        restart_count=container.restart_count,
        exit_code=container.exit_code,
        reason=container.reason,
        message=container.message,
        started_at=container.started_at,
        finished_at=container.finished_at,
    )


def remember_terminations(remembered: Mapping[str, Termination], observed: ObservedPod) -> dict[str, Termination]:
    """Return the newest known termination of each container, by container name, with what `observed` adds.

    Call it with every view of the pod, before anything is removed. What was remembered of a container stays when the
    runtime has nothing newer of it. Bounded by the number of containers the pod has ever had.
    """
    newest = dict(remembered)
    for container in reversed(observed.containers):  # oldest first, so that of equal numbers the newest wins
        if container.state != "exited":
            continue
        known = newest.get(container.name)
        if known is None or container.restart_count >= known.restart_count:
            newest[container.name] = termination_of(container)
    return newest


def remember_restart(past: tuple[PastRestart, ...], restart: PastRestart) -> tuple[PastRestart, ...]:
    """Return the ring of past restarts with one more at its end; the oldest go when it is full."""
    cut = restart.model_copy(update={"message": restart.message[:PAST_RESTART_MESSAGE_LIMIT]})
    return (*past, cut)[-PAST_RESTARTS_KEPT:]
