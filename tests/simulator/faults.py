"""The external events of a simulated pod and their times: a schedule drawn from a seed or written down."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251  # seeded, and of nobody else's
from typing import TYPE_CHECKING, Any

from syncpod.lifecycle.version import DECISION_VERSION
from tests.simulator.cri import Ill
from tests.simulator.pods import IMAGES, Manifest, draw_lives, draw_pod
from tests.simulator.runtime import Life

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

HORIZON = 400.0
"""Seconds after which no more faults happen."""
MOMENTS = (0.0, 0.06, 0.2, 0.5, 1.5, 6.0)
"""Seconds after an exit: before it is noticed, before the next step begins, and during the back-off."""


@dataclass(frozen=True)
class Event:
    """One external event."""

    at: float
    what: str
    name: str = ""
    """The container that the event concerns."""
    seconds: float = 0.0
    number: int = 0
    """An exit code, a grace period, an image."""

    def __repr__(self) -> str:
        """The shortest expression that makes the event."""
        more = "".join(f", {key}={getattr(self, key)!r}" for key in ("name", "seconds", "number") if getattr(self, key))
        return f"Event({self.at!r}, {self.what!r}{more})"


@dataclass(frozen=True)
class Case:
    """The complete input of a simulation: two runs of it are the same."""

    manifest: Manifest
    lives: dict[str, tuple[Life, ...]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    absent: bool = False
    """Whether the node does not have the image at first."""
    max_events: int = 0
    """Continue as new whenever history has reached this length; 0 = never."""
    horizon: float = HORIZON
    """Seconds after which no more faults happen, and containers run or end without failure."""
    kind: str = ""


def draw_case(seed: int) -> Case:
    """Return the simulation of a seed."""
    random = Random(seed)
    kind, manifest = draw_pod(random)
    lives = draw_lives(random, manifest)
    mains = [container["name"] for container in manifest["spec"]["containers"]]
    names = [*lives, *mains, *mains]  # most of what befalls a container is to befall a main one
    whats = random.choices(tuple(EVENTS), [event.weight for event in EVENTS.values()], k=random.randint(2, 9))
    if random.random() < 0.3:
        whats.append(random.choice(FORGETS))
    events = [_draw(random, what, names) for what in whats]
    events += [more for event in tuple(events) for more in _draw_sequel(random, event, names)]
    return Case(
        manifest,
        lives,
        tuple(sorted(events, key=lambda event: event.at)),
        absent=random.random() < 0.15,
        max_events=random.choice((0, 0, 0, 20, 60)),
        kind=kind,
    )


def _draw_sequel(random: Random, event: Event, names: list[str]) -> list[Event]:
    """Draw additional events that make an event's effects visible."""
    if event.what.startswith("deleted") and random.random() < 0.6:  # while it ends it is applied, or deleted, again
        again = random.choice(("applied, perhaps another image", "applied, perhaps another image", event.what))
        return [replace(_draw(random, again, names), at=round(event.at + random.uniform(0.0, 4.0), 3))]
    sequel = []
    if event.what == "liveness probe failed":  # once more: only then is there a back-off
        event = replace(event, at=round(event.at + random.uniform(0.5, 20.0), 3))
        sequel.append(event)
    if event.what in REPLACES and random.random() < 0.5:  # what it ends is gone before another has followed
        moment = round(random.choice(MOMENTS[1:]) * random.uniform(0.5, 1.5), 2)
        sequel.append(Event(event.at, "pruned after an exit", event.name, moment))
    return sequel


def _draw(random: Random, what: str, names: list[str]) -> Event:
    # Most of what can go wrong with a pod goes wrong while something is done with it.
    at = random.choice(
        (random.uniform(0, 0.4), random.uniform(0, 5), random.uniform(0, 60), random.uniform(0, HORIZON))
    )
    kind = EVENTS[what]
    return Event(
        round(at, 3),
        what,
        random.choice(names) if kind.of_container else "",
        round(random.choice(kind.seconds) * random.uniform(0.5, 1.5), 2) if kind.seconds else 0.0,
        random.choice(kind.numbers) if kind.numbers else 0,
    )


