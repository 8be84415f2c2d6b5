"""The gate's log of refused calls: one line each, but a quick repetition is only counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 10.0
"""Seconds after a line in which refusals of the same call of the same node are only counted."""


class GoneCalls(logging.Filter):
    """Drops gRPC's tracebacks about answers that it cannot send, since the call was refused or has ended.

    gRPC itself refuses a call whose message is too large once unpacked. The gate has already logged such a call.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not (record.name.startswith("grpc.") and type(error).__name__ == "ExecuteBatchError")


class Refusals:
    """Writes the log of refused calls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is steady, in seconds."""
        self._lines = RareLines(QUIET_SECONDS, clock)

    def refused(self, node: str, method: str, sentence: str) -> None:
        """Log a refused call, or only count it. A node may make up the names of methods."""
        method = method[:128]
        self._lines.warn(log, (node, method), f"refused: node {node}, {method!r}: {sentence}")
