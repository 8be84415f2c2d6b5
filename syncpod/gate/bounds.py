"""Limits for each node at the gate, so that no node crowds out the others. Values in, values out."""

from __future__ import annotations

from collections import Counter
from typing import Final

CONNECTIONS: Final = 16
"""Connections of one node at once. A node needs one, and one more while its worker restarts."""
CALLS: Final = 64
"""Calls of one node at once, including polls."""
CALLS_PER_SECOND: Final = 50
"""Calls of one node on average."""
BURST: Final = 500
"""Calls that a node may make in one burst after a pause."""


class NodeBounds:
    """What each node is using at the moment. A node that uses nothing is forgotten."""

    def __init__(self) -> None:
        self._connections: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._spent: dict[str, tuple[float, float]] = {}
        """By node: the calls that still count against its rate, and when they were counted, in seconds."""

    def connected(self, node: str) -> bool:
        """Count a connection and return True. At the limit, count nothing and return False."""
        if self._connections[node] >= CONNECTIONS:
            return False
        self._connections[node] += 1
        return True

    def disconnected(self, node: str) -> None:
        """Stop counting a connection."""
        self._connections[node] -= 1
        if self._connections[node] <= 0:
            del self._connections[node]
            self._spent.pop(node, None)

    def begun(self, node: str, now: float) -> str:
        """Count a call at `now`, in seconds of any steady clock; return "". At a limit, return why it is refused."""
        if self._calls[node] >= CALLS:
            return f"a node may have at most {CALLS} calls at once"
        spent, counted = self._spent.get(node, (0.0, now))
        spent = max(0.0, spent - (now - counted) * CALLS_PER_SECOND)
        if spent + 1 > BURST:
            self._spent[node] = (spent, now)
            return f"a node may make at most {CALLS_PER_SECOND} calls a second"
        self._spent[node] = (spent + 1, now)
        self._calls[node] += 1
        return ""

    def ended(self, node: str) -> None:
        """Stop counting a call that `begun` has counted."""
        self._calls[node] -= 1
        if self._calls[node] <= 0:
            del self._calls[node]
