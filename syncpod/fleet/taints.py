"""Taints of nodes, and the pods that tolerate them.

Mirrors component-helpers, scheduling/corev1/helpers.go, and api, core/v1/toleration.go, v0.36, ToleratesTaint.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, get_args

from syncpod.fleet.offers import NodeOffer, Taint
from syncpod.pod import Toleration
from syncpod.pod.enums import TaintEffect
from syncpod.pod.validation.syntax import label_value, qualified_name

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

CORDON: Final = Taint(UNSCHEDULABLE, effect="NoSchedule")

KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
"""The effects that keep a pod from being placed."""
ENDS: Final = ("NoExecute",)
"""The effect that also ends a pod that is already there."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")


class TaintsInvalid(ValueError):
    """Taints are written wrongly. The text names the wrong one, and shows a right one."""


def parse_taints(text: str) -> tuple[Taint, ...]:
    """Parse ``dedicated=edge:NoSchedule,spare:NoExecute``. Raises :class:`TaintsInvalid`."""
    found: dict[tuple[str, str], Taint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        named, _, effect = part.rpartition(":")
        key, _, value = named.partition("=")
        wrong = (
            "" if effect in get_args(TaintEffect) else f"its effect must be one of {', '.join(get_args(TaintEffect))}"
        )
        wrong = (
            wrong or qualified_name(key) or label_value(value) or ("is named twice" if (key, effect) in found else "")
        )
        if wrong:
            raise TaintsInvalid(f"taint {part!r}: {wrong}; write key=value:effect")
        found[key, effect] = Taint(key, value, next(each for each in get_args(TaintEffect) if each == effect))
    return tuple(found.values())


def taints_of(node: NodeOffer) -> tuple[Taint, ...]:
    """Return a node's own taints, and those that Kubernetes' node lifecycle controller would add.

    It adds taints for the node's presence and for a cordon (TaintNodesByCondition).
    """
    of_cordon = (CORDON,) if node.unschedulable else ()
    of_presence = {"NotReady": NOT_READY, "Unknown": UNREACHABLE}.get(node.presence)
    effects: tuple[TaintEffect, ...] = ("NoSchedule", "NoExecute") if of_presence is not None else ()
    return (*node.taints, *of_cordon, *(Taint(of_presence or "", effect=effect) for effect in effects))


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: Collection[str]) -> Taint | None:
    """Return the first taint with one of these effects that no toleration tolerates; None if there is none."""
    found = tuple(tolerations)
    return next(
        (taint for taint in taints if taint.effect in effects and not any(tolerates(one, taint) for one in found)), None
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Say whether a toleration tolerates a taint.

    A toleration without a key matches every key, and one without an effect every effect.
    """
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
