"""Limits the log while workflows of other programs are on the node's task queue: a line an hour for each type.

The worker fails each of their tasks, the server tries each again every ten seconds, without end, and the SDK logs each
failure twice, with a traceback.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 3600.0
TYPES: Final = 100
"""How many types have lines of their own; all others share one."""
_UNREGISTERED: Final = re.compile(r"Workflow class (.*?) is not registered on this worker", re.DOTALL)
"""The SDK's words, in its own log and in the errors that its core quotes."""
_LONGEST_NAME: Final = 100
_CORE: Final = "temporalio.core"


class UnknownTypes(logging.Filter):
    """A filter for log handlers. The first record about each type is let through, as one sentence."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next: dict[str, float] = {}
        """By type: when it may be logged again."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write a record; one that is due is replaced by what is to be done."""
        error = record.exc_info[1] if record.exc_info else None
        unregistered = _UNREGISTERED.search(str(error) if error is not None else record.getMessage())
        if unregistered is None or record.name == __name__:
            return True
        if record.name.startswith(_CORE):  # it quotes what was logged just before
            return False
        name = repr(unregistered[1][:_LONGEST_NAME])
        if name not in self._next and len(self._next) >= TYPES:
            name = "(many others)"
        now = self._clock()
        if now < self._next.get(name, now):
            return False
        self._next[name] = now + REPEAT_SECONDS
        record.msg = (
            f"a workflow of type {name} is on this node's task queue, and nothing here can run it: terminate it, or "
            "start it on another task queue"
        )
        record.name, record.levelno, record.levelname = __name__, logging.WARNING, "WARNING"
        record.args, record.exc_info, record.exc_text = (), None, None
        return True
