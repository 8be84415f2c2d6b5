"""One activity attempt of a step: how long it may wait, what it reports, and when it has to let go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from temporalio import activity

from activities.node.clock import monotonic
from activities.node.context import Node
from activities.node.fences import FenceClaim
from activities.node.first_steps import FirstAttempt
from activities.node.pod_queues import QueuePlace
from syncpod.messages import ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.messages.step_table import Stage
from syncpod.messages.steps import Fault, Rejection, StartContainer, StepEvent, StepInput
from syncpod.node.pod_threads import DiskSilent, DiskWork
from syncpod.node.runtime_answers import Made
from syncpod.pod import ResourceRequirements

T = TypeVar("T")

_PROMPT_SECONDS = 1.0
"""Seconds that work on a disk may take before the step lets other pods of its queue go first."""


class Interrupted(Exception):
    """The step was cancelled or superseded at a safe point: no call that it sent is cut off."""


class PodFault(Exception):
    """The pod is at fault, not the connection to the runtime: the workflow decides what follows.

    `fault` is the kubelet's reason, `message` the waiting message, and `events` are the kubelet's, in its order.
    `rejection` is the reason why a pod is not admitted, if that is the fault. `actuated` has the resources that a
    failed resize has given to containers.
    """

    def __init__(
        self,
        fault: Fault,
        message: str,
        *events: StepEvent,
        rejection: Rejection | None = None,
        actuated: Mapping[str, ResourceRequirements] | None = None,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message
        self.events = events
        self.rejection = rejection
        self.actuated = dict(actuated or {})


class NotYet(Exception):
    """A temporary obstacle: Temporal retries the step, and shows this error's text meanwhile."""


class Ahead(Protocol):
    """The work for a start ahead, before its turn (`activities.pipelining`)."""

    async def drop(self) -> None:
        """Remove the objects that the start has not taken. Raises CriError, OSError."""


