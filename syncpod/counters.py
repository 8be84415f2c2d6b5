"""Counters that are there, at zero, from a process' start, for all labels that are known beforehand.

A series that begins at 1 hides its first increase: Prometheus' ``increase()`` and ``rate()`` compare two values of one
series. Counters are made while modules are imported, before OpenTelemetry is turned on; what is added until then is
lost. So each remembers its known labels, and :func:`begin_at_zero` adds nothing to all of them when it is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

from opentelemetry.metrics import Counter, Meter

Labels = Mapping[str, str]

_FROM_ZERO: Final[list[tuple[Counter, tuple[Labels, ...]]]] = []


def counter_from_zero(meter: Meter, name: str, *, description: str, known: Iterable[Labels] = ({},)) -> Counter:
    """Make a counter that begins at zero with each of these sets of labels; by default with none, as its only series.

    Labels that are not among them may be counted too: those series begin with their first value.
    """
    counter = meter.create_counter(name, description=description)
    _FROM_ZERO.append((counter, tuple(known)))
    return counter


def each_of(**values: Iterable[str]) -> tuple[Labels, ...]:
    """Return every combination of these values, by label."""
    # Plain strings: a member of a StrEnum has another hash than its equal, and OpenTelemetry begins a second series.
    chosen = product(*([str(value) for value in known] for known in values.values()))
    return tuple(dict(zip(values, each, strict=True)) for each in chosen)


def begin_at_zero() -> None:
    """Have every such counter show its known series. Call it once, when OpenTelemetry has been turned on."""
    for counter, known in _FROM_ZERO:
        for labels in known:
            counter.add(0, labels)
