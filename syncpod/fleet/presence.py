"""Pods on lost nodes: when a pod is replaced, and which of the two copies is removed when the node is back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member
from syncpod.fleet.when_lost import WhenLost

CLOCK_MARGIN: Final = timedelta(seconds=30)
"""How much longer the fleet waits than the node, before it counts a pod as stopped by its node."""


@dataclass(frozen=True)
class CopyChoice:
    """The choice between two copies of a pod: one is removed, and one stays."""

    goes: str
    stays: str
    why: str


def written_off_at(member: Member, rule: WhenLost, grace: timedelta) -> datetime | None:
    """Return when a pod on a lost node may be replaced; None if its node is not lost, or its rule is to wait.

    `grace` is the pod's grace period. A node counts the time of `stop-after` from its last contact with the fleet, and
    the fleet counts it from the loss, which is later. So nothing of the pod runs any more once that time, the grace
    period and a margin have passed.
    """
    if member.presence != "Unknown" or member.unknown_since is None or rule.action == "wait":
        return None
    stopping = grace + CLOCK_MARGIN if rule.action == "stop-after" else timedelta(0)
    return member.unknown_since + rule.after + stopping


def choose_copy(
    original: Member, replacement: Member, rule: WhenLost, now: datetime, min_ready: timedelta
) -> CopyChoice:
    """Choose between a pod whose node is back and its replacement, both of the wanted template.

    The first of these that applies stays: an available replacement, an available original, a ready replacement, a ready
    original. If none applies, the replacement stays under `stop-after`, and the original otherwise.
    """
    replacement_is_ready = f"its replacement {replacement.called} has been ready since {_since(replacement)}"
    if replacement.is_available(now, min_ready):
        return _goes(original, replacement, replacement_is_ready)
    if original.is_available(now, min_ready):
        return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not available yet")
    if replacement.is_ready():
        return _goes(original, replacement, replacement_is_ready)
    if original.is_ready():
        return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not ready yet")
    if rule.action == "stop-after":
        return _goes(original, replacement, f"its node had to stop it, and {replacement.called} has replaced it")
    return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not ready yet")


def _goes(goes: Member, stays: Member, why: str) -> CopyChoice:
    return CopyChoice(goes.name, stays.name, f"{goes.called} is removed: {why}")


def _since(member: Member) -> str:
    return f"{member.ready_since:%Y-%m-%dT%H:%M:%SZ}" if member.ready_since is not None else "now"
