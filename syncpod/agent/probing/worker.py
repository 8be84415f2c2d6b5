"""Runs one probe of one container instance periodically, and reports its results.

Mirrors prober/worker.go, v1.36: probes start at whole periods after the first one. If a probe takes longer than a
period, the next one follows at once, and missed periods are skipped (as time.Ticker does).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from syncpod.agent.probing.schedule import Schedule
from syncpod.handlers.answer import NoAddress, NoAnswer, ProbeAnswer
from syncpod.lifecycle.probing import (
    Failures,
    ProbeResult,
    ProbeState,
    answered,
    first_failures,
    is_news,
    period_seconds,
    waits_for_start,
)
from syncpod.pod import Probe

log = logging.getLogger(__name__)

_ENDING_SECONDS: Final = 1.0
"""Seconds until a probe that cannot be run is reported: an exit of the container is noticed within this time."""
_REMARK_AGAIN_SECONDS: Final = 300.0
"""The least seconds between two reported warnings, which change no result, so that they do not flood the events."""

Ask = Callable[[Probe], Awaitable[ProbeAnswer]]
"""Runs the probe once. Raises NoAnswer if it cannot be run."""


_NONE: Final = Failures()


@dataclass(frozen=True)
class Report:
    """A probe worker's report about one instance."""

    result: ProbeResult
    """The result; `unknown` if the probe cannot be run, or if it has failed and that does not change the result yet."""
    answer: ProbeAnswer
    failures: Failures = _NONE
    """The failures so far; `unreported` counts those that this report adds."""
    errors: Failures = _NONE
    """How often the probe could not be run, counted in the same way; a report with errors has no failures."""


Tell = Callable[[ProbeState, Report], None]
"""Called with the probe's state and each report."""


class ProbeWorker:
    """Probes one container instance with one probe, until it is on hold or ended."""

    def __init__(
        self, name: str, state: ProbeState, probe: Probe, schedule: Schedule, ask: Ask, tell: Tell, *, started: bool
    ) -> None:
        """Start in `state`; `started` says whether the container has started. Nothing runs before `begin`.

        `name` is for logs and tasks.
        """
        self.state = state
        self.failures = first_failures(state)
        self.failed_at = 0.0
        """When the last failed answer came, in seconds since the epoch."""
        self.errors = _NONE
        self.errored_at = 0.0
        """When the probe could not be run most recently, in seconds since the epoch."""
        self._name = name
        self._probe = probe
        self._schedule = schedule
        self._ask = ask
        self._tell = tell
        self._started = started
        self._due: float | None = None
        """When it runs next, in the loop's time; None while it runs."""
        self._task: asyncio.Task[None] | None = None
        self._over = state.on_hold
        self._remarked = -_REMARK_AGAIN_SECONDS
        self._remarkable = False
        """Whether the last answer was a success with a warning."""

    def begin(self, delay: float) -> None:
        """Plan the first run in `delay` seconds; if the probe waits for the container's start, not before that."""
        self._plan(asyncio.get_running_loop().time() + delay)

    def container_started(self) -> None:
        """Note that the container has started: a probe that waited for that continues at once."""
        self._started = True
        if self._due is not None:
            self._plan(max(self._due, asyncio.get_running_loop().time()))

    def end(self) -> None:
        """Stop probing, and report failures that were not reported yet; the answer of a running probe is ignored."""
        if self.failures.unreported:
            self._report_change(Report("unknown", ProbeAnswer("failure", self.failures.text), self.failures))
        if self.errors.unreported:
            self._report_errors()
        self._over = True
        if self._task is not None:
            self._task.cancel()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task of the run under way; None if there is none."""
        return self._task

    def _plan(self, due: float) -> None:
        self._due = due
        if not self._over and not waits_for_start(self.state.type, started=self._started):
            self._schedule.at(due, lambda: self._fire(due))

    def _fire(self, due: float) -> None:
        if self._over or self._due != due:
            return  # it was rescheduled, or has ended
        self._due = None
        self._task = asyncio.create_task(self._run(due), name=self._name)

    async def _run(self, due: float) -> None:
        try:
            await self._run_once()
        except Exception:  # the probe must continue after any error
            log.exception("%s", self._name)
        self._task = None
        if self.state.on_hold:
            self._over = True
        period, now = period_seconds(self._probe), asyncio.get_running_loop().time()
        self._plan(due + period * max(1, int((now - due) / period)))

    async def _run_once(self) -> None:
        try:
            answer = await self._ask(self._probe)
        except NoAddress:
            return
        except NoAnswer as error:
            await asyncio.sleep(_ENDING_SECONDS)
            self.errors = self.errors.one_more(str(error))
            self.errored_at = time.time()
            if self.errors.is_due:
                self._report_errors()
            return
        before = self.state
        self.state = answered(before, self._probe, "failure" if answer.result == "failure" else "success")
        if answer.result == "failure":
            self.failures = self.failures.one_more(answer.text)
            self.failed_at = time.time()
        if is_news(before, self.state):
            self._report_change(Report(self.state.result, answer, self.failures))
        elif self.failures.is_due:
            self._report_change(Report("unknown", answer, self.failures))
        elif answer.result == "warning":
            self._remark(Report(self.state.result, answer, self.failures))
            return
        self._remarkable = answer.result == "warning"

    def _report_change(self, report: Report) -> None:
        if report.failures.unreported:
            self.failures = self.failures.all_reported()
        self._tell(self.state, report)

    def _report_errors(self) -> None:
        report = Report("unknown", ProbeAnswer("failure", self.errors.text), errors=self.errors)
        self.errors = self.errors.all_reported()
        self._tell(self.state, report)

    def _remark(self, report: Report) -> None:
        """Report a warning: the first in a row, and at most one in five minutes."""
        begins, self._remarkable = not self._remarkable, True
        now = time.monotonic()
        if begins and now - self._remarked >= _REMARK_AGAIN_SECONDS:
            self._remarked = now
            self._report_change(report)
