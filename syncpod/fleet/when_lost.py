"""The annotation that says what happens to a workload's pods on a lost node.

::

    syncpod.dev/when-lost: wait                  nothing happens until the node is back (the default)
    syncpod.dev/when-lost: replace-after=5m      another pod replaces it; when the node is back, one of them is removed
    syncpod.dev/when-lost: stop-after=5m         the node itself stops the pod, and then another one replaces it

Times are Go durations. The fleet counts them from the moment when the node became Unknown. The node counts `stop-after`
from its last contact with the fleet, which is earlier. Under `wait` and `replace-after` the pod itself runs on. Only
`stop-after` keeps two copies from ever running at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from syncpod.go_durations import GoDurationTooLong, go_duration, parse_go_duration

WHEN_LOST: Final = "syncpod.dev/when-lost"

Action = Literal["wait", "replace-after", "stop-after"]

_SHORTEST: Final = timedelta(seconds=10)
_LONGEST: Final = timedelta(days=30)
_SPAN: Final = "between 10s and 720h"
_VALID: Final = "must be wait, replace-after=DURATION or stop-after=DURATION, such as replace-after=5m"


@dataclass(frozen=True)
class WhenLost:
    """The rule for a pod whose node is lost; `after` is 0 under `wait`."""

    action: Action = "wait"
    after: timedelta = timedelta(0)

    def __str__(self) -> str:
        """Write the rule as the annotation's value."""
        return self.action if self.action == "wait" else f"{self.action}={go_duration(self.after)}"


WAIT: Final = WhenLost()
"""The rule for a pod without the annotation."""


def when_lost(annotations: Mapping[str, str]) -> WhenLost:
    """Read the rule from annotations. Raises ValueError with a sentence for an invalid value."""
    text = annotations.get(WHEN_LOST, "wait")
    if text == "wait":
        return WAIT
    action, equals, duration = text.partition("=")
    if not equals or action not in ("replace-after", "stop-after"):
        raise ValueError(f"{_VALID}, is {text!r}")
    try:
        after = timedelta(microseconds=parse_go_duration(duration) // 1000)
    except GoDurationTooLong:
        after = _LONGEST * 2
    except ValueError:
        raise ValueError(f"{_VALID}, is {text!r}") from None
    if not _SHORTEST <= after <= _LONGEST:
        raise ValueError(f"must have a time {_SPAN}, is {text!r}")
    return WhenLost("replace-after" if action == "replace-after" else "stop-after", after)
