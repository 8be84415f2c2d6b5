"""Numbers of pods that may be percentages, such as maxSurge, and how they are resolved.

Mirrors apimachinery, util/intstr/intstr.go, v0.36, and pkg/controller/deployment/util, v1.36, ResolveFenceposts.
"""

from __future__ import annotations

import re
from typing import Final

_PERCENT: Final = re.compile(r"(0|[1-9][0-9]{0,8})%")
_LARGEST: Final = 2**31 - 1

SizeOrPercent = int | str
"""A number of pods, or a percentage such as ``25%``."""


def check_size(value: SizeOrPercent, *, at_most_all: bool) -> str:
    """Return what is wrong with a size; "" if it is valid. With `at_most_all`, more than 100% is invalid."""
    if isinstance(value, int):
        return (
            ""
            if 0 <= value <= _LARGEST
            else "must be a number of pods that is not negative, or a percentage such as 25%"
        )
    if not _PERCENT.fullmatch(value):
        return "must be a number of pods, or a percentage such as 25%"
    return "must not be greater than 100%" if at_most_all and int(value[:-1]) > 100 else ""


def size_of(value: SizeOrPercent, total: int, *, up: bool) -> int:
    """Return a valid size as a number of pods, rounded up or down."""
    if isinstance(value, int):
        return value
    share = int(value[:-1]) * total
    return -(-share // 100) if up else share // 100


def surge_and_unavailable(surge: SizeOrPercent, unavailable: SizeOrPercent, replicas: int) -> tuple[int, int]:
    """Return how many pods a rollout may have above and below its number of replicas.

    The surge is rounded up, and the other number down. If both are 0, one pod may be unavailable: no rollout could move
    otherwise.
    """
    more, fewer = size_of(surge, replicas, up=True), size_of(unavailable, replicas, up=False)
    return more, fewer if more or fewer else 1
