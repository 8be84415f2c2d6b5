"""The gate's log of refused calls: one line each, but only a few lines however many calls there are."""

from __future__ import annotations

import logging
from typing import Final

from typing_extensions import override

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 10.0
"""For this long, further refusals of the same call of the same node are only counted."""
_REMEMBERED: Final = 1_000


class GoneCalls(logging.Filter):
    """Drops gRPC's tracebacks about answers that it cannot send, since it has refused the call itself, or it is gone.

    A message that is too large when it is unpacked is such a call. The gate has noted it as one that cannot be read.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not (record.name.startswith("grpc.") and type(error).__name__ == "ExecuteBatchError")


class Refusals:
    """Writes the log. `now` is in seconds of any steady clock."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        """By node and method: the time of the last line, and how many refusals have been counted since."""

    def refused(self, node: str, method: str, sentence: str, now: float) -> None:
        """Log a refused call, or only count it."""
        about = (node, method[:128])
        before, unsaid = self._said.get(about, (now - QUIET_SECONDS, 0))
        if now - before < QUIET_SECONDS:
            self._said[about] = (before, unsaid + 1)
            return
        if len(self._said) >= _REMEMBERED:  # a node may make up names of methods
            self._said.clear()
        self._said[about] = (now, 0)
        more = f" ({unsaid} more since the last line)" if unsaid else ""
        log.warning("refused: node %s, %r: %s%s", node, about[1], sentence, more)
