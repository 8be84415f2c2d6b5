"""The invariants at every step of a simulation, and at its end.

They are checked against the events in the scripted runtime and records of their own, never by the engine's own
functions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulator.clock import Clock
from tests.simulator.recorded import TERMINAL, Recorded
from tests.simulator.runtime import Container, Runtime, Sandbox
from tests.simulator.server import Activity, Server
from tests.simulator.violation import Violation
from workflows.pod import start
from workflows.pod.absorb import QUEUE_TOLERANCE
from workflows.pod.state import PodState

STARTS = ("create_sandbox", "pull_image", "start_container", "start_init_container", "start_ephemeral_container")
TOLERANCE = 0.01
"""Seconds by which times may differ because of rounding."""
EARLY = QUEUE_TOLERANCE.total_seconds() + TOLERANCE
"""Seconds by which a back-off may end early, since the queue's signal counts whenever it arrives."""
PROBE_GRACE = 3.0
"""The grace period in drawn pods of a container whose liveness probe has failed."""
RESTARTS_ALL = 42
"""The exit code for which the rules of drawn pods restart all containers."""
REMEMBERED = 200
"""The number of kept instances, which is more than any drawn pod has."""
ROUND_TRIP_EVERY = 16
"""The number of workflow tasks between two round-trip checks of the snapshot."""


@dataclass(frozen=True)
class Policy:
    """A pod's restart back-off in seconds; by default the kubelet's."""

    initial: float = 10.0
    factor: float = 2.0
    longest: float = 300.0
    reset_after: float = 600.0
    limit: int = 1_000_000

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Policy:
        """Return the policy in a pod's annotations."""
        said = manifest["metadata"].get("annotations", {})

        def seconds(name: str, default: float) -> float:
            return float(said.get(f"syncpod.dev/{name}", str(default)).removesuffix("s"))

        return cls(
            seconds("backoff-initial", cls.initial),
            seconds("backoff-factor", cls.factor),
            seconds("backoff-max", cls.longest),
            seconds("backoff-reset-after", cls.reset_after),
            int(said.get("syncpod.dev/restart-limit", cls.limit)),
        )

    def next_delay(self, delay: float) -> float:
        """Return the next delay."""
        return min(self.factor * delay, self.longest) or self.initial


