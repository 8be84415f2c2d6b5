"""Limits for each node at the gate, so that no node crowds out the others. Values in, values out."""

from __future__ import annotations

from collections import Counter
from typing import Final

from syncpod.kernel.callers import Budget
from syncpod.kernel.http2_frames import Counted

CONNECTIONS: Final = 16
"""Maximum number of concurrent connections of one node. A node needs one, and one more while its worker restarts."""
CALLS: Final = 64
"""Maximum number of concurrent calls of one node, including polls."""
CALLS_PER_SECOND: Final = 50
"""Maximum calls of one node per second, on average."""
BURST: Final = 500
"""Maximum calls of one node in one burst after a pause."""


REFUSED_PER_SECOND: Final = 10
"""Maximum refused calls of one node per second, on average. An honest node has refused calls only for a moment."""
REFUSED_BURST: Final = 500
"""Calls of one node that may be refused in one burst. With one more, its connection is closed."""
FRAMES_PER_SECOND: Final = 500
"""Maximum small frames of one node per second, on average. A call has about five."""
FRAMES_BURST: Final = 10_000
CONNECTIONS_PER_SECOND: Final = 1
"""Maximum new connections of one node per second, on average. A worker connects once, and again when it has lost the
gate."""
CONNECTIONS_BURST: Final = 128


class NodeBounds:
    """The open connections and calls of each node, and its rate limits. A new connection does not reset the limits."""

    def __init__(self) -> None:
        self._connections: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._begun = Budget(CALLS_PER_SECOND, BURST)
        self._refused = Budget(REFUSED_PER_SECOND, REFUSED_BURST)
        self._frames = Budget(FRAMES_PER_SECOND, FRAMES_BURST)
        self._connects = Budget(CONNECTIONS_PER_SECOND, CONNECTIONS_BURST)

    def connected(self, node: str, now: float) -> str:
        """Count a connection and return "". At a limit, count nothing and return why the connection is closed."""
        if self._connections[node] >= CONNECTIONS:
            return f"a node may have at most {CONNECTIONS} connections at once"
        if not self._connects.spend(node, now):
            return f"a node may connect at most {CONNECTIONS_BURST} times in a row"
        self._connections[node] += 1
        return ""

    def disconnected(self, node: str) -> None:
        """Stop counting a connection."""
        self._connections[node] -= 1
        if self._connections[node] <= 0:
            del self._connections[node]

    def sent(self, node: str, counted: Counted, now: float) -> str:
        """Count the calls and frames that came over a connection; return "", or why the connection is closed.

        A call counts as refused until `begun` accepts it, since gRPC refuses some calls itself without a report.
        """
        if not self._refused.spend(node, now, counted.calls):
            return f"more than {REFUSED_BURST} of the node's calls were refused"
        if not self._frames.spend(node, now, counted.frames):
            return f"a node may send at most {FRAMES_PER_SECOND} small frames a second"
        return ""

    def begun(self, node: str, now: float) -> str:
        """Count a call at `now`, in seconds of any steady clock, and return ""; at a limit, why the call is refused."""
        if self._calls[node] >= CALLS:
            return f"a node may have at most {CALLS} calls at once"
        if not self._begun.spend(node, now):
            return f"a node may make at most {CALLS_PER_SECOND} calls a second"
        self._refused.give_back(node, now)
        self._calls[node] += 1
        return ""

    def refused(self, node: str, now: float) -> None:
        """Count a refusal of a call that `begun` had accepted."""
        self._refused.spend(node, now)

    def ended(self, node: str) -> None:
        """Stop counting a call that `begun` has counted."""
        self._calls[node] -= 1
        if self._calls[node] <= 0:
            del self._calls[node]
