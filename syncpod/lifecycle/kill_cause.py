"""The cause of a kill, as a value for programs. For people, a kill has a message in words."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class KillCause(StrEnum):
    """Why an instance is killed. It is decided together with the kill, and goes with it to the pod's journal."""

    LIVENESS = "liveness"
    """Its liveness probe failed."""
    STARTUP = "startup"
    """Its startup probe failed."""
    HOOK = "poststart"
    """Its postStart hook failed."""
    OPERATOR = "operator"
    """A person restarts it."""
    UPDATE = "update"
    """Its definition in the spec has changed."""
    RESIZE = "resize"
    """Its resources change, and its resize policy requires a restart."""
    RULE = "rule"
    """A restart rule requires a restart of all containers."""
    SANDBOX = "sandbox"
    """The pod needs a new sandbox."""
    STATE_LOST = "state"
    """The runtime has lost the instance's state. It may still run, so it is killed before the next instance starts."""
    LOST_FOR_GOOD = "lost"
    """The runtime has lost the instance's state. Its container must not run twice, so no other instance follows."""
    DELETED = "deleted"
    """The pod is being deleted."""
    EVICTED = "evicted"
    """The node evicts the pod."""
    DEADLINE = "deadline"
    """The pod has reached its active deadline."""
    FAILED = "failed"
    """The pod has failed as a whole in another way, such as at its limit of restarts."""
    FINISHED = "finished"
    """No container of the pod is left to run."""
    EARLIER_LIFE = "earlier life"
    """The instance is of an earlier life of its pod: that life has no workflow any more, and another has begun."""
    ORPHAN = "orphan"
    """The pod has no workflow any more, and should not exist by the server's records."""

    @property
    def reason(self) -> str:
        """The reason in the kubelet's events and metrics for such a kill; "" if they have none."""
        return _REASONS.get(self, "")


_REASONS: Final = {
    KillCause.LIVENESS: "LivenessProbe",
    KillCause.STARTUP: "StartupProbe",
    KillCause.STATE_LOST: "Unknown",
    KillCause.LOST_FOR_GOOD: "Unknown",
}


PRE_STOP_FAILED: Final = "FailedPreStopHook"
"""The reason of the event of a preStop hook that failed, or was not run (events/event.go, v1.36)."""
AFTER_ITS_GRACE: Final = "; killed after its grace period"
"""Appended to the reason for ending a container if the container had not ended within its grace period."""
