"""A list of workflows shows the same as `get pods`, mostly without additional history events.

Holds: For a pod at rest, a list of workflows shows the same as `get pods`.
"""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.lifecycle.printed_status import printed_status
from syncpod.pod import pod_to_wire
from tests.simulator.faults import Case
from tests.simulator.pods import pod
from tests.simulator.runtime import FOREVER, Life
from tests.simulator.simulation import Simulation
from workflows.pod import desired

LONG = 60.0
"""Seconds after which the pod is at rest."""


def main(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", **more}


def begun(spec: dict[str, Any], **lives: Life) -> Simulation:
    """A simulation of a pod with these lives of containers, the same for each instance."""
    spec = {"restartPolicy": "Always", **spec}
    simulation = Simulation(Case(pod(spec), {name: (life,) for name, life in lives.items()}, horizon=20_000.0))
    simulation.begin()
    return simulation


def listed(simulation: Simulation) -> list[tuple[Any, ...]]:
    """The columns STATUS, RESTARTS and READY of a list after each upsert."""
    return [(each["PodStatus"], each["PodRestarts"], each["PodReady"]) for each in simulation.server.listed]


def printed(simulation: Simulation) -> tuple[str, int]:
    """The columns STATUS and RESTARTS of `get pods`."""
    shown = printed_status(pod_to_wire(desired.as_pod(simulation.server.state)))
    return shown.word, shown.restarts


def test_a_start_is_listed_by_one_upsert() -> None:
    simulation = begun({"containers": [main()]}, a=FOREVER)
    simulation.clock.run(LONG)
    assert listed(simulation) == [("Running", 0, True)]


def test_how_far_the_init_containers_are_costs_no_upsert() -> None:
    """The first and the last are written for the pod's UID and its phase."""
    inits = [main(name) for name in ("a", "b", "c")]
    simulation = begun(
        {"initContainers": inits, "containers": [main("d")]}, **dict.fromkeys("abc", Life(3.0)), d=FOREVER
    )
    simulation.clock.run(LONG)
    assert listed(simulation) == [("Init:0/3", 0, False), ("Running", 0, True)]


def test_a_crash_loop_is_listed_by_two_upserts_for_each_back_off() -> None:
    """As many as its readiness takes. A restart without a back-off takes one, for its number."""
    simulation = begun({"containers": [main()]}, a=Life(2.0, 1))
    simulation.clock.run(130.0)
    assert listed(simulation)[:6] == [
        ("Running", 0, True),
        ("Running", 1, True),
        ("CrashLoopBackOff", 1, False),
        ("Running", 2, True),
        ("CrashLoopBackOff", 2, False),
        ("Running", 3, True),
    ]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"containers": [main()]}, "CrashLoopBackOff"),
        ({"initContainers": [main()], "containers": [main("b")]}, "Init:CrashLoopBackOff"),
        ({"containers": [main(readinessProbe={"exec": {"command": ["false"]}})]}, "CrashLoopBackOff"),
        ({"containers": [main()], "restartPolicy": "Never"}, "Error"),
    ],
)
def test_a_list_shows_of_a_pod_at_rest_what_get_pods_shows(spec: dict[str, Any], word: str) -> None:
    simulation = begun(spec, a=Life(4.0, 1))
    seen = set()
    for second in range(2, 200, 2):
        simulation.clock.run(second + 0.5)
        if simulation.server.activities:
            continue  # it does not rest
        assert listed(simulation)[-1][:2] == printed(simulation), simulation.invariants.trail[-5:]
        seen.add(printed(simulation)[0])
    assert word in seen


def test_a_deletion_is_listed_before_the_grace_is_over() -> None:
    simulation = begun({"containers": [main()], "terminationGracePeriodSeconds": 30}, a=Life(None, stop=None))
    simulation.clock.run(LONG)
    simulation.server.signal("delete_pod", {})
    simulation.clock.run(2 * LONG)
    assert [status for status, *_ in listed(simulation)] == ["Running", "Terminating", "Terminating", "Error"]
    assert listed(simulation)[1] == ("Terminating", 0, True), "it has not ended yet"
