"""One probe of one container instance: when it is asked, and what its answers amount to.

Mirrors prober/worker.go, v1.36: questions keep to a grid of periods from the first; one that takes longer than a period
is followed by the next at once, and what it missed meanwhile is left out (as time.Ticker does).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from syncpod.agent.probing.schedule import Schedule
from syncpod.handlers.answer import Answer, NoAddress, NoAnswer
from syncpod.lifecycle.probing import (
    ProbeResult,
    ProbeState,
    answered,
    period_seconds,
    says_something,
    waits_for_start,
)
from syncpod.pod import Probe

log = logging.getLogger(__name__)

_ENDING_SECONDS: Final = 1.0
"""How long a container that could not be asked is given to be seen to have ended, before that is told."""
_REMARK_AGAIN_SECONDS: Final = 300.0
"""How soon a remark that changes no result may be made again: an event a minute says no more than one."""

Ask = Callable[[Probe], Awaitable[Answer]]
"""Asks once. Raises NoAnswer where that cannot be done."""
Tell = Callable[[ProbeState, ProbeResult, Answer], None]
"""Takes what the pod is to hear: the state, its result or `unknown` (it could not be asked), and the answer."""


class ProbeWorker:
    """Asks one instance one probe, until it is on hold or ended."""

    def __init__(
        self, name: str, state: ProbeState, probe: Probe, schedule: Schedule, ask: Ask, tell: Tell, *, started: bool
    ) -> None:
        """Begin with `state`; `started` says whether the container has started. Nothing is asked before `begin`.

        `name` is for logs and tasks.
        """
        self.state = state
        self._name = name
        self._probe = probe
        self._schedule = schedule
        self._ask = ask
        self._tell = tell
        self._started = started
        self._due: float | None = None
        """When it is to be asked next, in the loop's time; None while it is being asked."""
        self._task: asyncio.Task[None] | None = None
        self._over = state.on_hold
        self._remarked = -_REMARK_AGAIN_SECONDS
        self._remarkable = False
        """The last question ended in what no result tells: a warning, or that it could not be asked."""

    def begin(self, delay: float) -> None:
        """Ask first after so many seconds, and not before the container has started where the probe waits for that."""
        self._plan(asyncio.get_running_loop().time() + delay)

    def container_started(self) -> None:
        """Hear that the container has started: what waited for that goes on at once."""
        self._started = True
        if self._due is not None:
            self._plan(max(self._due, asyncio.get_running_loop().time()))

    def end(self) -> None:
        """Ask no more; an answer that is still to come counts for nothing."""
        self._over = True
        if self._task is not None:
            self._task.cancel()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The question under way."""
        return self._task

    def _plan(self, due: float) -> None:
        self._due = due
        if not self._over and not waits_for_start(self.state.type, started=self._started):
            self._schedule.at(due, lambda: self._fire(due))

    def _fire(self, due: float) -> None:
        if self._over or self._due != due:
            return  # it was planned anew, or is over
        self._due = None
        self._task = asyncio.create_task(self._question(due), name=self._name)

    async def _question(self, due: float) -> None:
        try:
            await self._ask_once()
        except Exception:  # whatever it is, a container is not to be left unasked for good
            log.exception("%s", self._name)
        self._task = None
        if self.state.on_hold:
            self._over = True
        period, now = period_seconds(self._probe), asyncio.get_running_loop().time()
        self._plan(due + period * max(1, int((now - due) / period)))

    async def _ask_once(self) -> None:
        try:
            answer = await self._ask(self._probe)
        except NoAddress:
            return
        except NoAnswer as error:
            await asyncio.sleep(_ENDING_SECONDS)
            self._remark("unknown", Answer("failure", str(error)))
            return
        before = self.state
        self.state = answered(before, self._probe, "failure" if answer.result == "failure" else "success")
        if says_something(before, self.state):
            self._tell(self.state, self.state.result, answer)
        elif answer.result == "warning":
            self._remark(self.state.result, answer)
            return
        self._remarkable = answer.result == "warning"

    def _remark(self, result: ProbeResult, answer: Answer) -> None:
        """Tell what changes no result, when it begins, and not again and again where it comes and goes."""
        begins, self._remarkable = not self._remarkable, True
        now = time.monotonic()
        if begins and now - self._remarked >= _REMARK_AGAIN_SECONDS:
            self._remarked = now
            self._tell(self.state, result, answer)