@dataclass(frozen=True)
class Kind:
    """One kind of event: its effect, and the values that are drawn for it."""

    does: Callable[[Simulation, Event], None]
    weight: float = 1.0
    of_container: bool = False
    seconds: tuple[float, ...] = ()
    numbers: tuple[int, ...] = ()


def _ill(kind: str) -> Callable[[Simulation, Event], None]:
    def does(simulation: Simulation, event: Event) -> None:
        simulation.node.ills.append(Ill(kind, event.seconds))

    return does


def _signal_ill(kind: str) -> Callable[[Simulation, Event], None]:
    def does(simulation: Simulation, event: Event) -> None:
        simulation.node.signals.append(Ill(kind, event.seconds))

    return does


def _expiration_ill(kind: str) -> Callable[[Simulation, Event], None]:
    def does(simulation: Simulation, event: Event) -> None:
        simulation.node.expirations.append(Ill(kind))

    return does


def _worker_killed(simulation: Simulation, event: Event) -> None:
    if simulation.node.up:
        simulation.node.kill_worker(event.seconds)


def _worker_replaced(simulation: Simulation, event: Event) -> None:
    """Upgrade the worker to a later version of decisions, or downgrade it to that of this tree."""
    if simulation.node.up:
        simulation.server.build_id = f"syncpod+decisions.{DECISION_VERSION + event.number}.{'0' * 12}"
        simulation.node.kill_worker(event.seconds)


def _evicted_from_cache(simulation: Simulation, event: Event) -> None:
    simulation.server.evict()


def _continue_as_new(simulation: Simulation, event: Event) -> None:
    simulation.server.suggests = True


def _signalled_while_ending(simulation: Simulation, event: Event) -> None:
    condition = {"type": "example.com/ready", "status": "True", "reason": "Late"}
    simulation.server.late_signals.append(("set_condition", condition))


def _runtime_restarted(simulation: Simulation, event: Event) -> None:
    if simulation.runtime.up:
        simulation.runtime.restart(event.seconds)


def _runtime_wiped(simulation: Simulation, event: Event) -> None:
    simulation.invariants.forgets_instances({c.name for c in simulation.runtime.containers.values()})
    simulation.runtime.wipe()


def _network_not_ready(simulation: Simulation, event: Event) -> None:
    """Let no sandbox be made for a while; if two such periods overlap, the end of the first one ends both."""
    if not simulation.runtime.network:
        return
    simulation.runtime.network = False

    def ready() -> None:
        simulation.runtime.network = True
        simulation.node.network_ready()

    simulation.clock.after(event.seconds, ready)


def _clock_set(simulation: Simulation, event: Event) -> None:
    simulation.set_clocks(ahead=event.seconds)


def _dates_skewed(simulation: Simulation, event: Event) -> None:
    simulation.set_clocks(skew=event.seconds)


def _container_dies(simulation: Simulation, event: Event) -> None:
    container = simulation.runtime.running(event.name)
    if container is not None:
        simulation.runtime.end(container, event.number, "OOMKilled" if event.number == 137 else "")


def _sandbox_dies(simulation: Simulation, event: Event) -> None:
    for sandbox in simulation.runtime.sandboxes.values():
        sandbox.ready = False
    simulation.node.changed()


def _dead_pruned(simulation: Simulation, event: Event) -> None:
    """Remove ended instances, as somebody else may do: of one container, or of all if none is named."""
    dead = [
        c for c in simulation.runtime.containers.values() if c.name == (event.name or c.name) and c.state == "exited"
    ]
    simulation.invariants.forgets_instances({container.name for container in dead})
    for container in dead:
        del simulation.runtime.containers[container.id]
    simulation.node.changed()


