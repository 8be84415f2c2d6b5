"""The order in which pods end when their machine shuts down, and the time that each of them has.

Mirrors pkg/kubelet/nodeshutdown/nodeshutdown_manager.go, v1.36: pods are grouped by priority, and groups end one after
the other, the lowest first. The next group begins when all pods of a group have ended, or when its time is over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from syncpod.go_durations import parse_go_duration
from syncpod.lifecycle.phase import SYSTEM_CRITICAL_PRIORITY
from syncpod.pod import Pod

REASON: Final = "Terminated"
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
"""Status reason and message of a pod that its node has ended because the machine shuts down."""
REFUSED: Final = "NodeShutdown"
REFUSED_MESSAGE: Final = "Pod was rejected as the node is shutting down."
"""Status reason and message of a pod that is rejected because the machine shuts down."""
OBSTACLE: Final = "node is shutting down"
"""Why a node is not ready while its machine shuts down."""
_SECOND: Final = 10**9
_LEAST_PRIORITY: Final = -(2**31)
_GREATEST_PRIORITY: Final = 2**31 - 1
_LONGEST: Final = 24 * 3600
"""The longest period, in seconds: a longer one is a mistake, and no machine waits for it."""


class ShutdownPeriodsInvalid(ValueError):
    """The periods cannot be read; the text says why."""


class ShutdownPeriod(NamedTuple):
    """A group of pods and its time to end: those from `priority` up to the priority of the next period."""

    priority: int
    seconds: int


Periods = tuple[ShutdownPeriod, ...]
"""The periods from the lowest priority to the highest; () = a shutdown is not delayed."""


def parse_shutdown_periods(text: str) -> Periods:
    """Parse ``0=20s,2000000000=10s``. Raises ShutdownPeriodsInvalid."""
    found: dict[int, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        priority, equals, period = (piece.strip() for piece in part.partition("="))
        try:
            number, seconds = int(priority), parse_go_duration(period) / _SECOND
        except ValueError:
            equals = ""
        is_right = equals and seconds == int(seconds) <= _LONGEST and number not in found
        if not is_right or not _LEAST_PRIORITY <= number <= _GREATEST_PRIORITY:
            raise ShutdownPeriodsInvalid(
                f"{part!r}: must be a priority, each once, and whole seconds up to a day, such as 0=20s"
            )
        found[number] = int(seconds)
    return tuple(sorted(ShutdownPeriod(*each) for each in found.items()))


def periods_text(periods: Iterable[ShutdownPeriod]) -> str:
    """Return the text that `parse_shutdown_periods` parses into these periods."""
    return ",".join(f"{each.priority}={each.seconds}s" for each in periods)


def two_periods(requested: int, critical: int) -> Periods:
    """Return the periods for shutdownGracePeriod (`requested`) and shutdownGracePeriodCriticalPods (`critical`).

    Both are in nanoseconds. Critical pods have the last part of `requested`, which is `critical` long; all other pods
    have the time before that (migrateConfig).
    """
    if requested == 0:
        return ()
    others = ShutdownPeriod(0, (requested - critical) // _SECOND)
    return others, ShutdownPeriod(SYSTEM_CRITICAL_PRIORITY, critical // _SECOND)


def total_seconds(periods: Periods) -> int:
    """Return how long the machine's shutdown must be delayed (periodRequested)."""
    return sum(each.seconds for each in periods)


def group_of(periods: Periods, pod: Pod) -> int:
    """Return the index in `periods`, which must not be empty, of a pod's group (groupByPriority).

    A pod below the lowest priority is in the lowest group.
    """
    return max(0, bisect_right([each.priority for each in periods], pod.spec.priority or 0) - 1)


def grace_of(period: ShutdownPeriod, pod: Pod) -> int:
    """Return a pod's grace in seconds: its own, but no more than its group has, and at least one (killPods).

    One second is the least grace of any pod (pod_workers.go, calculateEffectiveGracePeriod).
    """
    own = pod.spec.termination_grace_period_seconds
    return max(1, period.seconds if own is None else min(own, period.seconds))


def in_order(periods: Periods, pods: Sequence[Pod]) -> list[tuple[ShutdownPeriod, list[Pod]]]:
    """Return the groups that have pods, in the order in which they end."""
    groups: list[list[Pod]] = [[] for _ in periods]
    for pod in pods:
        groups[group_of(periods, pod)].append(pod)
    return [(period, group) for period, group in zip(periods, groups, strict=True) if group]
