"""A pod's settings for its own restarts, in annotations: their back-off and their number.

::

    syncpod.dev/backoff-initial: 10s               syncpod.dev/backoff-exempt-exit-codes: "0,143"
    syncpod.dev/backoff-factor: "2"                syncpod.dev/restart-limit: "20"
    syncpod.dev/backoff-max: 5m                    syncpod.dev/restart-limit-action: hold
    syncpod.dev/backoff-reset-after: 10m

Times are Go durations. The defaults are the kubelet's. `syncpod.lifecycle.restart_pacing` applies the settings; image
pulls and failed steps always use the kubelet's values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal

from syncpod.go_durations import GoDurationTooLong, parse_go_duration
from syncpod.pod.problems import Problem

INITIAL: Final = "syncpod.dev/backoff-initial"
FACTOR: Final = "syncpod.dev/backoff-factor"
MAXIMUM: Final = "syncpod.dev/backoff-max"
RESET_AFTER: Final = "syncpod.dev/backoff-reset-after"
EXEMPT: Final = "syncpod.dev/backoff-exempt-exit-codes"
LIMIT: Final = "syncpod.dev/restart-limit"
ACTION: Final = "syncpod.dev/restart-limit-action"

_OURS: Final = ("syncpod.dev/backoff", "syncpod.dev/restart")
"""An unknown annotation with this prefix is a mistake."""

_FACTOR: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")
_CODE: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,6}")

_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_LARGEST_FACTOR: Final = 10
_LARGEST_LIMIT: Final = 1_000_000

Action = Literal["hold", "fail"]


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """The back-off of a pod's restarts. The defaults are the kubelet's."""

    initial: timedelta = timedelta(seconds=10)
    """The delay of the second restart in a row, measured from the exit; the first is immediate."""
    factor: float = 2
    """The factor from one delay to the next."""
    maximum: timedelta = timedelta(seconds=300)
    """The longest delay."""
    reset_after: timedelta = timedelta(seconds=600)
    """After a container has run for longer than this, its delay and its count start over."""
    exempt: tuple[int, ...] = ()
    """Exit codes after which a container restarts at once; such restarts are not counted."""
    limit: int | None = None
    """The most restarts in a row; None = unlimited."""
    action: Action = "hold"
    """The action at the limit: the container is held until an operator retries, or the whole pod fails."""


KUBELETS: Final = RestartSettings()
"""The settings of a pod without such annotations."""


def restart_settings(annotations: Mapping[str, str], nodes_maximum: float = 0.0) -> RestartSettings:
    """Return the settings in a pod's annotations. Invalid ones are ignored; `check_restart_settings` reports them.

    `nodes_maximum` is the longest delay, in seconds, of a pod that sets none; 0 = the kubelet's. The first delay is no
    longer than the longest one (kubelet.go, v1.36, newCrashLoopBackOff).
    """
    return _read(annotations, "", timedelta(seconds=nodes_maximum) if nodes_maximum else KUBELETS.maximum)[0]


def has_restart_settings(annotations: Mapping[str, str]) -> bool:
    """Say whether any of the annotations is set."""
    return any(name in annotations for name in _READERS)


def check_restart_settings(annotations: Mapping[str, str], path: str) -> Iterator[Problem]:
    """Check the annotations; `path` is where they are, such as `metadata.annotations`."""
    settings, problems = _read(annotations, path)
    yield from problems
    for name in annotations:
        if name.startswith(_OURS) and name not in _READERS:
            yield Problem(f"{path}[{name}]", f"unknown; known are {', '.join(_READERS)}")
    if settings.initial > settings.maximum:
        where = INITIAL if INITIAL in annotations else MAXIMUM
        yield Problem(f"{path}[{where}]", f"must not be such that {INITIAL} is longer than {MAXIMUM}")
    if settings.reset_after < settings.initial:
        where = RESET_AFTER if RESET_AFTER in annotations else INITIAL
        yield Problem(f"{path}[{where}]", f"must not be such that {RESET_AFTER} is shorter than {INITIAL}")
    if ACTION in annotations and LIMIT not in annotations:
        yield Problem(f"{path}[{ACTION}]", f"must stand beside {LIMIT}")


def _read(
    annotations: Mapping[str, str], path: str, maximum: timedelta = KUBELETS.maximum
) -> tuple[RestartSettings, list[Problem]]:
    found: dict[str, Any] = {}
    problems = []
    for name, (attribute, read) in _READERS.items():
        if name in annotations:
            try:
                found[attribute] = read(annotations[name])
            except ValueError as wrong:
                problems.append(Problem(f"{path}[{name}]", f"{wrong}, is {annotations[name]!r}"))
    settings = replace(KUBELETS, **{"maximum": maximum, **found})
    if "initial" not in found and settings.maximum < settings.initial:
        settings = replace(settings, initial=settings.maximum)
    return settings, problems


def _duration(lowest: timedelta, highest: timedelta, span: str) -> Callable[[str], timedelta]:
    """Return a parser of Go durations in this range; it raises ValueError with the valid range."""

    def read(text: str) -> timedelta:
        try:
            nanoseconds = parse_go_duration(text)
        except GoDurationTooLong:
            raise ValueError(f"must be {span}") from None
        except ValueError:
            raise ValueError("must be a duration such as 10s or 1m30s") from None
        # In nanoseconds, which a timedelta does not count: 24h and 1ns is more than a day.
        if not 1000 * (lowest // _MICROSECOND) <= nanoseconds <= 1000 * (highest // _MICROSECOND):
            raise ValueError(f"must be {span}")
        return timedelta(microseconds=nanoseconds // 1000)

    return read


def _factor(text: str) -> float:
    if not _FACTOR.fullmatch(text) or not 1 <= float(text) <= _LARGEST_FACTOR:
        raise ValueError(f"must be a number from 1 to {_LARGEST_FACTOR}, such as 2 or 1.5")
    return float(text)


def _codes(text: str) -> tuple[int, ...]:
    codes = [code.strip() for code in text.split(",")]
    if not all(_CODE.fullmatch(code) and int(code) <= 255 for code in codes):
        raise ValueError("must be exit codes from 0 to 255, with commas between them, such as 0,143")
    return tuple(sorted({int(code) for code in codes}))


def _limit(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _LARGEST_LIMIT:
        raise ValueError(f"must be a whole number from 0 to {_LARGEST_LIMIT}")
    return int(text)


def _action(text: str) -> str:
    if text not in ("hold", "fail"):
        raise ValueError("must be hold or fail")
    return text


_READERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    INITIAL: ("initial", _duration(_SECOND, _DAY, "between 1s and 24h")),
    FACTOR: ("factor", _factor),
    MAXIMUM: ("maximum", _duration(_SECOND, _DAY, "between 1s and 24h")),
    RESET_AFTER: ("reset_after", _duration(10 * _SECOND, 30 * _DAY, "between 10s and 720h")),
    EXEMPT: ("exempt", _codes),
    LIMIT: ("limit", _limit),
    ACTION: ("action", _action),
}
"""The attribute that each annotation sets, and its parser."""