class StepAttempt:
    """One activity attempt of a step, passed to the step's code together with its input.

    `number` is Temporal's. CRI's attempt numbers, of a sandbox (`CreateSandbox.attempt`) or a container, are different.

    A step's code is never cancelled from outside: it awaits each call that it sent to the runtime to its end. It lets
    go only in `checkpoint`, `interruptible` and `pause`, which raise Interrupted once the step has been cancelled (by
    the workflow, an operator, the worker's end) or superseded by a newer one. A step that has taken too long
    (`expired`) still passes checkpoints, but no longer waits for anything. Otherwise a kill whose listings are slow
    would never send its stops, however often it is tried.
    """

    def __init__(
        self,
        node: Node,
        request: StepInput,
        *,
        number: int,
        delay_seconds: float = 0.0,
        name: str = "",
    ) -> None:
        self.node = node
        self.ref: PodRef = request.ref
        self.name = name
        """The step's name; "" outside steps."""
        self.container: str = getattr(request, "container", "")
        """The container that the step starts, or for which it pulls an image; "" = none."""
        self.fence = request.fence
        self.follows = request.follows if isinstance(request, StartContainer) else 0
        """The fence of the step that this start follows, and for whose end it waits; 0 = none."""
        self.number = number
        """Temporal's number of the attempt, from 1."""
        self.doing = "waits for its turn"
        """The step's present action or wait, in one phrase."""
        self.events: list[StepEvent] = []
        self.starting: dict[str, float] = {}
        """Containers that another call is starting: by id, the monotonic time at which the step noticed."""
        self.superseded = False
        self.asked = False
        """Whether the step was asked to let go; False if it has only taken too long."""
        self.expired = False
        """Whether the step has taken too long."""
        self.unended: list[str] = []
        """Names of the containers that have yet to end."""
        self._delay_seconds = delay_seconds
        self._began = monotonic()
        self._interruption = asyncio.Event()
        self._place: QueuePlace | None = None
        self._stage: Stage | None = None
        self._hides = 2
        """How many more times the step may report to the agent that it acts again after a wait."""
        self.acts = asyncio.Event()
        """Cleared while the step waits for other pods, for the step that it follows, or for something to end."""
        if not self.follows:
            self.acts.set()
        self.first: FirstAttempt | None = None
        """This attempt as the start ahead sees it; None if no start can follow the step."""
        self.ahead: Ahead | None = None
        """The work for this start before its turn; None if there is none."""
        self.idle_seconds = 0.0
        """How long the step only waited for the step that it follows."""
        self._may_know = True

    def claim(self) -> FenceClaim:
        """Return the claim of this attempt to act in its pod. Call it within the activity."""
        return FenceClaim(self.fence, self.number, activity.info().scheduled_time, self.follows)

    @contextlib.contextmanager
    def on_life(self, ref: PodRef) -> Iterator[None]:
        """Act on the given life of the pod during a block. A request to let go still reaches the attempt."""
        own, self.ref = self.ref, ref
        try:
            yield
        finally:
            self.ref = own

    # --- letting go ---------------------------------------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """Whether the step has been asked to let go."""
        return self._interruption.is_set()

    def interrupt(self) -> None:
        """Ask the step to let go at its next safe point."""
        self.asked = True
        self._interruption.set()

    def expire(self) -> None:
        """Make the step stop waiting, because it has taken too long."""
        self.expired = True
        self._interruption.set()

    def supersede(self) -> None:
        """Ask the step to let go, because a newer step of the pod has arrived and its result is no longer wanted."""
        self.superseded = self.asked = True
        self._interruption.set()

    def checkpoint(self) -> None:
        """Raise Interrupted if the step was asked to let go. Call it before anything is made or ended."""
        if self.asked:
            raise Interrupted

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; when the step has to let go, cancel the work, wait until it is gone, and raise Interrupted.

        Work that ends before it is cancelled counts as done. No work is begun once the step was asked to let go: it
        might send something before it could be cancelled.
        """
        if self.asked:
            work.close()
            raise Interrupted
        task = asyncio.ensure_future(work)
        interruption = asyncio.ensure_future(self._interruption.wait())
        try:
            await asyncio.wait({task, interruption}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interruption.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise Interrupted
        return task.result()

    async def wait_for(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait until all tasks have ended, successfully or not. Letting go cancels none of them."""
        if tasks:
            await self.interruptible(_wait(tasks))

    async def pause(self, seconds: float, *, until: asyncio.Event | None = None) -> None:
        """Sleep for `seconds`, or until an event is set. Raises Interrupted when the step has to let go."""
        await self.interruptible(asyncio.sleep(seconds) if until is None else _happens(until, seconds))

    # --- the node's queues --------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def in_queue(self, stage: Stage | None) -> AsyncIterator[None]:
        """Wait for a place in the node's queue of this stage, and hold it during the block. Raises Interrupted."""
        if stage is None:
            yield
            return
        self._stage = stage
        self._place = QueuePlace(self.node.queues[stage], self.ref.uid, can_wait=stage is Stage.CLEARING)
        self.acts.clear()
        try:
            async with self._place.held(self):
                self.acts.set()
                self.node.agent.pleg.step_acts(self.ref.uid)
                yield
        finally:
            self.acts.set()

    @contextlib.asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Let other pods go first during a block that only waits for something to end. Raises Interrupted."""
        if self._place is None:
            yield
            return
        self.acts.clear()
        try:
            async with self._place.aside(self):
                yield
                self._goes_on()
        finally:
            self.acts.set()
        self._goes_on()

    def _goes_on(self) -> None:
        """Report to the agent that the step acts again, so that it delays signals about the pod.

        This is reported twice at most. Otherwise a step without progress would delay them for ever.
        """
        if self._hides:
            self._hides -= 1
            self.node.agent.pleg.step_acts(self.ref.uid)

    @property
    def is_queued(self) -> bool:
        """Whether the step waits in the queue for other pods."""
        return self._place is not None and self._place.ahead is not None

    @property
    def telling(self) -> str:
        """The step's present action or wait, in one phrase: the detail of its heartbeats, which operators see."""
        ahead = self._place.ahead if self._place is not None else None
        if ahead is None or self._stage is None:
            silence = self.node.threads.silence(self.ref.uid)
            return f"{self.doing}; {silence}" if silence else self.doing
        others = f"{ahead} other pods come" if ahead != 1 else "1 other pod comes"
        return f"waits for its turn to {self._stage.value}: {others} first"

    # --- disks --------------------------------------------------------------------------------------------------------

    async def on_disk(self, kind: DiskWork, work: Callable[[], T], *, patience_seconds: float | None = None) -> T:
        """Run `work`, which touches the pod's files, in a thread of this pod alone, and return its result.

        If the disk hangs, other pods go first, and the step lets go when it is asked to. The thread then goes on, and
        the next work of its kind waits for it. Raises Interrupted, the errors of `work`, and
        :class:`~syncpod.node.pod_threads.DiskSilent` after `patience_seconds` (None: never).
        """
        task = asyncio.ensure_future(self.node.threads.run(self.ref.uid, kind, work))
        try:
            await asyncio.wait({task}, timeout=_PROMPT_SECONDS)
            if task.done():
                return task.result()
            async with self.aside():
                return await self.interruptible(_within(patience_seconds, task))
        finally:
            task.cancel()

    # --- time ---------------------------------------------------------------------------------------------------------

    def restart_clock(self) -> None:
        """Count `waited_seconds` from now on, because the step has found only now that there is work to do."""
        self._began = monotonic()

    @property
    def waited_seconds(self) -> float:
        """Seconds since the step was scheduled: by the server's clock between attempts, by a monotonic one within.

        The time in the node's queue does not count, so no container loses grace by it.
        """
        in_queue = self._place.waited_seconds if self._place is not None else 0.0
        return self._delay_seconds + monotonic() - self._began - in_queue

    # --- the start ahead ----------------------------------------------------------------------------------------------

    def mark_waiting(self) -> None:
        """Note that the step only waits for the runtime, and will most likely succeed.

        The start ahead may now create its container, unless it looks into volumes that this step's container may still
        change.
        """
        if self.first is not None:
            self.first.mark_waiting()

    def mark_finishing(self) -> None:
        """Note that the step has succeeded and only has to read the pod.

        Any start ahead may now create its container.
        """
        if self.first is not None:
            self.first.mark_finishing()

    # --- reporting ----------------------------------------------------------------------------------------------------

    def emit(self, reason: str, message: str, container: str = "") -> None:
        """Add a normal event, in the kubelet's words, to the step's result or fault."""
        self.events.append(StepEvent(reason=reason, message=message, container=container))

    def emit_now(self, reason: str, message: str, container: str = "") -> None:
        """Add a normal event, and send it to the cluster now, since the step may take long.

        Only the first try sends it, since later tries repeat the same action.
        """
        self.emit(reason, message, container)
        if self.number == 1:
            self.node.agent.event_happens(self.ref, self.events[-1])

    async def look(self, suffices: Callable[[ObservedPod], bool]) -> ObservedPod:
        """Return a listing of the pod, before the step creates or removes something.

        If the listing that the previous step has just returned suffices, it is used, and the pod is not read again. For
        example, a listing suffices if it lacks the object to be made: only steps make anything for the pod, so this
        cannot have changed. Exits since then may be missing. Raises CriError.
        """
        known = self.known(suffices)
        return known if known is not None else await self.read()

    def known(self, suffices: Callable[[ObservedPod], bool]) -> ObservedPod | None:
        """Return the listing that the previous step has just returned; None if it does not suffice (see `look`)."""
        known = self.node.views.before(self.ref, self.fence, self.number) if self._may_know else None
        self._may_know = False
        return known if known is not None and suffices(known) else None

    async def read(self, made: Made | None = None) -> ObservedPod:
        """Read all of the pod's objects that carry our label from the runtime. Raises CriError.

        `made` names an object that was just made: its status is requested at the same time as the lists.
        """
        return await self.node.reader.read(self.ref.uid, made=made)


def warning(reason: str, message: str, container: str = "") -> StepEvent:
    """Return a warning event, in the kubelet's words."""
    return StepEvent(type="Warning", reason=reason, message=message, container=container)


def delay_between(scheduled: datetime, started: datetime) -> float:
    """Return the seconds from a step's first scheduling to the start of its current attempt.

    Time without a worker counts. Both times are the server's, so no two clocks are compared.
    """
    return max(0.0, (started - scheduled).total_seconds())


async def _within(seconds: float | None, task: asyncio.Task[T]) -> T:
    """Await a task. Raises its errors, and DiskSilent after `seconds` (None: never)."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        raise DiskSilent("a disk does not answer")
    return task.result()


async def _happens(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, for `seconds` at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _wait(tasks: set[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


class Polls:
    """Growing pauses between polls: from 20 ms, doubling to 500 ms."""

    def __init__(self, attempt: StepAttempt) -> None:
        self._attempt = attempt
        self._seconds = 0.02

    async def pause(self) -> None:
        """Wait before the next look. Raises Interrupted."""
        await self._attempt.pause(self._seconds)
        self._seconds = min(2 * self._seconds, 0.5)
