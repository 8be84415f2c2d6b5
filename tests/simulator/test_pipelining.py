"""The history events of a start: steps sent together cost no further task, and the last two results come together.

Holds: A container that was created before its turn is never started out of turn.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulator.faults import Case, Event
from tests.simulator.pods import pod
from tests.simulator.runtime import FOREVER, Life
from tests.simulator.simulation import Simulation


def started(names: str, inits: str = "") -> Simulation:
    """A simulation of a pod with these containers, run until all of them run; init containers end soon."""
    spec = {
        "restartPolicy": "Always",
        "initContainers": [{"name": name, "image": "busybox:1"} for name in inits],
        "containers": [{"name": name, "image": "busybox:1"} for name in names],
    }
    lives: dict[str, tuple[Life, ...]] = {name: (Life(0.05),) for name in inits}
    lives.update((name, (FOREVER,)) for name in names)
    simulation = Simulation(Case(pod(spec), lives, horizon=1000.0))
    simulation.begin()
    simulation.clock.run(30.0)
    return simulation


@pytest.mark.parametrize(
    ("names", "inits", "tasks", "events"),
    [("a", "", 2, 14), ("ab", "", 3, 20), ("abc", "", 4, 26), ("b", "a", 3, 20), ("z", "abcd", 6, 38)],
)
def test_each_start_but_the_first_takes_one_more_task(names: str, inits: str, tasks: int, events: int) -> None:
    simulation = started(names, inits)
    assert simulation.server.run is not None
    assert (simulation.server.tasks, simulation.server.run.events) == (tasks, events)


DEATH = Event(0.0, "worker killed", seconds=0.5)


@pytest.mark.parametrize("code", [0, 1])
def test_a_worker_that_dies_at_any_moment_of_a_chain_starts_nothing_before_its_turn(code: int) -> None:
    """Each container but the first is created before its turn. After a failure nothing of that may stay, or start."""
    spec = {
        "restartPolicy": "Never",
        "initContainers": [{"name": name, "image": "busybox:1"} for name in "ab"],
        "containers": [{"name": name, "image": "busybox:1"} for name in "yz"],
    }
    lives: dict[str, tuple[Life, ...]] = {
        "a": (Life(0.05),),
        "b": (Life(0.05, code),),
        "y": (FOREVER,),
        "z": (FOREVER,),
    }
    for step in range(48):
        events = (replace(DEATH, at=round(0.015 * step, 3)),)
        case = Case(pod(spec), lives, events, horizon=60.0)
        assert Simulation(case).run().violation == "", events
        simulation = Simulation(case)
        simulation.begin()
        simulation.clock.run(60.0)
        ran = {each.name: each.state for each in simulation.runtime.containers.values()}
        expected = {"a": "exited", "b": "exited"} | ({} if code else {"y": "running", "z": "running"})
        assert ran == expected, events
