"""Limits the log of a fleet's worker that lacks a key: one sentence a minute, in place of a traceback for each try.

A database that was restored from a backup needs the keys that were in use then. Until the worker has them, each task of
each workflow fails, and the server retries it every ten seconds. A missing sealing key fails only the tasks that
receive a node's answer sealed for that key.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from syncpod.messages.encryption import Undecipherable
from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 60.0
_CORE: Final = "temporalio.core"
WHAT_TO_DO: Final = (
    "if the fleet's database was restored from a backup, put the keys of that time back; if another machine has "
    "changed the key, copy its key here"
)


class MissingKey(logging.Filter):
    """A filter for log handlers. The first record in a minute is let through, as one sentence."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        super().__init__()
        self._lines = RareLines(REPEAT_SECONDS, clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record. A record that is due is replaced by a sentence with advice."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, Undecipherable):
            # The SDK's core repeats the record logged just before.
            return not (record.name.startswith(_CORE) and Undecipherable.__name__ in record.getMessage())
        if self._lines.left_out() is None:
            return False
        record.msg = f"workflows of the fleet cannot go on, since one of them cannot be read: {error}: {WHAT_TO_DO}"
        record.name, record.levelno, record.levelname = __name__, logging.WARNING, "WARNING"
        record.args, record.exc_info, record.exc_text = (), None, None
        return True


class UnopenedAnswers:
    """Logs that a node's answers are sealed for a key that the fleet lacks: a sentence a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self._lines = RareLines(REPEAT_SECONDS, clock)

    def say(self, node: str, keys: Sequence[str]) -> None:
        """Log the sentence, at most once a minute. `keys` are the ids of the keys that would open the answer."""
        if self._lines.left_out() is None:
            return
        log.warning(
            "an answer of node %s is sealed for key %s, which the fleet does not have here: if the fleet's database "
            "was restored from a backup, put the sealing keys of that time back, or the workflow of node %s cannot "
            "go on; if the key was removed for good, invite the node anew",
            *(node, ", ".join(keys), node),
        )
