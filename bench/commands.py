"""The CPU time and the duration of `syncpod` commands, in turn with those of an interpreter that does nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, Row
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, simulated_node
from bench.stage import compiled
from syncpod.pod import pod_to_wire

PODS: Final = 20
_FLOOR: Final = "python -c pass"
_AIMS: Final = {"syncpod --help": 150, "syncpod __complete logs web": 150, "syncpod get pods": 250}
"""The most milliseconds that a command should take."""
_ASKED: Final = "syncpod get pods, the server asked"


class Cost(NamedTuple):
    """The cost of one run, in milliseconds."""

    processor: float
    """User and system time."""
    passed: float
    """Duration."""


async def command_line(samples: int) -> tuple[Row, ...]:
    """Run each command `samples` times, on a node with simulated pods; return two rows for each."""
    async with simulated_node() as node:
        names = [f"web-{number}" for number in range(PODS)]
        for name in names:
            await node.engine.apply(simulated_pod(name))
        for name in names:
            await node.engine.until_running(name)
        return await asyncio.to_thread(_rows, node, samples)


def _rows(node: SimulatedNode, samples: int) -> tuple[Row, ...]:
    with tempfile.TemporaryDirectory(prefix="syncpod-bench-") as directory:
        manifest = Path(directory, "web-0.json")
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod"} | pod_to_wire(simulated_pod("web-0"))))
        environment = os.environ | compiled(Path(directory)) | node.environment
        commands = _commands(manifest)
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for number, (name, command) in itertools.product(range(1 + samples), commands.items()):
            # With an unknown setting in the environment, the command asks the server instead of the worker.
            unusual = {"TEMPORAL_UNHEARD_OF": "1"} if name == _ASKED else {}
            cost = _cost(command, environment | unusual)
            if number:
                costs[name].append(cost)
    return tuple(row for name, found in costs.items() for row in _figures(name, found))


def _commands(manifest: Path) -> dict[str, list[str]]:
    program = str(Path(sys.executable).with_name("syncpod"))
    lines = {
        "--help": ["--help"],
        "get --help": ["get", "--help"],
        "__complete logs web": ["__complete", "logs", "web"],
        "get pods": ["get", "pods"],
        "get pod web-0 -o json": ["get", "pod", "web-0", "-o", "json"],
        "get pods, the server asked": ["get", "pods"],
        "describe pod web-0": ["describe", "pod", "web-0"],
        "events": ["events"],
        "apply -f, nothing changed": ["apply", "-f", str(manifest)],
    }
    return {
        _FLOOR: [sys.executable, "-c", "pass"],
        **{f"syncpod {name}": [program, *arguments] for name, arguments in lines.items()},
    }


def _figures(name: str, costs: Sequence[Cost]) -> tuple[Row, Row]:
    return (
        Row(f"`{name}`, CPU", Figure(tuple(cost.processor for cost in costs))),
        Row(f"`{name}`, time", Figure(tuple(cost.passed for cost in costs)), aim=_AIMS.get(name)),
    )


def _cost(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end. Raises RuntimeError if it fails."""
    began = time.perf_counter()
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, env=environment) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    passed = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} has ended with {process.returncode}")
    return Cost(1000 * (used.ru_utime + used.ru_stime), 1000 * passed)
