"""A pod that crash-loops for a simulated month, with the size of its state after each day."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulator.faults import Case
from tests.simulator.pods import pod
from tests.simulator.runtime import Life
from tests.simulator.simulation import Simulation
from workflows.pod import start

DAY = 86_400.0
DAYS = 30
SUGGESTED_AT = 4_096
"""The number of events from which a server suggests continue-as-new (limit.historyCount.suggestContinueAsNew)."""


@dataclass(frozen=True)
class Reading:
    """The sizes at the end of a day."""

    day: int
    restarts: int
    runs: int
    longest: int
    """The most events of any run."""
    snapshot: int
    """The size of the next run's input in bytes."""
    containers: int
    """The number of instances that the runtime lists."""


def crash_loop(days: int = DAYS, *, told: Callable[[Reading], None] = lambda _: None) -> list[Reading]:
    """Let a pod's container exit two seconds after each start, for this many days; return a reading for each day."""
    manifest = pod({"restartPolicy": "Always", "containers": [{"name": "a", "image": "busybox:1"}]})
    simulation = Simulation(Case(manifest, {"a": (Life(2.0, 1),)}, horizon=days * DAY))
    simulation.server.suggests_at = SUGGESTED_AT
    simulation.server.most_tasks = 10_000 * days
    simulation.begin()
    readings = []
    for day in range(1, days + 1):
        simulation.clock.run(day * DAY)
        gc.collect()
        simulation.invariants.trail.clear()
        state = simulation.server.state
        reading = Reading(
            day,
            state.restarts["a"],
            simulation.server.runs,
            simulation.server.longest,
            len(json.dumps(start.snapshot(state), separators=(",", ":"))),
            len(simulation.runtime.containers),
        )
        readings.append(reading)
        told(reading)
    simulation.close()
    return readings


def table(readings: list[Reading]) -> str:
    """Return readings as a table."""
    head = f"{'day':>4} {'restarts':>9} {'runs':>5} {'longest run':>12} {'snapshot':>10} {'instances':>10}"
    rows = (
        f"{r.day:>4} {r.restarts:>9,} {r.runs:>5} {r.longest:>5,} events {r.snapshot:>8,} B {r.containers:>10}"
        for r in readings
    )
    return "\n".join((head, *rows))
