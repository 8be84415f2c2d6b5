"""A Pod of its own, which its fleet places: what is done next for it, and what of it cannot change.

It is one pod under one name: on each of a fleet's nodes it has that name. Another is made only where it was asked for,
after its node was lost or while its node is drained, and then never beside one that may still be ending. A pod that has
ended stays, as in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member
from syncpod.fleet.rollout import Decision, RolloutState, Wish, decide
from syncpod.fleet.when_lost import WhenLost
from syncpod.pod import Pod

_ONE: Final = "the pod"
"""Stands for its template: a change of the pod is its node's to make, so no other pod is made for it."""
_FIXED: Final = (
    "node_name",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
)
"""Fields that have chosen the node."""


def decide_lone(
    rule: WhenLost, grace: timedelta, members: Iterable[Member], state: RolloutState, now: datetime
) -> Decision:
    """Decide what is next for a pod, which has a copy on a lost node at times.

    `grace` is the time in which it ends. Of two copies one goes, by `syncpod.fleet.presence.part`. One that has ended
    counts as one that does what it is for: none is made in its place.
    """
    wish = Wish(_ONE, 1, max_surge=0, max_unavailable=1, recreate=True, deadline=None, when_lost=rule, grace=grace)
    copies = [_copy(each) for each in members]
    decided = decide(wish, copies, state, now)
    return replace(decided, says=_says(copies, decided))


def placement_changed(before: Pod, after: Pod) -> str:
    """Return the first field, as a path, that has chosen the pod's node and would be another; "" if none would."""
    for name in _FIXED:
        if getattr(before.spec, name) != getattr(after.spec, name):
            alias = type(before.spec).model_fields[name].alias or name
            return f"spec.{alias}"
    return ""


def _copy(member: Member) -> Member:
    ready = member.ready_since or (member.created if member.ended else None)
    return replace(member, revision=_ONE, ready_since=ready, ended=False)


def _says(copies: Iterable[Member], decided: Decision) -> str:
    going = {each.name for each in decided.withdraw}
    off = decided.state.written_off
    stays = [each for each in copies if not each.leaving and each.name not in going and each.name not in off]
    if not stays:
        ending = [each for each in copies if each.name not in off]
        return f"it waits until {ending[0].called} is gone" if ending else "it is on no node"
    one = stays[0]
    if not one.node:
        return f"it is on no node: {one.message}" if one.message else "a node is looked for"
    return f"it is on {one.node}"
