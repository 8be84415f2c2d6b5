"""A node's signals that wait to be absorbed: in order of arrival, without signals that a later one replaces.

A list describes its whole source, and a status the whole node. So only the last signal about each of them is kept,
however many others came between. Adding a signal takes constant time, because a returning worker may find up to 10,000
of them, the most that a server allows for one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from workflows.entity import Signal


class NodeInbox:
    """Signals in order of arrival; a signal that replaces an earlier one goes to the end."""

    def __init__(self) -> None:
        self._pending: dict[str | int, Signal] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Add a signal, in place of a pending one that it replaces."""
        self._came += 1
        key = subject(name, args) or self._came
        self._pending.pop(key, None)
        self._pending[key] = Signal(name, tuple(args))

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""
        return [self._pending.pop(key) for key in list(islice(self._pending, most))]


def subject(name: str, args: Sequence[Any]) -> str | None:
    """Return the whole that a signal describes: a source's list, the agent's own pods, or the node's status.

    A newer signal with the same subject replaces an older one. None means that the signal stands alone: it is of
    another kind, it is invalid and will be rejected, or it reports events that the agent sends only once (`gone`,
    `begunAnew`, `problems`).
    """
    payload = args[0] if len(args) == 1 else None
    if not isinstance(payload, dict):
        return None
    if name == "node_status":
        return name if isinstance(payload.get("boot"), int) else None
    if name == "static_pods":
        says_once = any(payload.get(each) for each in ("gone", "begunAnew", "problems"))
        return name if isinstance(payload.get("boot"), int) and not says_once else None
    source = payload.get("source")
    is_list = name == "sync_pods" and isinstance(source, str) and isinstance(payload.get("pods"), list)
    return f"{name} {source}" if is_list else None
