"""Who or what decided that an instance of a container is ended: a fact for programs, beside the words for people."""

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
    """Its definition is another one now."""
    RESIZE = "resize"
    """Its resources change, and its resize policy asks for a restart."""
    RULE = "rule"
    """A restart rule asks for a restart of all containers."""
    SANDBOX = "sandbox"
    """The pod needs another sandbox."""
    STATE_LOST = "state"
    """The runtime has lost its state: it may still run, and is ended before its next instance starts."""
    LOST_FOR_GOOD = "lost"
    """The runtime has lost its state, and it must not run twice, so no other instance follows."""
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
    """Another life of the pod's name has begun, and this one has no workflow any more."""
    ORPHAN = "orphan"
    """The pod has no workflow any more, and should not exist by the server's records."""

    @property
    def reason(self) -> str:
        """The kubelet's reason of such a kill, as its events and metrics have it; "" if it gives none."""
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
"""The end of the reason for which a container was ended, if it did not end when the node asked it to."""
