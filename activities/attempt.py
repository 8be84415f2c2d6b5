"""One try of one step: how long it may wait, what it has to say, and when it has to let go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

from activities.node.context import Node
from syncpod.messages import Fault, ObservedPod, PodRef, Rejection, StepEvent, StepInput
from syncpod.pod import ResourceRequirements

T = TypeVar("T")


class Interrupted(Exception):
    """The step was cancelled or superseded at a place where that is safe: nothing it sent is cut off."""


class PodFault(Exception):
    """The pod, not the way to the runtime, is at fault: the workflow decides what follows.

    `fault` is the kubelet's reason, `message` what becomes the waiting message, `events` what the kubelet says of it,
    in its order. `rejection` says why a pod is not let in, where that is the fault; `actuated` what containers have
    been given by a resize that has failed.
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
    """Something that will pass stands in the way: Temporal tries again, and shows the text meanwhile."""


class Attempt:
    """What a step's code is given beside its input.

    A step's code is never cancelled from outside: a call that was sent to the runtime is awaited to its end. It lets go
    only where it says so, by `checkpoint`, `interruptible` or `pause`, which raise Interrupted once the step has been
    cancelled (by the workflow, an operator, the worker's end) or superseded by a newer one. One whose own time is over
    begins what it was about to begin all the same, and only waits for nothing: else a kill whose listings are slow
    would never come to its stops, however often it is tried.
    """

    def __init__(self, node: Node, request: StepInput, *, number: int, delay_seconds: float = 0.0) -> None:
        self.node = node
        self.ref: PodRef = request.ref
        self.fence = request.fence
        self.number = number
        """Temporal's count of tries, from 1."""
        self.doing = "waits for its turn"
        """One phrase of what it does or waits for: the heartbeat's detail, seen by operators on a pending activity."""
        self.events: list[StepEvent] = []
        self.starting: dict[str, float] = {}
        """Containers that others were found to be starting: by id, the monotonic time at which that was found."""
        self.superseded = False
        self.asked = False
        """Somebody wants the step to let go; not so where its own time is over."""
        self.expired = False
        """What it does has taken too long."""
        self.unended: list[str] = []
        """Containers, by name, that it waits for the end of."""
        self._delay_seconds = delay_seconds
        self._began = time.monotonic()
        self._interruption = asyncio.Event()
        self._known = node.views.before(request.ref, request.fence, number)

    # --- letting go ---------------------------------------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """Whether the step has been asked to let go."""
        return self._interruption.is_set()

    def interrupt(self) -> None:
        """Ask the step to let go where that is safe."""
        self.asked = True
        self._interruption.set()

    def expire(self) -> None:
        """Have the step let go since it has taken too long."""
        self.expired = True
        self._interruption.set()

    def supersede(self) -> None:
        """Ask the step to let go since a newer one of the same pod has come: nobody wants its result any more."""
        self.superseded = self.asked = True
        self._interruption.set()

    def checkpoint(self) -> None:
        """Raise Interrupted if somebody wants the step to let go; stands before what makes or ends anything."""
        if self.asked:
            raise Interrupted

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; when the step has to let go, cancel it, wait until it is gone, and raise Interrupted.

        Work that ends all the same counts as done. None is begun that nobody wants any more: it might send something
        before it could be cancelled.
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
        """Wait until all tasks have ended, well or badly; none is cancelled when the step has to let go."""
        if tasks:
            await self.interruptible(_wait(tasks))

    async def pause(self, seconds: float) -> None:
        """Sleep, unless the step has to let go."""
        await self.interruptible(asyncio.sleep(seconds))

    # --- time ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Have its time count from now on: what came before was to find out whether anything is to be done at all."""
        self._began = time.monotonic()

    @property
    def waited_seconds(self) -> float:
        """Seconds since the step was scheduled: between tries by the server's clock, within one by a monotonic one."""
        return self._delay_seconds + time.monotonic() - self._began

    # --- saying -------------------------------------------------------------------------------------------------------

    def say(self, reason: str, message: str, container: str = "") -> None:
        """Add a normal event of the kubelet's vocabulary to what the step gives back, be it a result or a fault."""
        self.events.append(StepEvent(reason=reason, message=message, container=container))

    async def look(self, lacks: Callable[[ObservedPod], bool]) -> ObservedPod:
        """Return what there is of the pod, before something is made.

        It is read, unless the listing that the step before has just returned lacks what is to be made: nobody else
        makes anything for the pod, so it still does. What has exited since may not show. Raises CriError.
        """
        known, self._known = self._known, None
        return known if known is not None and lacks(known) else await self.read()

    async def read(self) -> ObservedPod:
        """Read the pod whole from the runtime, ours alone. Raises CriError."""
        return await self.node.reader.read(self.ref.uid)


def warning(reason: str, message: str, container: str = "") -> StepEvent:
    """Return a warning event of the kubelet's vocabulary."""
    return StepEvent(type="Warning", reason=reason, message=message, container=container)


def delay_between(scheduled: datetime, started: datetime) -> float:
    """Seconds from a step's first scheduling to the start of the current try, what no worker was there for included.

    Both are the server's, so no clocks differ.
    """
    return max(0.0, (started - scheduled).total_seconds())


async def _wait(tasks: set[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


class Polls:
    """Growing pauses between looks at something that somebody else will change: 20 ms doubling to 500 ms."""

    def __init__(self, attempt: Attempt, *, first: float = 0.02, longest: float = 0.5) -> None:
        self._attempt = attempt
        self._seconds = first
        self._longest = longest

    async def pause(self) -> None:
        """Wait before the next look. Raises Interrupted."""
        await self._attempt.pause(self._seconds)
        self._seconds = min(2 * self._seconds, self._longest)
