"""A pod's signals that wait to be absorbed: in order of arrival, without repeats.

A flood of signals is in the history and cannot be undone here, but absorbing it can be made cheap. If consecutive
signals have the same content, only the last is kept. The signals that are kept are absorbed in parts
(:meth:`workflows.entity.Entity.take_in`): while no worker runs, up to 10,000 signals may arrive, the server's limit for
one run.
"""

from __future__ import annotations

from typing import Any

from workflows.entity import Signal

PART = 1_000
"""The most signals absorbed in one workflow task: a fraction of a second, even if each lists a large pod."""


class PodInbox:
    """Signals in order of arrival, without repeats."""

    def __init__(self) -> None:
        self._pending: list[Signal] = []

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: tuple[Any, ...]) -> None:
        """Add a signal, unless it repeats the last one. If two listings are equal, the newer one is kept."""
        signal = Signal(name, args)
        last = self._pending[-1] if self._pending else None
        if last is None or _content(last) != _content(signal):
            self._pending.append(signal)
        elif _number(last) <= _number(signal):
            self._pending[-1] = signal

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""
        taken = self._pending[:most]
        self._pending = self._pending[len(taken) :]
        return taken


def _content(signal: Signal) -> tuple[Any, ...]:
    """Return a signal's content without sequence number and time, in which any two listings differ.

    If they differ in nothing else, absorbing the newer one alone has the same effect (`observed.merge`).
    """
    if _number(signal) == _NO_NUMBER:
        return signal
    (payload,) = signal.args
    status = {name: value for name, value in payload["status"].items() if name not in _WHEN}
    return signal.name, {**payload, "status": status}


_WHEN = ("seq", "observed_at", "observedAt")
_NO_NUMBER = (-1, -1)


def _number(signal: Signal) -> tuple[int, int]:
    """Return the sequence number of the listing in a `pleg` signal; `_NO_NUMBER` if none can be read."""
    try:
        (payload,) = signal.args
        seq = payload["status"]["seq"]
        boot, counter = seq["boot"], seq["counter"]
    except (ValueError, TypeError, KeyError):
        return _NO_NUMBER
    known = signal.name == "pleg" and type(boot) is int and type(counter) is int
    return (boot, counter) if known and boot >= 0 and counter >= 0 else _NO_NUMBER