def _after_exit(does: Callable[[Simulation, Event], None]) -> Callable[[Simulation, Event], None]:
    """Let something happen shortly after the next exit of a container, or from now on if it has already ended."""

    def armed(simulation: Simulation, event: Event) -> None:
        simulation.after_exit(event.name, event.seconds, lambda: does(simulation, replace(event, name="")))

    return armed


def _image_gone(simulation: Simulation, event: Event) -> None:
    simulation.runtime.images.clear()


def _no_room(simulation: Simulation, event: Event) -> None:
    simulation.node.no_room += 1


def _post_start_fails(simulation: Simulation, event: Event) -> None:
    simulation.node.cri.failing_hooks += 1


def _pre_stop_hangs(simulation: Simulation, event: Event) -> None:
    simulation.node.cri.hanging_hooks.append(event.seconds)


def _apply(simulation: Simulation, event: Event) -> None:
    """Apply the pod, with another image if a container is named."""
    document = copy.deepcopy(simulation.manifest)
    for container in document["spec"]["containers"]:
        if container["name"] == event.name:
            container["image"] = IMAGES[event.number]
    simulation.apply(document)


def _relabel(simulation: Simulation, event: Event) -> None:
    document = copy.deepcopy(simulation.manifest)
    document["metadata"]["labels"]["app"] = f"web-{event.number}"
    simulation.apply(document)


def _resize(simulation: Simulation, event: Event) -> None:
    resources = {"requests": {"cpu": f"{event.number}m"}}
    simulation.server.update("resize", {"containers": [{"name": event.name, "resources": resources}]})


def _ephemeral(simulation: Simulation, event: Event) -> None:
    container = {"name": f"debug-{event.number}", "image": "busybox:1"}
    simulation.server.update("add_ephemeral_container", container)


def _delete(simulation: Simulation, event: Event) -> None:
    simulation.delete(event.number)


def _delete_by_signal(simulation: Simulation, event: Event) -> None:
    simulation.delete(event.number, by_signal=True)


def _cancelled(simulation: Simulation, event: Event) -> None:
    simulation.cancel()


def _evict(simulation: Simulation, event: Event) -> None:
    simulation.evict(event.number)


def _restart(simulation: Simulation, event: Event) -> None:
    simulation.operate("restart", event.name)


def _retry(simulation: Simulation, event: Event) -> None:
    simulation.operate("backoff_expired", event.name)


def _probe(simulation: Simulation, event: Event) -> None:
    container = simulation.runtime.running(event.name)
    if container is not None:
        change = {"container": event.name, "containerID": container.id, "probe": "liveness", "result": "failure"}
        simulation.server.signal("probe", change)


_POISON: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("pleg", (1, 2, 3)),
    ("pleg", ({"status": {"containers": [{"restartCount": -5}]}},)),
    ("delete_pod", ({"gracePeriodSeconds": "soon"},)),
    ("probe", ({"container": "nobody"},)),
    ("no_such_signal", ({},)),
    ("pleg", ({"status": {"uid": "another"}},)),
)


def _poison(simulation: Simulation, event: Event) -> None:
    name, values = _POISON[event.number]
    simulation.server.signal(name, *values)


