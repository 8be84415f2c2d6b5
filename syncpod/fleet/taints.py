"""Taints of nodes, and the pods that tolerate them.

Mirrors component-helpers, scheduling/corev1/helpers.go, and api, core/v1/toleration.go, v0.36, ToleratesTaint.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from syncpod.fleet.offers import NodeOffer, Taint
from syncpod.pod import Toleration

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
"""The effects that keep a pod from being placed."""
ENDS: Final = ("NoExecute",)
"""The effect that also ends a pod that is already there."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")


def taints_of(node: NodeOffer) -> tuple[Taint, ...]:
    """Return a node's own taints, and those that Kubernetes' node lifecycle controller would add for its presence."""
    of_presence = {"NotReady": NOT_READY, "Unknown": UNREACHABLE}.get(node.presence)
    if of_presence is None:
        return node.taints
    return (*node.taints, *(Taint(of_presence, effect=effect) for effect in ("NoSchedule", "NoExecute")))


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: Collection[str]) -> Taint | None:
    """Return the first taint with one of these effects that no toleration tolerates; None if there is none."""
    found = tuple(tolerations)
    return next(
        (taint for taint in taints if taint.effect in effects and not any(tolerates(one, taint) for one in found)), None
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Say whether a toleration tolerates a taint. Without a key or an effect it matches every one."""
    if toleration.effect is not None and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator or "Equal":
        case "Exists":
            return True
        case "Equal":
            return toleration.value == taint.value
        case operator:
            return _compares(operator, taint.value, toleration.value)


def _compares(operator: str, value: str, bound: str) -> bool:
    """Say whether a taint's value is a whole number below (Lt) or above (Gt) the toleration's."""
    if not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(bound)):
        return False
    return int(value) < int(bound) if operator == "Lt" else int(value) > int(bound)
