"""A node's signals that wait to be absorbed: in order of arrival, without those that a later one replaces.

A list describes its whole source, and a status the whole node. So only the last signal about each of them is kept,
however many others came between. Adding a signal takes constant time, because a returning worker may find up to 10,000
of them, the most that a server allows for one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from workflows.signal import Signal


class NodeInbox:
    """Signals in order of arrival; a signal that replaces an earlier one goes to the end."""

    def __init__(self) -> None:
        self._pending: dict[str | int, Signal] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Add a signal, in place of a pending one that it replaces; an older list replaces none and is dropped."""
        self._came += 1
        key = subject(name, args) or self._came
        before = self._pending.pop(key, None)
        if before is not None and _is_outdated(args[0], before.args[0]):
            args = before.args
        self._pending[key] = Signal(name, tuple(args))

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""
        return [self._pending.pop(key) for key in list(islice(self._pending, most))]


def subject(name: str, args: Sequence[Any]) -> str | None:
    """Return what a signal describes as a whole: a source's list, or the node's status.

    A newer signal about the same replaces an older one. None means that it replaces no signal: it is of another kind,
    or makes no sense and is shown as a rejection. A list that names pods as begun or gone is replaced by none either,
    since no other says that these run, or have ended.
    """
    payload = args[0] if len(args) == 1 else None
    if not isinstance(payload, dict):
        return None
    if name == "node_status":
        return name if isinstance(payload.get("boot"), int) else None
    source = payload.get("source")
    is_list = name == "sync_pods" and isinstance(source, str) and isinstance(payload.get("pods"), list)
    return f"{name} {source}" if is_list and not (payload.get("begun") or payload.get("gone")) else None


def _is_outdated(given: dict[str, Any], pending: dict[str, Any]) -> bool:
    """Say whether a list was sent before the pending one of the same boot, or with it, as a copy."""
    number, last = given.get("number"), pending.get("number")
    if not isinstance(number, int) or not isinstance(last, int):
        return False
    return 0 < number <= last and given.get("boot") == pending.get("boot")