EVENTS: dict[str, Kind] = {
    # With the next step:
    "step fails": Kind(_ill("fails"), 3),
    "step succeeds but reports failure": Kind(_ill("lies"), 3),
    "step hangs": Kind(_ill("hangs"), 1, seconds=(5, 40, 400)),
    "step stalls, and is tried again": Kind(_ill("stalls"), 2, seconds=(4, 10, 60)),
    "step reports late": Kind(_ill("late"), 2, seconds=(0.5, 5, 30)),
    "step's report is lost": Kind(_ill("lost"), 2),
    "step cannot reach the runtime": Kind(_ill("unreachable"), 1),
    "step completed by hand": Kind(_ill("by_hand"), 1, seconds=(0.02, 0.1, 1)),
    # With what is signalled:
    "PLEG signal lost, and repeated": Kind(_signal_ill("lost"), 2),
    "PLEG signal doubled": Kind(_signal_ill("doubled"), 1),
    "PLEG signal stale and overtaken": Kind(_signal_ill("late"), 2, seconds=(1, 15, 60)),
    "back-off's end lost": Kind(_expiration_ill("lost"), 1),
    "back-off's end doubled": Kind(_expiration_ill("doubled"), 1),
    # With worker and workflow:
    "worker killed": Kind(_worker_killed, 3, seconds=(0.5, 4, 40)),
    "worker upgraded, or taken back": Kind(_worker_replaced, 1, seconds=(1, 5), numbers=(0, 1, 1, 2)),
    "run evicted from the cache": Kind(_evicted_from_cache, 1),
    "continue-as-new forced": Kind(_continue_as_new, 2),
    "signal while a run ends": Kind(_signalled_while_ending, 1),
    # With the runtime:
    "runtime restarted": Kind(_runtime_restarted, 2, seconds=(0.5, 4, 40)),
    "runtime wiped": Kind(_runtime_wiped, 0.5),
    "network not ready": Kind(_network_not_ready, 1, seconds=(0.5, 4, 40)),
    "node's clock set": Kind(_clock_set, 0.7, seconds=(-3600, -4, 4, 3600)),
    "runtime's dates skewed": Kind(_dates_skewed, 1, seconds=(-4, -0.5, 0.5, 4)),
    "container dies": Kind(_container_dies, 3, of_container=True, numbers=(0, 1, 42, 137)),
    "sandbox dies": Kind(_sandbox_dies, 1),
    "dead containers pruned": Kind(_dead_pruned, 1, of_container=True),
    # With the runtime, just after the next exit of a container:
    "pruned after an exit": Kind(_after_exit(_dead_pruned), 1.5, of_container=True, seconds=MOMENTS),
    "sandbox dies after an exit": Kind(_after_exit(_sandbox_dies), 0.7, of_container=True, seconds=MOMENTS),
    "runtime wiped after an exit": Kind(_after_exit(_runtime_wiped), 0.5, of_container=True, seconds=MOMENTS),
    "images gone": Kind(_image_gone, 1),
    "no room for a resize": Kind(_no_room, 0.5),
    "postStart hook fails": Kind(_post_start_fails, 0.7),
    "preStop hook hangs": Kind(_pre_stop_hangs, 0.7, seconds=(2, 8, 60)),
    # By people and agents:
    "applied, perhaps another image": Kind(_apply, 2, of_container=True, numbers=(0, 1, 2)),
    "relabelled": Kind(_relabel, 0.5, numbers=(1, 2)),
    "resized": Kind(_resize, 1.5, of_container=True, numbers=(110, 120, 150)),
    "ephemeral container added": Kind(_ephemeral, 1, numbers=(1, 2)),
    "deleted": Kind(_delete, 1, numbers=(0, 1, 10, 30)),
    "deleted by signal": Kind(_delete_by_signal, 0.5, numbers=(0, 1, 10, 30)),
    "workflow cancelled": Kind(_cancelled, 0.3),
    "evicted": Kind(_evict, 0.5, numbers=(0, 1, 10)),
    "restarted by an operator": Kind(_restart, 1, of_container=True),
    "retried by an operator": Kind(_retry, 1.5, of_container=True),
    "liveness probe failed": Kind(_probe, 2, of_container=True),
    "poison signal": Kind(_poison, 0.5, numbers=(0, 1, 2, 3, 4, 5)),
}
"""Every kind of event, with how often it is drawn."""

REPLACES = ("applied, perhaps another image", "resized", "liveness probe failed")
"""Events that end a container for a restart."""

FORGETS = (*("pruned after an exit",) * 3, "sandbox dies after an exit", "runtime wiped after an exit")
"""Events that are drawn additionally for many pods: after them, only records show what has run."""
