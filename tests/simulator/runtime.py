"""A container runtime in virtual time, as seen through CRI: sandboxes, containers, and calls that take time.

A call takes effect at its end, even if its client is dead by then; but a new sandbox whose client is dead is removed
again at the call's end. Names are reserved as in containerd: `(pod uid, attempt)` for a sandbox and `(pod uid,
container, restart)` for a container, from the call that makes it until its removal. The runtime prevents nothing else:
two live containers of one name are possible, and two live sandboxes of one pod. All events are reported to a `Witness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from syncpod.cri.errors import CriError, NameReserved, NotFound, RuntimeFailure, StillStarting, Unavailable
from tests.simulator.clock import Clock, Due, moment

CREATE, START, SANDBOX, SHORT = 0.008, 0.05, 0.1, 0.002
"""The durations of calls in seconds, as measured on containerd 1.6."""


@dataclass(frozen=True)
class Life:
    """The life of one instance of a container after its start."""

    seconds: float | None
    """The seconds that it runs; None: until it is stopped."""
    code: int = 0
    """The exit code after these seconds."""
    stop: float | None = 0.1
    """The seconds from SIGTERM to its exit; None: it ignores SIGTERM."""
    kill: float = 0.0
    """The seconds that it lives after SIGKILL."""
    stopped: int = 0
    """The exit code after SIGTERM."""


FOREVER = Life(None)


@dataclass
class Sandbox:
    """One sandbox."""

    id: str
    uid: str
    attempt: int
    incarnation: str
    ready: bool = True
    dated: datetime | None = None
    """The time of creation by the runtime's clock."""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


CUT_OFF = "failed to create containerd task: context canceled"
"""The error of a start whose caller or runtime died before the container ran."""


