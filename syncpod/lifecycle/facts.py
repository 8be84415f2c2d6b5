"""How a container ended: the fact that is recorded when it is seen, and outlives the dead container.

The kubelet keeps dead containers so that it can infer this from them. Here the pod's workflow records it, so that a
dead container may be removed at once and nothing is guessed.
"""

from __future__ import annotations

from syncpod.lifecycle.observed import ObservedContainer
from syncpod.pod import Model, Time


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
