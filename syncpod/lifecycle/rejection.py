"""The status message of a pod that its node does not admit (kubelet.go, v1.36, rejectPod)."""

from typing import Final

_BEGINNING: Final = "Pod was rejected: "


def rejection_message(why: str) -> str:
    """Return the status message of a pod that its node does not admit."""
    return f"{_BEGINNING}{why}"


def was_rejected(phase: str | None, message: str) -> bool:
    """Say whether a pod with this phase and status message was rejected by its node, and so has never run."""
    return phase == "Failed" and message.startswith(_BEGINNING)
