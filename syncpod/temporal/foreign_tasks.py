"""Limits the log of foreign tasks on a worker's task queue: one line an hour for each kind.

Anybody who reaches the server can put workflows and steps of their own on the queue, and can send signals that nobody
can decode. The worker fails these tasks and drops these signals. The server retries many of the tasks without end, and
the SDK logs each failure with a traceback, those of workflows twice.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from temporalio.exceptions import ApplicationError

from syncpod.rare_lines import RareLines
from syncpod.temporal.failures import ENCODED
from syncpod.temporal.signed_steps import UNSIGNED

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 3600.0
KINDS: Final = 100
"""How many kinds have lines of their own; all further kinds share one line."""
_WORKFLOW: Final = re.compile(r"Workflow class (.*?) is not registered on this worker", re.DOTALL)
_STEP: Final = re.compile(r"Activity function (.*?) for workflow (.*) is not registered on this worker", re.DOTALL)
_SIGNAL: Final = re.compile(
    r"Failed deserializing signal input for (.*?) on workflow .*? with ID (.*?) and run ID ", re.DOTALL
)
"""The SDK's words, in its own log and in the errors that its core quotes."""
_LONGEST: Final = 100
_CORE: Final = "temporalio.core"


class ForeignTasks(logging.Filter):
    """A filter for log handlers. The first record of each kind in an hour is let through, as one sentence."""

    def __init__(self, queue: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`queue` names the owner of the task queue, such as "this node's"; `clock` is monotonic, in seconds."""
        super().__init__()
        self._queue, self._lines = queue, RareLines(REPEAT_SECONDS, clock)
        self._kinds: set[str] = set()
        """The kinds that have lines of their own."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record. A record that is due is replaced by a sentence with advice."""
        if record.name == __name__:
            return True
        error = record.exc_info[1] if record.exc_info else None
        text = str(error) if error is not None else record.getMessage()
        if record.name.startswith(_CORE):  # core repeats the record logged just before
            return not (ENCODED in text or _WORKFLOW.search(text) or _STEP.search(text))
        found = _undecodable(record.getMessage()) or self._sentence(error, text)
        if found is None:
            return True
        kind, sentence = found
        if kind not in self._kinds and len(self._kinds) >= KINDS:
            kind, sentence = "", f"more kinds of tasks of others than {KINDS} are on {self._queue} task queue"
        self._kinds.add(kind)
        if (left_out := self._lines.left_out(kind)) is None:
            return False
        if left_out:
            sentence += f" (and {left_out} times since the last such line)"
        record.msg, record.args, record.exc_info, record.exc_text = sentence, (), None, None
        record.name, record.levelno, record.levelname = __name__, logging.WARNING, "WARNING"
        return True

    def _sentence(self, error: BaseException | None, text: str) -> tuple[str, str] | None:
        """Return the kind of a failure and the advice for it, or None if the task is the worker's own."""
        if found := _WORKFLOW.search(text):
            name = _quoted(found[1])
            return f"workflow {name}", (
                f"a workflow of type {name} is on {self._queue} task queue, and nothing here can run it: terminate it, "
                "or start it on another task queue"
            )
        if found := _STEP.search(text):
            name = _quoted(found[1])
            return f"step {name}", (
                f"workflow {_quoted(found[2])} asks for the step {name} on {self._queue} task queue, and nothing here "
                "can run it: terminate that workflow"
            )
        if isinstance(error, ApplicationError) and error.type == UNSIGNED:
            return (
                f"unsigned {error.message[:_LONGEST]}",
                f"a task of others is on {self._queue} task queue: {error.message}",
            )
        return None


def _undecodable(text: str) -> tuple[str, str] | None:
    """Return the kind of a signal that the SDK drops as undecodable, and a sentence; None for any other text."""
    found = _SIGNAL.search(text)
    if found is None:
        return None
    name = _quoted(found[1])
    return f"signal {name}", f"a signal {name} to workflow {_quoted(found[2])} cannot be decoded, and is left out"


def _quoted(name: str) -> str:
    return repr(name[:_LONGEST])
