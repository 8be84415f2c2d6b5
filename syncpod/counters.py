"""Counters that begin at zero with the process, for all labels that are known in advance.

A series that begins at 1 hides its first increase, since Prometheus' ``increase()`` and ``rate()`` compare two values
of one series. Counters are created during imports, before OpenTelemetry is turned on, and additions until then are
lost. So each counter remembers its known labels, and :func:`begin_at_zero` adds 0 to all of them once OpenTelemetry is
on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

from opentelemetry.metrics import Counter, Meter

Labels = Mapping[str, str]

_FROM_ZERO: Final[list[tuple[Counter, tuple[Labels, ...]]]] = []


def counter_from_zero(meter: Meter, name: str, *, description: str, known: Iterable[Labels] = ({},)) -> Counter:
    """Create a counter that begins at zero for each of these sets of labels; by default for one series without labels.

    Other labels may be counted too. Their series begin with their first value.
    """
    counter = meter.create_counter(name, description=description)
    _FROM_ZERO.append((counter, tuple(known)))
    return counter


def each_of(**values: Iterable[str]) -> tuple[Labels, ...]:
    """Return every combination of these values, as sets of labels."""
    # These are plain strings, since a StrEnum member has another hash than its string, and so would begin a second
    # series.
    chosen = product(*([str(value) for value in known] for known in values.values()))
    return tuple(dict(zip(values, each, strict=True)) for each in chosen)


def begin_at_zero() -> None:
    """Make every such counter show its known series. Call it once, after OpenTelemetry has been turned on."""
    for counter, known in _FROM_ZERO:
        for labels in known:
            counter.add(0, labels)
