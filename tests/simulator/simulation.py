"""One simulation: a pod's workflow, a node and a runtime under one virtual clock, with injected events."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.clock import Clock
from tests.simulator.cri import Ill
from tests.simulator.faults import EVENTS, Case, Event
from tests.simulator.invariants import Invariants
from tests.simulator.node import Node
from tests.simulator.pods import IMAGES, settled_life
from tests.simulator.runtime import Life, Runtime
from tests.simulator.server import Server
from tests.simulator.violation import Violation

SETTLING = 4_000.0
"""The seconds after the last fault within which a pod must be settled: the longest hang and the back-offs after it."""


@dataclass
class Verdict:
    """The result of a simulation."""

    violation: str = ""
    """The broken invariant; "" if all hold."""
    trail: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    """The number of effective events of each kind."""
    tasks: int = 0
    replays: int = 0
    runs: int = 0
    longest: int = 0
    seconds: float = 0.0
    """The virtual seconds that the pod lived."""


OPEN: set[Simulation] = set()
"""The simulations that are not closed yet."""


class Simulation:
    """One simulation, ready to be run once. Close it, unless it is run to its end."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.clock = Clock()
        self.manifest = copy.deepcopy(case.manifest)
        self.invariants = Invariants(self.clock, self.manifest)
        self.runtime = Runtime(self.clock, self, self._life)
        self.runtime.images = set() if case.absent else set(IMAGES[:1])
        self.node = Node(self.clock, self.runtime)
        self.server = Server(
            self.clock,
            start_try=self.node.start_try,
            cancel_try=self.node.cancel_try,
            arm_backoff=self.node.arm,
            scheduled=self.invariants.scheduled,
            decided=self.invariants.decided,
            left=self.node.leave,
        )
        self.node.server = self.invariants.server = self.server
        self.invariants.runtime = self.runtime
        self.node.suffered = self._suffered
        self.injected: Counter[str] = Counter()
        OPEN.add(self)
        self._after_exits: dict[str, list[tuple[float, Callable[[], None]]]] = {}
        """Events with their delays in seconds after the next exit of a container."""

    def run(self) -> Verdict:
        """Run it to its end, and return its verdict."""
        violation = ""
        try:
            self._run()
        except Violation as found:
            violation = str(found)
        finally:
            self.close()
        return Verdict(
            violation,
            self.invariants.trail,
            self.injected,
            self.server.tasks,
            self.server.replays,
            self.server.runs,
            self.server.longest,
            self.clock.now,
        )

    def close(self) -> None:
        """End all tasks of its workers, and remove their files."""
        OPEN.discard(self)
        self.node.close()

    def begin(self) -> None:
        """Start the pod, and schedule the events."""
        self.server.start({"pod": self.manifest, "maxEvents": self.case.max_events})
        for event in self.case.events:
            self.clock.after(event.at, lambda event=event: self._befall(event))  # type: ignore[misc]

    def _run(self) -> None:
        self.begin()
        self.clock.run(self.case.horizon)
        self.node.ills.clear()
        self.node.signals.clear()
        self.node.expirations.clear()
        self._after_exits.clear()
        self.node.cri.failing_hooks = 0
        self.node.cri.hanging_hooks.clear()
        if not self.clock.run(self.case.horizon + SETTLING):
            raise Violation("the pod does not come to rest")
        if self.server.run is not None:
            self.invariants.check_settled()
            if not self.server.replays and self.server.tasks % 2:
                self.server.evict()  # so that half of those are replayed whose worker never died
            self.delete(1)
            if not self.clock.run(self.clock.now + SETTLING):
                raise Violation("the deleted pod does not come to rest")
        self.invariants.check_gone()

    def _life(self, name: str, instance: int) -> Life:
        lives = self.case.lives.get(name)
        if self.clock.now >= self.case.horizon or not lives:
            return settled_life(self.manifest, name)
        return lives[min(instance, len(lives) - 1)]

    # --- what befalls -------------------------------------------------------------------------------------------------

    def _befall(self, event: Event) -> None:
        self.invariants.note(f"-- {event.what} {event.name}".rstrip())
        self.injected[event.what] += 1
        EVENTS[event.what].does(self, event)

    def _suffered(self, ill: Ill) -> None:
        self.invariants.note(f"-- this one {ill.kind} {ill.seconds or ''}".rstrip())

    def after_exit(self, name: str, seconds: float, act: Callable[[], None]) -> None:
        """Call something this long after the next exit of a container, or from now on if it has already ended."""
        instances = [c for c in self.runtime.containers.values() if c.name == name]
        if instances and all(c.state == "exited" for c in instances):
            self.clock.after(seconds, act)
        else:
            self._after_exits.setdefault(name, []).append((seconds, act))

    def set_clocks(self, *, ahead: float | None = None, skew: float | None = None) -> None:
        """Set the node's clock, or its runtime's dates, ahead by this many seconds."""
        runtime = self.runtime
        runtime.ahead = runtime.ahead if ahead is None else ahead
        runtime.skew = runtime.skew if skew is None else skew
        self.invariants.clocks_set(runtime.ahead, runtime.skew)

    def apply(self, document: dict[str, Any]) -> None:
        """Apply a document to the pod. Does nothing if the pod is gone."""
        deleted = self.server.run is None
        if deleted:
            return

        def answered(refusal: str) -> None:
            if not refusal:
                self.manifest.clear()
                self.manifest.update(document)

        self.server.update("apply", document, answered)

    def delete(self, grace: int, *, by_signal: bool = False) -> None:
        """Delete the pod."""
        payload = {"gracePeriodSeconds": grace}
        if by_signal:
            self.server.signal("delete_pod", payload)
            self.invariants.dooms()
        else:
            self.server.update("delete", payload, lambda refusal: None if refusal else self.invariants.dooms())
        self.invariants.ends_by(max(1, grace), begins=False)

    def cancel(self) -> None:
        """Cancel the workflow, which means to delete the pod."""
        if self.server.cancel():
            self.invariants.dooms()
            self.invariants.ends_by(self.manifest["spec"].get("terminationGracePeriodSeconds", 30), begins=False)

    def evict(self, grace: int) -> None:
        """Let the node evict the pod."""
        if self.server.run is not None and self.server.run.tasks:
            order = {"uid": self.server.state.ref.uid, "message": "no room", "gracePeriodSeconds": grace}
            self.server.signal("evict", order)
            self.invariants.ends_by(grace, begins=True)

    def operate(self, signal: str, name: str) -> None:
        """Restart a container, or end its back-off, as an operator does."""
        self.invariants.released[name] = self.clock.now
        self.server.signal(signal, {"container": name})

    # --- what the runtime tells ---------------------------------------------------------------------------------------

    def sandbox_made(self, sandbox: Any) -> None:
        """Pass the event to the invariants."""
        self.invariants.sandbox_made(sandbox)

    def started(self, container: Any) -> None:
        """Pass the event to the invariants."""
        self.invariants.started(container)

    def exited(self, container: Any) -> None:
        """Pass the event to the invariants."""
        self.invariants.exited(container)
        for seconds, act in self._after_exits.pop(container.name, ()):
            self.clock.after(seconds, act)

    def killed(self, container: Any, *, by: str) -> None:
        """Pass the event to the invariants."""
        self.invariants.killed(container, by=by)

    def changed(self) -> None:
        """Let the agent make a listing."""
        self.node.changed()


def simulate(case: Case) -> Verdict:
    """Run one simulation."""
    return Simulation(case).run()
