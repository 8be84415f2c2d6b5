"""An event loop in virtual time: callbacks take no time, and timers are those of the simulation's clock."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from syncpod.node.pod_threads import DiskWork, PodThreads
from tests.simulator.clock import Clock, Due
from tests.simulator.violation import Violation

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

OWNER: ContextVar[object] = ContextVar("owner", default=None)
"""The attempt of a step on whose behalf code runs, or None."""


class _Timer(asyncio.TimerHandle):
    """A timer of the simulation's clock."""

    __slots__ = ("due",)
    due: Due


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one worker: after the worker's death, nothing in it continues.

    An error that a callback raises, such as a Violation, ends the simulation.
    """

    def __init__(self, clock: Clock) -> None:
        self.alive = True
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._stalled: dict[object, float] = {}
        self._put_off: list[asyncio.Handle] = []
        """Callbacks of stalled attempts."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """All tasks, kept so that those of a dead worker are never garbage-collected."""
        self._error: BaseException | None = None
        self._thread = threading.get_ident()

    # --- for the simulation -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Make it the running loop for the block."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def die(self) -> None:
        """End the worker as SIGKILL does: everything stays in its current state."""
        self.alive = False

    def stall(self, owner: object, seconds: float) -> None:
        """Run nothing on behalf of an attempt for a while."""
        self._stalled[owner] = round(self._clock.now + seconds, 6)

    def discard(self) -> None:
        """End everything that is left, once the simulation is over."""
        self.alive, self._stalled = False, {}
        self._ready.extend(self._put_off)
        with self.running():
            for _ in range(100):
                for task in self._tasks:
                    task.cancel()
                while self._ready:
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
                if not self._tasks:
                    break

    def _wake(self) -> None:
        """Run what is ready, and what becomes ready meanwhile."""
        with self.running():
            while self._ready and self.alive:
                handle = self._ready.popleft()
                if handle.cancelled():
                    continue
                if self._stalled and self._puts_off(handle):
                    continue
                handle._run()
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error

    def _puts_off(self, handle: asyncio.Handle) -> bool:
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
        until = self._stalled.get(owner)
        if until is None or self._clock.now >= until:
            return False
        self._put_off.append(handle)
        self._clock.after(until - self._clock.now, self._go_on)
        return True

    def _go_on(self) -> None:
        waiting, self._put_off = self._put_off, []
        for handle in waiting:
            self._enqueue(handle)

    def _enqueue(self, handle: asyncio.Handle) -> None:
        if not self._ready and self.alive:
            self._clock.after(0.0, self._wake)
        self._ready.append(handle)

    # --- what asyncio asks of a loop ----------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time."""
        return self._clock.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call something at the present time, after everything that is ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Do the same. Raises AssertionError in another thread, whose timing no seed determines."""
        assert threading.get_ident() == self._thread, "a simulation has one thread"
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call something after this many seconds."""
        return self.call_at(self._clock.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call something at a time."""
        timer = _Timer(when, callback, args, self, context)
        timer.due = self._clock.after(when - self._clock.now, partial(self._enqueue, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, _Timer):
            handle.due.cancel()

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        """Begin a task."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        """Run it at once: disks take no time here."""
        return self.done_at_once(lambda: func(*args))

    def done_at_once(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run a function, and return a future with its result."""
        outcome: asyncio.Future[_T] = self.create_future()
        try:
            outcome.set_result(work())
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the future gets it
            outcome.set_exception(error)
        return outcome

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the error of a callback, which ends the simulation; ignore errors of other tasks."""
        if "handle" in context and self._error is None:
            self._error = context.get("exception")

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return whether the worker is alive."""
        return self.alive

    def is_closed(self) -> bool:
        """Return False."""
        return False


class Inline(PodThreads):
    """The threads of pods whose disks take no time."""

    async def run(self, uid: str, kind: DiskWork, work: Callable[[], _T]) -> _T:
        """Run the function at once."""
        return work()
