"""One try of a step under virtual time: a generator that asks for calls and pauses, and can be asked to let go.

It models `activities.step_attempt`: a call that was sent is never cut off, and ends as the runtime ends it, even if its
sender is dead. The step lets go only where it pauses, or at a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.clock import Clock, Due
from tests.simulator.runtime import Container, CriError
from tests.simulator.server import Activity


def in_order(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of a pod's containers in the order in which its start takes them."""
    spec = pod["spec"]
    return [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]


class Interrupted(Exception):
    """The step lets go."""


class PodFault(Exception):
    """The pod is at fault: its type and message come back to the workflow."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class Call:
    """A call to the runtime: `begin` checks, and returns how long it takes and its effect."""

    begin: Callable[[], tuple[float, Callable[[], Any]]]
    makes: bool = False
    """It makes something: what faults of calls are about."""


@dataclass(frozen=True)
class Pause:
    """A wait that ends early when the step is to let go."""

    seconds: float


Body = Generator[Call | Pause, Any, dict[str, Any]]
"""A step's code; returns the StepResult on the wire, without the pod's status unless it has just read it."""


@dataclass
class Ahead:
    """A container that is created before its start's turn: the model of `activities.ahead`."""

    busy: bool = True
    made: Container | None = None
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """What goes on once the call has ended."""


@dataclass
class Ill:
    """What goes wrong with a try."""

    kind: str
    seconds: float = 0.0
    used: bool = False


class Attempt:
    """One try."""

    def __init__(self, clock: Clock, activity: Activity, ended: Callable[[Attempt, Any], None]) -> None:
        """`ended` gets what the body returned, or the exception it ended with."""
        self.clock, self.activity, self.number = clock, activity, activity.attempt
        self.request = activity.argument
        self.body: Body | None = None
        self.ill: Ill | None = None
        self.alive = True
        """Whether its worker lives."""
        self.interrupted = self.asked = self.superseded = self.expired = False
        self.unended: list[str] = []
        self.ahead: Ahead | None = None
        """What was created for it before its turn."""
        self.clears = False
        """It only clears away what an earlier try has created."""
        self._ended = ended
        self._pause: Due | None = None
        self._stalled_until = 0.0

    @property
    def fence(self) -> int:
        """The fence it carries."""
        return int(self.request.get("fence", 0))

    @property
    def followed(self) -> bool:
        """Whether a start may follow it: the first one in its sandbox, or that of the next container."""
        if "followed" in self.request:
            return bool(self.request["followed"])
        return self.activity.name in ("start_container", "start_init_container") and self.following != ""

    @property
    def following(self) -> str:
        """The container that comes after its own in the pod's start; "" if there is none."""
        names = in_order(self.request["pod"])
        name = self.request.get("container")
        return names[names.index(name) + 1] if name in names[:-1] else ""

    @property
    def follows(self) -> int:
        """The fence of the step for which it waits; 0 = none."""
        return int(self.request.get("follows", 0))

    @property
    def waited(self) -> float:
        """Seconds since the step was scheduled."""
        return self.clock.now - self.activity.scheduled

    def begin(self, body: Body) -> None:
        """Run the body."""
        self.body = body
        self._go(None)

    def interrupt(self, *, superseded: bool = False, expired: bool = False) -> None:
        """Ask the step to let go."""
        self.superseded, self.expired = self.superseded or superseded, self.expired or expired
        self.asked = self.asked or not expired
        if self.interrupted:
            return
        self.interrupted = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self.clock.after(0.0, lambda: self._go(Interrupted()))

    def stall(self, seconds: float) -> None:
        """Have it do nothing for a while, not even heartbeat."""
        self._stalled_until = round(self.clock.now + seconds, 6)

    def checkpoint(self) -> None:
        """Raise Interrupted if it is to let go."""
        if self.interrupted:
            raise Interrupted

    def _go(self, value: Any) -> None:
        if not self.alive or self.body is None:
            return
        if self.clock.now < self._stalled_until:
            self.clock.after(self._stalled_until - self.clock.now, lambda: self._go(value))
            return
        try:
            asked = self.body.throw(value) if isinstance(value, Exception) else self.body.send(value)
        except StopIteration as end:
            self._finish(end.value)
        except (Interrupted, PodFault, CriError) as error:
            self._finish(error)
        else:
            if isinstance(asked, Pause):
                self._wait(asked.seconds)
            else:
                self._call(asked)

    def _finish(self, outcome: Any) -> None:
        self.body = None
        self._ended(self, outcome)

    def _wait(self, seconds: float) -> None:
        if self.interrupted:
            self.clock.after(0.0, lambda: self._go(Interrupted()))
            return

        def over() -> None:
            self._pause = None
            self._go(None)

        self._pause = self.clock.after(seconds, over)

    def _call(self, call: Call) -> None:
        ill = self.ill if self.ill is not None and not self.ill.used and call.makes else None
        if ill is not None and ill.kind in ("fails", "lies", "hangs"):
            ill.used = True
        if ill is not None and ill.kind == "fails":
            self.clock.after(0.01, lambda: self._go(CriError("the runtime will not")))
            return
        try:
            seconds, effect = call.begin()
        except CriError as error:
            wrong = error
            self.clock.after(0.002, lambda: self._go(wrong))
            return
        if ill is not None and ill.kind == "hangs":
            seconds += ill.seconds

        def over() -> None:
            try:
                value = effect()
            except CriError as error:
                self._go(error)
                return
            lies = ill is not None and ill.kind == "lies"
            self._go(CriError("it failed, says the runtime") if lies else value)

        self.clock.after(seconds, over)
