"""Measures how long an exec probe waits for the runtime's answer, across restarts of the worker.

A runtime may not answer although the command has ended: containerd 1.6 waits for every process that has the command's
output open. As in the kubelet, the probe fails two minutes after its own timeout. If each worker lived for less time,
the probe would never fail, and a hanging container would not be restarted. So the time waited, and the number of slow
failures in a row, are stored on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from syncpod.handlers.answer import NoAnswer, ProbeAnswer
from syncpod.handlers.probes import RUNTIMES_SECONDS, timed_out
from syncpod.lifecycle.probing import timeout_seconds
from syncpod.pod import ExecAction, Probe

OVERDUE_SECONDS: Final = 10.0
"""Seconds after the probe's own timeout until its answer is overdue. Each worker waits at least this long."""
KEEP_SECONDS: Final = 15.0
"""Seconds between two writes of the time waited: a restart of the worker loses no more than that."""


@dataclass(frozen=True)
class Slow:
    """How slow the answers of one exec probe of one instance have been."""

    failures: int = 0
    """How many consecutive failures, up to the last answer, were overdue."""
    waited: float = 0.0
    """Seconds for which earlier workers have waited for the answer to the current run."""


NOT_SLOW: Final = Slow()


class SlowAnswers:
    """Times the answers of one exec probe of one instance."""

    def __init__(self, probe: Probe, before: Slow, keep: Callable[[Slow], None]) -> None:
        """Continue from `before`. `keep` is called with each change, and must return at once."""
        self._timeout = timeout_seconds(probe)
        self._slow, self._keep = before, keep
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self.overdue_since: float | None = None
        """When the wait for the current answer began, in seconds since the epoch; None if the answer is not overdue."""

    @property
    def limit_seconds(self) -> float:
        """Seconds without an answer after which the probe fails."""
        return self._timeout + RUNTIMES_SECONDS

    async def answer(self, action: ExecAction, ask: Callable[[], Awaitable[ProbeAnswer]]) -> ProbeAnswer:
        """Run the command with `ask`; return its answer, or a failure at the time limit. Raises NoAnswer."""
        before, self._began = self._slow, time.monotonic()
        patience = max(self._timeout + OVERDUE_SECONDS, self.limit_seconds - before.waited)
        self._timer = asyncio.get_running_loop().call_later(self._timeout + OVERDUE_SECONDS, self._note, before)
        in_time = True
        try:
            async with asyncio.timeout(patience):
                answer = await ask()
        except TimeoutError:
            answer, in_time = timed_out(action, self._timeout), False
        except NoAnswer:  # the runtime went away or came back, so the wait does not count for this command
            self._set(Slow(before.failures))
            raise
        finally:
            in_time, self.overdue_since = in_time and self.overdue_since is None, None
            self._timer.cancel()
        self._set(NOT_SLOW if in_time or answer.result != "failure" else Slow(before.failures + 1))
        return answer

    def _note(self, before: Slow) -> None:
        """Record that the answer is overdue, now and every `KEEP_SECONDS`."""
        waited = before.waited + time.monotonic() - self._began
        self.overdue_since = time.time() - waited
        self._set(Slow(before.failures, waited))
        self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._note, before)

    def _set(self, slow: Slow) -> None:
        if slow != self._slow:
            self._slow = slow
            self._keep(slow)
