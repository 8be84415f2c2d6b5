"""Pods on lost nodes: when another one takes a pod's place, and which of the two goes when the node is back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member
from syncpod.fleet.when_lost import WhenLost

CLOCK_MARGIN: Final = timedelta(seconds=30)
"""How much longer than the node the fleet waits until it counts a pod as stopped by its node."""


@dataclass(frozen=True)
class Parting:
    """Which of two pods goes where only one was asked for."""

    goes: str
    stays: str
    why: str


def written_off_at(member: Member, rule: WhenLost, grace: timedelta) -> datetime | None:
    """Return when another pod may take a pod's place; None if its node is not lost, or if it is waited for.

    `grace` is the time in which the pod ends. A node counts `stop-after` from its last word with the fleet, which was
    before the fleet took it for lost; so once that time, the grace and a margin are over, nothing of the pod runs.
    """
    if member.presence != "Unknown" or member.unknown_since is None or rule.action == "wait":
        return None
    stopping = grace + CLOCK_MARGIN if rule.action == "stop-after" else timedelta(0)
    return member.unknown_since + rule.after + stopping


def part(original: Member, replacement: Member, rule: WhenLost, now: datetime, min_ready: timedelta) -> Parting:
    """Choose between a pod whose node is back and the one that took its place, both of the wanted template.

    The replacement stays if it is available. Otherwise the original stays if it is, or if it is ready and the
    replacement is not. Where neither is ready, the original stays, unless its node was to stop it.
    """
    if replacement.is_available(now, min_ready):
        return _goes(
            original, replacement, f"its replacement {replacement.called} is ready since {_since(replacement)}"
        )
    if original.is_available(now, min_ready):
        return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not available yet")
    if replacement.is_ready():
        return _goes(
            original, replacement, f"its replacement {replacement.called} is ready since {_since(replacement)}"
        )
    if original.is_ready():
        return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not ready yet")
    if rule.action == "stop-after":
        return _goes(original, replacement, f"its node was to stop it, and {replacement.called} has taken its place")
    return _goes(replacement, original, f"{original.called} is back, and {replacement.name} was not ready yet")


def _goes(goes: Member, stays: Member, why: str) -> Parting:
    return Parting(goes.name, stays.name, f"{goes.called} goes: {why}")


def _since(member: Member) -> str:
    return f"{member.ready_since:%Y-%m-%dT%H:%M:%SZ}" if member.ready_since is not None else "now"
