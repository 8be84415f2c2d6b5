"""Limits the log lines about an OpenTelemetry collector that does not accept spans or metrics.

The exporters log each try of each batch, dozens of lines a minute, and their last line about a batch gives no reason.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Final, TypeVar

from syncpod.rare_lines import RareLines

LOGGER: Final = "syncpod.collector"
"""The logger of these lines. They pass the filter that drops lines about the Temporal server."""
log = logging.getLogger(LOGGER)

REPEAT_SECONDS: Final = 600.0
"""Length of an interval in seconds. In an interval, each cause is logged at most once, even with several outages."""
CAUSES: Final = 4
"""Maximum number of causes that have a line in one interval."""

_REASONS: Final = (
    re.compile(r"Transient error (?P<why>.*) encountered while exporting \w+ batch", re.DOTALL),
    re.compile(r"batch code: (?!None)(?P<code>\S+), reason: (?P<why>.*)", re.DOTALL),
    re.compile(r"error code: (?:StatusCode\.)?(?P<code>\w+), error details: (?P<why>.*)", re.DOTALL),
    re.compile(r"Transient error (?:StatusCode\.)?(?P<code>\w+) encountered .*Error details: (?P<why>.*)", re.DOTALL),
)
"""The exporters' log messages that contain the reason why a batch was not accepted."""
_TIMED_OUT: Final = "due to timeout, max retries or shutdown"
"""Part of the exporters' last message about a batch, for any reason. If the first try takes the whole time limit, this
is the only message."""
_QUEUE_FULL: Final = "Queue full, dropping "

_Result = TypeVar("_Result", bound=Enum)

_said: ContextVar[list[logging.LogRecord] | None] = ContextVar("said", default=None)
"""The log records about the export that is under way in this thread."""


class CollectorLog(logging.Filter):
    """A filter for log handlers: the SDK's records about an export go to a :class:`CollectorOutage`, not to the log.

    It must be the handler's first filter: a later filter might match text that a record quotes from the collector.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._full = RareLines(REPEAT_SECONDS, clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        if record.levelno < logging.WARNING:
            return True
        said = _said.get()
        if said is not None:
            said.append(record)
            return False
        if not record.name.startswith("opentelemetry.") or not record.getMessage().startswith(_QUEUE_FULL):
            return True
        if self._full.left_out() is None:
            return False
        record.name, record.args = LOGGER, ()
        record.msg = "spans are recorded faster than the OpenTelemetry collector takes them; some are lost"
        return True


class CollectorOutage:
    """Logs when a collector stops accepting one signal, and when it accepts it again.

    `what` is the signal, ``spans`` or ``metrics``; `where` is the collector's host and port.
    """

    def __init__(self, what: str, where: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._collector, self._clock = what, f"the OpenTelemetry collector at {where}", clock
        self._since: float | None = None
        """When the first batch of the current outage was lost; None = there is no outage."""
        self._lost = 0
        self._is_logged = False
        """True if the log has a line about the current outage."""
        self._next = clock()
        """Time by the clock at which the current interval ends."""
        self._causes: set[str] = set()
        """The causes that have had a line in the current interval."""

    def export(self, export: Callable[[], _Result], success: _Result) -> _Result:
        """Export a batch, and log that an outage has begun, goes on or is over.

        `success` is the SDK's result for an accepted batch. Raises the errors of `export`, which are defects; the SDK
        logs them.
        """
        said = list[logging.LogRecord]()
        token = _said.set(said)
        try:
            result = export()
        finally:
            _said.reset(token)
        if result is success:
            self._taken()
        else:
            self._failed(cause(said))
        return result

    def _failed(self, why: str) -> None:
        now = self._clock()
        self._lost += 1
        if self._since is None:
            self._since = now
        if now >= self._next:
            self._next = now + REPEAT_SECONDS
            self._causes.clear()
        elif why in self._causes or len(self._causes) >= CAUSES:
            return
        self._causes.add(why)
        if self._lost == 1:
            text = "%s does not take %s: %s; they are lost, and pods are not affected"
            log.warning(text, self._collector, self._what, why)
        else:
            text = "%s has not taken %d batches of %s in %.0f s; the latest: %s"
            log.warning(text, self._collector, self._lost, self._what, now - self._since, why)
        self._is_logged = True

    def _taken(self) -> None:
        if self._since is None or not (self._is_logged or self._clock() >= self._next):
            return
        text = "%s takes %s again, after %.0f s; %s lost"
        lost = "1 batch is" if self._lost == 1 else f"{self._lost} batches are"
        log.info(text, self._collector, self._what, self._clock() - self._since, lost)
        self._since, self._lost, self._is_logged = None, 0, False


def cause(said: Sequence[logging.LogRecord]) -> str:
    """Return why a batch was not accepted: the reason in the earliest log record of its export that has one."""
    for record in said:
        if error := next((each for each in _arguments(record) if isinstance(each, BaseException)), None):
            return _innermost(error)
    texts = [record.getMessage() for record in said]
    for text in texts:
        for reason in _REASONS:
            if found := reason.search(text):
                return " ".join(part for part in found.groupdict().values() if part)
    if not texts:
        return "the exporter gave no reason"
    return "no success within the exporter's time limit" if _TIMED_OUT in texts[0] else texts[0]


def _arguments(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else ()


def _innermost(error: BaseException) -> str:
    """Return the operating system's text, such as `Connection refused`; without one, the error's own text."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.strerror:
            return each.strerror
    return str(error) or type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
