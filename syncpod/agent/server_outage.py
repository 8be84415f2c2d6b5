"""Limits log lines while the Temporal server is away: one when the outage begins, a few during it, one when it ends.

Otherwise every poller, signal and heartbeat would log each of its tries: four lines a second on a node with four pods.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from syncpod.collector_outage import LOGGER as COLLECTOR

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 30.0
"""Seconds between the first line and the second; each further interval is twice as long, up to `LONGEST_SECONDS`."""
LONGEST_SECONDS: Final = 600.0
_SIGNS: Final = ("tcp connect error", "transport error", "error trying to connect")
"""The SDK's texts when the server's address refuses connections: in its own log, and in errors that our log quotes."""
ANOTHER_SERVER: Final = "syncpod.agent.another_server"
"""The logger of lines about the fleet's server. The filter passes them, since they are few."""


class ServerOutage(logging.Filter):
    """A filter for log handlers. It drops records about an outage, and replaces a few of them by a summary."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._since: float | None = None
        self._next = 0.0
        self._pause = FIRST_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write a record. If a summary is due, the record's message is replaced by it."""
        if record.name in (__name__, ANOTHER_SERVER, COLLECTOR) or not any(
            sign in record.getMessage() for sign in _SIGNS
        ):
            return True
        if not (said := self._summary()):
            return False
        record.name, record.levelno, record.levelname = __name__, logging.WARNING, "WARNING"
        record.msg, record.args, record.exc_info = said, (), None
        return True

    def _summary(self) -> str:
        """Return the line about the outage that is due now; "" if none is."""
        now = self._clock()
        if self._since is None:
            self._since, self._next, self._pause = now, now + FIRST_SECONDS, FIRST_SECONDS
            return "the Temporal server does not answer; pods keep running, and messages to the server wait"
        if now < self._next:
            return ""
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self._next = now + self._pause
        return f"the Temporal server has not answered for {now - self._since:.0f} s"

    def looked(self, silent_since: datetime | None) -> None:
        """Note whether the server answers a check. A hanging server refuses no connection, so the log does not show it.

        After an outage, log how long it lasted.
        """
        if silent_since is not None:
            if said := self._summary():
                log.warning(said)
            return
        if self._since is not None:
            log.info("the Temporal server answers again, after %.0f s", self._clock() - self._since)
        self._since = None