class Invariants:
    """Watches one simulation; each method raises Violation."""

    def __init__(self, clock: Clock, manifest: dict[str, Any]) -> None:
        """Take the desired pod's manifest, which the simulation changes with the pod."""
        self.clock = clock
        self.server: Server
        self.runtime: Runtime
        self.trail: list[str] = []
        """The log of events, for people."""
        self.manifest = manifest
        self._clocks = [(0.0, 0.0, 0.0)]
        """Changes of clocks: since when the node's clock and its runtime's dates are ahead, and by how many seconds."""
        self.recorded = Recorded(manifest)
        self.released: dict[str, float] = {}
        """The times at which an operator requested starts of containers."""
        self.blind: set[str] = set()
        """Containers with a removed instance that the workflow may not know."""
        self.unseen: set[str] = set()
        """Containers that the workflow may know without the time of their end."""
        self.doomed: set[str] = set()
        """The lives of the pod whose end was requested."""
        self._ever: deque[Container] = deque(maxlen=REMEMBERED)
        """The instances that ran, oldest first."""
        self._backoffs: dict[tuple[str, ...], tuple[float, float]] = {}
        """By container, image and resources: the delay of the next restart, and the time of the last start."""
        self._rows: dict[tuple[str, ...], int] = {}
        """The number of successive restarts of a container."""
        self._cleared: dict[str, tuple[float, tuple[str, ...]]] = {}
        """The time at which a start of a container was first scheduled after its last exit, and its key."""
        self._counts: dict[tuple[str, str], int] = {}
        self._asked: dict[str, float] = {}
        """The time at which the newest start of a container was scheduled."""
        self._fence: tuple[str, int] = ("", 0)
        self._kill_by: float | None = None
        self._tasks = 0
        self._rounds: dict[tuple[str, str], tuple[float, float]] = {}
        """For restarts of all containers, by the pod's life: the next delay, and the time of the last one."""
        self._round_exit: float | None = None
        """The time of the exit that caused the current restart of all containers."""

    # --- what the runtime does ----------------------------------------------------------------------------------------

    def sandbox_made(self, sandbox: Sandbox) -> None:
        """Check that a pod never has two live sandboxes."""
        self.note(f"sandbox {sandbox.attempt} is ready")
        ready = [each for each in self.runtime.sandboxes.values() if each.ready]
        if len(ready) > 1:
            raise Violation(f"two live sandboxes: attempts {sorted(each.attempt for each in ready)}")

    def started(self, container: Container) -> None:
        """Check a start against everything before it."""
        self.note(f"{container.name}, restart {container.restart}, runs")
        alive = [c for c in self.runtime.containers.values() if c.name == container.name and c.state == "running"]
        if len(alive) > 1:
            raise Violation(f"two live containers {container.name}: restarts {sorted(c.restart for c in alive)}")
        self._check_number(container)
        self._check_init_order(container)
        self._check_again(container)
        self._check_backoff(container)
        self._check_round(container)
        self._ever.append(container)
        if self.released.get(container.name, self.clock.now) < self._asked[container.name]:
            del self.released[container.name]  # it was scheduled after the request
        self.blind.discard(container.name)
        self.unseen.discard(container.name)

    def exited(self, container: Container) -> None:
        """Record an exit; a start that was scheduled before it is not the restart."""
        self._cleared.pop(container.name, None)
        self.note(f"{container.name}, restart {container.restart}, exits {container.code}")

    def killed(self, container: Container, *, by: str) -> None:
        """Check that no container is killed too early, or without a stop."""
        self.note(f"{container.name}, restart {container.restart}, gets SIGKILL from {by}")
        if by in ("removal", "StopPodSandbox"):
            raise Violation(f"{container.name} runs, and is killed without grace by {by}")
        if by == "kill_pod" and self._kill_by is not None and self.clock.now < self._kill_by - TOLERANCE:
            early = self._kill_by - self.clock.now
            raise Violation(f"{container.name} gets SIGKILL {early:.2f} s before the pod's grace is over")

    def changed(self) -> None:
        """Do nothing: there is no check of listings."""

    def _check_number(self, container: Container) -> None:
        before = [c.restart for c in self._of(container) if c.name == container.name]
        if before and container.restart <= max(before) and container.name not in self.blind:
            raise Violation(f"{container.name} runs as restart {container.restart} after restart {max(before)}")

    def _check_init_order(self, container: Container) -> None:
        if container.kind == "ephemeral_container":
            if any(c.name == container.name for c in self._of(container)) and container.name not in self.blind:
                raise Violation(f"the ephemeral container {container.name} runs twice")
            return
        inits = self.manifest["spec"].get("initContainers", ())
        here = [c for c in self._of(container) if c.sandbox == container.sandbox]
        if any(c.name == container.name for c in here):
            return  # it runs again: what was to come before it came before its first instance
        for init in inits:
            if init["name"] == container.name:
                return
            ran = [c for c in here if c.name == init["name"]]
            plain = init.get("restartPolicy") != "Always"
            if plain and not any(c.state == "exited" and c.code == 0 for c in ran):
                raise Violation(f"{container.name} starts before the init container {init['name']} has succeeded")
            if not plain and not ran:
                raise Violation(f"{container.name} starts before the sidecar {init['name']}")

    def _check_again(self, container: Container) -> None:
        if container.kind == "ephemeral_container" or container.name in self.released or container.name in self.blind:
            return
        before = [c for c in self._of(container) if c.name == container.name]
        self.recorded.check_start(container, before, unseen=container.name in self.unseen)

    def _check_backoff(self, container: Container) -> None:
        now, name = self.clock.now, container.name
        cleared, key = self._cleared.pop(name, (now, ()))
        before = [c for c in self._of(container) if c.name == name]
        if not before or before[-1].finished is None:
            return
        exit_ = before[-1].finished
        delay, last = self._backoffs.get(key, (0.0, exit_))
        policy = Policy.of(self.manifest)
        if exit_ - last > policy.reset_after or now - last > policy.reset_after:
            delay, self._rows[key] = 0.0, 0
        free = name in self.released or name in self.unseen or "RestartAllContainers" in str(self.manifest)
        if now - exit_ < delay - EARLY - self._misdated(exit_) and not free:
            raise Violation(f"{name} starts {now - exit_:.2f} s after its exit; its back-off is {delay:.0f} s")
        if free:
            self._rows[key] = 0
            return
        self._backoffs[key] = (policy.next_delay(delay), cleared)
        self._rows[key] = self._rows.get(key, 0) + 1
        if self._rows[key] > policy.limit:
            raise Violation(f"{name} is restarted {self._rows[key]} times in a row, its limit is {policy.limit}")

    def _check_round(self, container: Container) -> None:
        """Check that a restart of all containers begins after one common back-off."""
        exit_, now = self._round_exit, self.clock.now
        if exit_ is None or container.kind == "ephemeral_container":
            return
        self._round_exit = None
        life = (container.uid, container.incarnation)
        delay, last = self._rounds.get(life, (0.0, 0.0))
        policy = Policy.of(self.manifest)
        if exit_ - last > policy.reset_after or now - last > policy.reset_after:
            delay = 0.0
        free = bool(self.released or self.unseen)
        if now - exit_ < delay - EARLY - self._misdated(exit_) and not free:
            raise Violation(
                f"all containers begin anew {now - exit_:.2f} s after the exit; the back-off is {delay:.0f} s"
            )
        if not free:
            self._rounds[life] = policy.next_delay(delay), self._asked.get(container.name, now)

    def clocks_set(self, ahead: float, skew: float) -> None:
        """Record by how much the node's clock and its runtime's dates are ahead of the true time from now on."""
        self._clocks.append((self.clock.now, ahead, ahead + skew))

    def _misdated(self, exit_: float) -> float:
        """Return by how many seconds an exit may have been dated too early."""
        dated = next(dates for since, _, dates in reversed(self._clocks) if since <= exit_)
        before = next(clock for since, clock, _ in reversed(self._clocks) if since <= exit_)
        return max(0.0, max((before, *(clock for since, clock, _ in self._clocks if since > exit_))) - dated)

    def _of(self, container: Container) -> Sequence[Container]:
        return [c for c in self._ever if (c.uid, c.incarnation) == (container.uid, container.incarnation)]

    # --- what the workflow does ---------------------------------------------------------------------------------------

    def scheduled(self, activity: Activity) -> None:
        """Check a step as it is scheduled: nothing starts in a pod that ends, and fences grow."""
        state, request = self.server.state, activity.argument
        what = request.get("container") or request.get("target", {}).get("name", "")
        if activity.name == "kill_container":
            self._check_grace(state, request)
            self.recorded.killed_alone(request)
        if activity.name == "kill_pod" and not state.ending:
            alive = [c for c in self.runtime.containers.values() if c.state == "running"]
            self.recorded.killed_for_sandbox(alive)
        self.note(f"step {activity.name} {what}".rstrip() + f" (fence {request['fence']})")
        if state.ending and activity.name in STARTS:
            raise Violation(f"{activity.name} {what} is scheduled although the pod is to end")
        if activity.name != "create_sandbox" and what and activity.name in STARTS:
            self._asked[what] = self.clock.now
            self._cleared.setdefault(what, (self.clock.now, _backoff_key(request, what)))
        life, fence = request["ref"]["incarnation"], int(request["fence"])
        if self._fence[0] == life and fence <= self._fence[1]:
            raise Violation(f"fence {fence} comes after fence {self._fence[1]}")
        self._fence = life, fence
        if activity.name == "remove_container" and request["keepLogs"]:
            ruled = _restart_all(self.manifest)
            removed = [c for c in self._ever if c.id in request["ids"] and c.name in ruled]
            asked = [c.finished for c in removed if c.code == RESTARTS_ALL]
            self._round_exit = max((at for at in asked if at is not None), default=None)
        if activity.name == "kill_pod" and self._kill_by is None:
            self._kill_by = self.clock.now + self._grace(state)
        if activity.name == "create_sandbox":
            self._kill_by = None

    def _check_grace(self, state: PodState, request: dict[str, Any]) -> None:
        """Check that a container gets its grace period, or the shorter one of a failed probe or the pod's deletion."""
        due = [float(self.manifest["spec"].get("terminationGracePeriodSeconds", 30))]
        due += [PROBE_GRACE] if request["reason"] == "LivenessProbe" else []
        due += [float(state.deletion.grace_seconds)] if state.deletion is not None else []
        given = float(request["target"]["graceSeconds"])
        if given < min(due):
            raise Violation(f"{request['target']['name']} is given {given:.0f} s to stop instead of {min(due):.0f} s")

    def dooms(self) -> None:
        """Record that the end of the pod's current life was requested."""
        if self.server.run is not None and self.server.run.tasks:
            self.doomed.add(self.server.state.incarnation)

    def ends_by(self, seconds: float, *, begins: bool) -> None:
        """Record that the pod's grace ends in this many seconds; without `begins`, only if it has begun already."""
        deadline = self.clock.now + seconds
        if self._kill_by is not None:
            self._kill_by = min(self._kill_by, deadline)
        elif begins:
            self._kill_by = deadline

    def decided(self) -> None:
        """Check the workflow's state after a task."""
        self._tasks += 1
        state = self.server.state
        uid = state.ref.uid
        for statuses in (state.status.container_statuses, state.status.init_container_statuses):
            for status in statuses:
                key = (uid, status.name)
                if status.restart_count < self._counts.get(key, 0):
                    was = self._counts[key]
                    raise Violation(f"the restart count of {status.name} falls from {was} to {status.restart_count}")
                self._counts[key] = status.restart_count
        if state.reached in TERMINAL:
            self._check_over(state)
        if self._tasks % ROUND_TRIP_EVERY == 0:
            check_round_trip(state)

    def _check_over(self, state: PodState) -> None:
        if state.failure is not None or state.deletion is not None or self.blind or self.unseen or self.released:
            return
        life = [c for c in self._ever if (c.uid, c.incarnation) == (state.ref.uid, state.incarnation)]
        self.recorded.check_over({c.name: c for c in life})

    def _grace(self, state: PodState) -> float:
        grace = float(self.manifest["spec"].get("terminationGracePeriodSeconds", 30))
        if state.deletion is not None:
            grace = float(state.deletion.grace_seconds)
        return max(1.0, grace)

    # --- the end ------------------------------------------------------------------------------------------------------

    def check_settled(self) -> None:
        """Check that the pod is in the state that its spec requires, long enough after the last fault."""
        state = self.server.state
        if self.server.activities:
            raise Violation(f"still under way: {[each.name for each in self.server.activities]}")
        alive = {c.name: c for c in self.runtime.containers.values() if c.state == "running"}
        ready = [sandbox for sandbox in self.runtime.sandboxes.values() if sandbox.ready]
        self._check_view(state)
        if state.deletion is not None or state.incarnation in self.doomed:
            raise Violation("the pod was deleted, and is still there")
        if state.ending:
            if alive or ready:
                raise Violation(f"the pod has ended ({state.reached}), and something runs: {sorted(alive)} {ready}")
            if not (state.finished or (state.failure is not None and state.failure.rejected)):
                raise Violation("the pod has ended, and its node has not been told")
            return
        if not alive and not self.server.workflow.display.holds:
            raise Violation(f"nothing runs and nothing is due, and the pod has not ended ({state.reached})")
        enough = {hold.subject for hold in self.server.workflow.display.holds if hold.reason == "RestartLimitReached"}
        if len(ready) != 1:
            raise Violation(f"{len(ready)} sandboxes are ready")
        for container in state.pod.spec.containers:
            runs = alive.get(container.name)
            if runs is not None and runs.image != container.image:
                raise Violation(f"{container.name} runs {runs.image}, desired is {container.image}")
            last = next((c for c in reversed(self._ever) if c.name == container.name), None)
            if container.name in enough:
                continue
            if runs is None and self.recorded.is_wanting(container.name, last, unseen=container.name in self.unseen):
                raise Violation(f"{container.name} does not run; holds: {self.server.workflow.display.holds}")
        for container in state.pod.spec.init_containers:
            if container.restart_policy == "Always" and container.name not in alive:
                raise Violation(
                    f"the sidecar {container.name} does not run; holds: {self.server.workflow.display.holds}"
                )
        check_round_trip(state)

    def _check_view(self, state: PodState) -> None:
        # What was created and never started is no news for a pod that starts nothing any more.
        known = {c.id for c in state.observed.containers if c.state in ("running", "unknown")}
        there = {c.id for c in self.runtime.containers.values() if c.state == "running"}
        if known != there:
            raise Violation(f"the workflow believes in {known}, the runtime has {there}")

    def check_gone(self) -> None:
        """Check that a deleted pod has no remains."""
        if self.server.run is not None:
            doing = [each.name for each in self.server.activities]
            raise Violation(
                f"the pod was deleted, and its workflow goes on: {doing}, holds {self.server.workflow.display.holds}"
            )
        left = [*self.runtime.sandboxes.values(), *self.runtime.containers.values()]
        if left:
            raise Violation(f"the pod is gone, and left behind: {left}")

    def forgets_instances(self, gone: Collection[str]) -> None:
        """Record that the instances of these containers will now be removed behind the workflow's back."""
        known, ended = set[str](), set[str]()
        if self.server.run is not None and self.server.run.tasks:
            state = self.server.state
            known = {c.id for c in state.observed.containers if c.has_run} | {exit_.id for exit_ in state.exits}
            ended = {c.id for c in state.observed.containers if c.state == "exited"} | {each.id for each in state.exits}
        # A step under way cannot know either: tried again, it does again what it no longer finds.
        starting = {str(activity.argument.get("container")) for activity in self.server.activities}
        newest = {container.name: container.id for container in self._ever}
        self.unseen |= {name for name in gone if name in newest and newest[name] not in ended}
        self.blind |= {name for name in gone if name in newest and (newest[name] not in known or name in starting)}

    def note(self, what: str) -> None:
        """Add a line to the trail."""
        self.trail.append(f"{self.clock.now:10.3f}  {what}")


def _restart_all(manifest: dict[str, Any]) -> set[str]:
    """Return the containers by whose rules an exit restarts all containers."""
    spec = manifest["spec"]
    every = (c for kind in ("initContainers", "containers") for c in spec.get(kind, ()))
    return {each["name"] for each in every if "RestartAllContainers" in str(each.get("restartPolicyRules"))}


def _backoff_key(request: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the key of a container's crash loop: another image or other resources begin a new one."""
    spec = request["pod"]["spec"]
    every = (c for kind in ("initContainers", "containers", "ephemeralContainers") for c in spec.get(kind, ()))
    container = next(each for each in every if each["name"] == name)
    return request["ref"]["uid"], name, container["image"], str(container.get("resources", ""))


def check_round_trip(state: PodState) -> None:
    """Check that a snapshot is complete."""
    again = PodState.model_validate(start.snapshot(state))
    if again != state:
        differ = [name for name in PodState.model_fields if getattr(again, name) != getattr(state, name)]
        raise Violation(f"the snapshot does not carry {', '.join(differ)}")
