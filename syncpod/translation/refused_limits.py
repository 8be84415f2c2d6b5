"""Refusals of a pod's limits that the runtime cannot enforce, each with the path of its field.

The kubelet's runtimes enforce all limits. But the embedded runtime without access to cgroups creates no container with
a limit. So a pod with a limit is not admitted, and a resize may add no limit to a running pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from syncpod.pod import Pod
from syncpod.pod.limits import Limits, limited, limits_of

LIMITS_UNENFORCED = "LimitsUnenforced"
"""The status reason of a pod that is not admitted because of its limits; the kubelet has no such reason."""

_PATH = re.compile(r"spec\.(\w+\[\d+\]\.)?resources\.limits\[[^\]]+\]: ")


def added_limits(before: Pod, after: Pod) -> Limits:
    """Return the limits that a resize sets for the first time, in the form of `limits_of`."""
    had = set(limits_of(before))
    return tuple(each for each in limits_of(after) if each not in had)


def refusals_of_limits(limits: Limits, unenforced: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each limit that the runtime cannot enforce; () if there is none.

    `unenforced` has the runtime's reasons by resource (:func:`syncpod.cri.records.unenforced_limits`); its key
    `hugepages` stands for all sizes.
    """
    return tuple(
        f"{path}: cannot be enforced by the embedded runtime, since {_with_the_way_on(why)}"
        for path, name in limits
        if (why := unenforced.get(limited(name))) is not None
    )


def names_a_limit(reason: str) -> bool:
    """Return whether a sentence comes from `refusals_of_limits`."""
    return _PATH.match(reason) is not None


def _with_the_way_on(why: str) -> str:
    """Return the runtime's reason, followed by the advice to remove the limit.

    The reason may end in a remedy after a colon.
    """
    return f"{why}, or remove the limit" if ": " in why else f"{why}: remove the limit"
