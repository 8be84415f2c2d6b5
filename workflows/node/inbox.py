"""Signals to a node that wait to be absorbed: in the order in which they came, without what a later one says anew.

A list says all of its source and a status all of the node, so of those of one subject only the last is kept, however
many others came between. It takes the same time for each signal: the 10,000 that a server lets a run have may all be
there when a worker comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from workflows.pod.inbox import Signal


class NodeInbox:
    """Signals in the order in which they came, those of one subject where the last of them came."""

    def __init__(self) -> None:
        self._pending: dict[str | int, Signal] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Add a signal; one that says all that a pending one said takes its place."""
        self._came += 1
        key = subject(name, args) or self._came
        self._pending.pop(key, None)
        self._pending[key] = Signal(name, tuple(args))

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return what came first, at most so many; None = all."""
        return [self._pending.pop(key) for key in list(islice(self._pending, most))]


def subject(name: str, args: Sequence[Any]) -> str | None:
    """Return what a signal says all of, so that it makes an older one needless: a source's list, the node's status.

    None = nothing: it is of another kind, or makes no sense, which is to be shown.
    """
    payload = args[0] if len(args) == 1 else None
    if not isinstance(payload, dict):
        return None
    if name == "node_status":
        return name if isinstance(payload.get("boot"), int) else None
    source = payload.get("source")
    is_list = name == "sync_pods" and isinstance(source, str) and isinstance(payload.get("pods"), list)
    return f"{name} {source}" if is_list else None
