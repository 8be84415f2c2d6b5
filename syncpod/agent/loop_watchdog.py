"""Reports a stalled event loop: a thread notices that the loop has not run for some seconds, and logs its stack.

While the loop is stalled, the worker starts and ends nothing, answers no request, and looks dead from outside. A busy
machine has much the same effect, so two times do not count: the time that the loop's thread waited for a CPU, and the
time by which the watching thread itself woke late.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Final, Literal, Self

from syncpod.node.loop_stalls import LoopStall, forget_loop_stall, write_loop_stall

log = logging.getLogger(__name__)

BEAT_SECONDS: Final = 1.0
"""Seconds between two beats of the loop, and between two checks of the thread."""
STALLED_SECONDS: Final = 10.0
"""Seconds for which the loop could have run, but did not, before it counts as stalled."""
_FRAMES: Final = 12
"""How many frames of the stack are reported: the innermost ones."""


@dataclass(frozen=True)
class ThreadTimes:
    """The kernel's accounting of a thread, in seconds since it began."""

    ran: float = 0.0
    """Time on a CPU."""
    queued: float = 0.0
    """Time in which the thread was ready to run, but had no CPU."""


def held_up_seconds(silent: float, queued: float, late: float) -> float:
    """Return for how many seconds the loop has been stalled, without the time for which the machine was too busy.

    `silent` is the time since the loop's next beat was due, `queued` how long the loop's thread waited for a CPU in
    that time, and `late` how much later than planned the watching thread itself woke up. Pure.
    """
    return max(0.0, silent - max(queued, late))


def doing(held_up: float, ran: float) -> Literal["computes", "waits"]:
    """Say whether a stalled loop's thread computes or waits; `ran` is how many seconds of CPU it has used. Pure."""
    return "computes" if ran > held_up / 2 else "waits"


class LoopWatchdog(AbstractContextManager["LoopWatchdog"]):
    """Watches the running event loop from a thread of its own, between `__enter__` and `__exit__`."""

    def __init__(self, state_dir: Path, *, beat: float = BEAT_SECONDS, stalled: float = STALLED_SECONDS) -> None:
        """Report into the node's state directory."""
        self._state_dir = state_dir
        self._beat_seconds, self._stalled_seconds = beat, stalled
        self._over = threading.Event()
        self._beaten = time.monotonic()
        """Monotonic time of the loop's last beat; written by the loop, read by the thread."""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread_id, self._native_id = threading.get_ident(), threading.get_native_id()
        try:
            forget_loop_stall(self._state_dir)
        except OSError as error:
            log.debug("an earlier report of a stall stays: %s", error)
        self._beat()
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        self._timer = self._loop.call_later(self._beat_seconds, self._beat)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        beaten, since, late = self._beaten, _times(self._native_id), 0.0
        reported: LoopStall | None = None
        looked = time.monotonic()
        while not self._over.wait(self._beat_seconds):
            now = time.monotonic()
            late += max(0.0, now - looked - self._beat_seconds)
            looked = now
            if self._beaten != beaten:
                if reported is not None:
                    self._report_end(reported, self._beaten - beaten)
                beaten, since, late, reported = self._beaten, _times(self._native_id), 0.0, None
                continue
            times, silent = _times(self._native_id), now - beaten - self._beat_seconds
            held_up = held_up_seconds(silent, times.queued - since.queued, late)
            if held_up >= self._stalled_seconds and (reported is None or held_up >= 2 * reported.seconds):
                reported = self._report(held_up, times.ran - since.ran)

    def _report(self, held_up: float, ran: float) -> LoopStall:
        """Report the stall and the stack, in the log and on disk."""
        stall = LoopStall(
            since=datetime.now(UTC) - timedelta(seconds=held_up),
            seconds=round(held_up, 1),
            doing=doing(held_up, ran),
            stack=_stack(sys._current_frames().get(self._thread_id)),
        )
        log.error(
            "the event loop has stood still for %.0f s: it %s at %s; until it runs again, no pod starts or ends here",
            stall.seconds,
            stall.doing,
            " > ".join(stall.stack) or "an unknown place",
        )
        self._write(stall)
        return stall

    def _report_end(self, reported: LoopStall, seconds: float) -> None:
        log.warning("the event loop runs again after %.0f s", seconds)
        self._write(reported.model_copy(update={"seconds": round(seconds, 1), "over": True}))

    def _write(self, stall: LoopStall) -> None:
        try:
            write_loop_stall(self._state_dir, stall)
        except OSError as error:
            log.warning("the stall of the event loop cannot be noted: %s", error)


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    """Return the innermost frames of a thread's stack, outermost first."""
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        code = frame.f_code
        places.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(reversed(places))


def _times(native_id: int) -> ThreadTimes:
    """Return a thread's times; zeros if the kernel does not count them."""
    try:
        text = Path(f"/proc/self/task/{native_id}/schedstat").read_text()
        ran, queued, *_ = (int(field) / 1e9 for field in text.split())
    except (OSError, ValueError):
        return ThreadTimes()
    return ThreadTimes(ran, queued)