@dataclass
class Container:
    """One instance of a container."""

    id: str
    uid: str
    name: str
    restart: int
    sandbox: str
    image: str
    incarnation: str
    created: float
    kind: str
    life: Life
    state: Literal["created", "running", "exited"] = "created"
    starting: bool = False
    started: float | None = None
    finished: float | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    exit: Due | None = None
    """The exit by itself, while it runs."""
    terminated: float | None = None
    """The time of its first SIGTERM."""
    kill_at: Due | None = None
    """The scheduled SIGKILL."""
    dated: dict[str, datetime] = field(default_factory=dict)
    """The times of creation, start and end by the runtime's clock."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    log_path: str = ""


class Witness(Protocol):
    """The receiver of all events; its methods may raise."""

    def sandbox_made(self, sandbox: Sandbox) -> None:
        """A sandbox has become ready."""

    def started(self, container: Container) -> None:
        """A container runs from now on."""

    def exited(self, container: Container) -> None:
        """A container has ended."""

    def killed(self, container: Container, *, by: str) -> None:
        """A container gets SIGKILL by a stop or a removal, not by a fault."""

    def changed(self) -> None:
        """The listing has changed."""


@dataclass
class Stop:
    """One pending StopContainer."""

    abandoned: bool = False
    """Whether its client is dead, so that nobody waits for the grace period and no SIGKILL follows."""


@dataclass
class Runtime:
    """The runtime of one node, with the sandboxes and containers of one pod name."""

    clock: Clock
    witness: Witness
    lives: Callable[[str, int], Life]
    """The life of the n-th instance (from 0) of a container, by its name."""
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    up: bool = True
    network: bool = True
    """Whether the network is ready, as in its Status, which the node checks before it makes a sandbox."""
    ahead: float = 0.0
    """The seconds by which the node's clock is ahead of all others."""
    skew: float = 0.0
    """The seconds by which the runtime's dates are ahead of the node's clock."""
    reserved: set[tuple[Any, ...]] = field(default_factory=set)
    """The reserved names of objects that are being made."""
    _made: int = 0
    _instances: dict[str, int] = field(default_factory=dict)
    _boots: int = 0

    def answer(self) -> None:
        """Raise Unavailable if the runtime is down."""
        if not self.up:
            raise _unavailable("connection refused")

    # --- calls: each checks, and returns what takes effect at the end -------------------------------------------------

    def run_sandbox(self, sandbox: Sandbox, client_there: Callable[[], bool]) -> tuple[float, Callable[[], Sandbox]]:
        """Make a sandbox. Raises NameReserved, Unavailable.

        If its client is gone by the end it is rolled back: nobody can adopt it, and its name is taken until then.
        """
        self.answer()
        name = (sandbox.uid, sandbox.attempt)
        if name in self.reserved or any((s.uid, s.attempt) == name for s in self.sandboxes.values()):
            raise NameReserved("run_podsandbox", "UNKNOWN", f"sandbox {sandbox.uid}/{sandbox.attempt}")
        self.reserved.add(name)
        boot = self._boots

        def effect() -> Sandbox:
            self.reserved.discard(name)
            if not client_there():
                raise _unavailable("its client has gone, and it is rolled back")
            sandbox.id, sandbox.dated, sandbox.ready = self._id("s"), self._date(), boot == self._boots
            self.sandboxes[sandbox.id] = sandbox
            if sandbox.ready:
                self.witness.sandbox_made(sandbox)
            self.witness.changed()
            if boot != self._boots:
                raise _unavailable("the runtime was restarted meanwhile")
            return sandbox

        return SANDBOX, effect

    def create(self, container: Container) -> tuple[float, Callable[[], Container]]:
        """Create a container. Raises NameReserved, Unavailable, CriError."""
        self.answer()
        name = (container.uid, container.name, container.restart)
        if name in self.reserved or any((c.uid, c.name, c.restart) == name for c in self.containers.values()):
            raise NameReserved("create_container", "UNKNOWN", f"container {name}")
        home = self.sandboxes.get(container.sandbox)
        if home is None or not home.ready:
            raise RuntimeFailure("create_container", "UNKNOWN", f"sandbox {container.sandbox} is not ready")
        self.reserved.add(name)
        boot = self._boots

        def effect() -> Container:
            self.reserved.discard(name)
            if boot != self._boots or container.sandbox not in self.sandboxes:
                raise _unavailable("the runtime was restarted meanwhile")
            container.id, container.created = self._id("c"), self.clock.now
            container.dated["created"] = self._date()
            self.containers[container.id] = container
            self.witness.changed()
            return container

        return CREATE, effect

    def start(self, container_id: str) -> tuple[float, Callable[[], None]]:
        """Start a created container. Raises Unavailable, CriError."""
        self.answer()
        container = self._container(container_id)
        if container.state != "created" or container.starting:
            raise RuntimeFailure("start_container", "UNKNOWN", f"container {container_id} is {container.state}")
        container.starting = True
        boot = self._boots

        def effect() -> None:
            container.starting = False
            if container.id not in self.containers:
                raise NotFound("start_container", "NOT_FOUND", "it was removed meanwhile")
            home = self.sandboxes.get(container.sandbox)
            if boot != self._boots or home is None or not home.ready:
                container.state, container.code, container.reason = "exited", 128, "StartError"
                container.message = CUT_OFF if boot != self._boots else 'sandbox container "s" is not running'
                container.finished = self.clock.now
                container.dated["finished"] = self._date()
                self.witness.changed()
                raise RuntimeFailure("start_container", "UNKNOWN", container.message)
            instance = self._instances.get(container.name, 0)
            self._instances[container.name] = instance + 1
            container.life = self.lives(container.name, instance)
            container.state, container.started = "running", self.clock.now
            container.dated["started"] = self._date()
            self.witness.started(container)
            if container.life.seconds is not None:
                seconds, code = container.life.seconds, container.life.code
                container.exit = self.clock.after(seconds, lambda: self.end(container, code))
            self.witness.changed()

        return START, effect

    def stop(self, container_id: str, timeout: float, by: str, over: Callable[[CriError | None], None]) -> Stop:
        """Begin to stop a container: SIGTERM now, SIGKILL after `timeout`; `over` is called at its end.

        Raises Unavailable.
        """
        self.answer()
        stop = Stop()
        container = self.containers.get(container_id)
        if container is None or container.state != "running":
            self.clock.after(SHORT, lambda: over(None))
            return stop
        boot = self._boots
        if container.terminated is None:
            container.terminated = self.clock.now
            if container.life.stop is not None:
                self.clock.after(container.life.stop, lambda: self.end(container, container.life.stopped))

        def look() -> None:
            if stop.abandoned:
                return
            if container.state == "exited" or container.id not in self.containers:
                over(None)
            elif boot != self._boots:
                over(_unavailable("the runtime was restarted meanwhile"))
            elif self.clock.now < kill_at:
                self.clock.after(min(0.25, kill_at - self.clock.now), look)
            else:
                if container.kill_at is None:
                    self.witness.killed(container, by=by)
                    container.kill_at = self.clock.after(container.life.kill, lambda: self.end(container, 137))
                self.clock.after(0.25, look)

        kill_at = round(self.clock.now + timeout, 6)
        self.clock.after(min(timeout if container.life.stop is None else container.life.stop, timeout) + 0.01, look)
        return stop

    def stop_sandbox(self, sandbox_id: str) -> tuple[float, Callable[[], None]]:
        """Stop a sandbox and its containers at once. Raises Unavailable."""
        self.answer()

        def effect() -> None:
            sandbox = self.sandboxes.get(sandbox_id)
            if sandbox is None:
                return
            for container in self._in(sandbox_id):
                if container.state == "running":
                    self.witness.killed(container, by="StopPodSandbox")
                    self.end(container, 137)
            sandbox.ready = False
            self.witness.changed()

        return SHORT, effect

    def remove_sandbox(self, sandbox_id: str) -> tuple[float, Callable[[], None]]:
        """Remove a sandbox and its containers. Raises Unavailable."""
        self.answer()

        def effect() -> None:
            for container in self._in(sandbox_id):
                self._drop(container)
            self.sandboxes.pop(sandbox_id, None)
            self.witness.changed()

        return SHORT, effect

    def remove(self, container_id: str) -> tuple[float, Callable[[], None]]:
        """Remove a container, killing it if it runs. Raises Unavailable, StillStarting."""
        self.answer()
        container = self.containers.get(container_id)
        if container is not None and container.starting:
            raise StillStarting("remove_container", "UNKNOWN", "container is in starting state")

        def effect() -> None:
            if container_id in self.containers:
                self._drop(self.containers[container_id])
                self.witness.changed()

        return SHORT, effect

    # --- what befalls -------------------------------------------------------------------------------------------------

    def end(self, container: Container, code: int, reason: str = "") -> None:
        """Let a container exit; does nothing if it has exited."""
        if container.state != "running" or container.id not in self.containers:
            return
        container.state, container.code, container.finished = "exited", code, self.clock.now
        container.dated["finished"] = self._date()
        container.reason = reason or ("Completed" if code == 0 else "Error")
        if container.exit is not None:
            container.exit.cancel()
        self.witness.exited(container)
        self.witness.changed()

    def restart(self, seconds: float) -> None:
        """Let the runtime be down for a while: pending calls fail, and containers continue."""
        self._boots += 1
        self.up = False

        def back() -> None:
            self.up = True
            self.witness.changed()

        self.clock.after(seconds, back)

    def wipe(self) -> None:
        """Lose everything, as after a boot with an empty disk."""
        self._boots += 1
        for container in list(self.containers.values()):
            self.end(container, 137)
        self.containers.clear()
        self.sandboxes.clear()
        self.witness.changed()

    def running(self, name: str) -> Container | None:
        """Return the newest running instance of a container, if any."""
        found = [c for c in self.containers.values() if c.name == name and c.state == "running"]
        return max(found, key=lambda c: c.created, default=None)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _date(self) -> datetime:
        return moment(self.clock.now + self.ahead + self.skew)

    def _id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def _container(self, container_id: str) -> Container:
        if container_id not in self.containers:
            raise NotFound("start_container", "NOT_FOUND", f"no container {container_id}")
        return self.containers[container_id]

    def _in(self, sandbox_id: str) -> Sequence[Container]:
        return [container for container in self.containers.values() if container.sandbox == sandbox_id]

    def _drop(self, container: Container) -> None:
        if container.state == "running":
            self.witness.killed(container, by="removal")
            self.end(container, 137)
        self.containers.pop(container.id, None)


def _unavailable(why: str) -> Unavailable:
    return Unavailable("call", "UNAVAILABLE", why)
