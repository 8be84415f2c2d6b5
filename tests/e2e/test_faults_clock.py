"""A node's clock jumps a day ahead and then behind the true time: back-offs keep their length.

Only the worker's clock jumps, by which the worker computes the time since a container's exit; runtime and server keep
the true time.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.agent.waiting import until as until_true
from tests.e2e.faults_clock import DAY, HOUR, Clock
from tests.e2e.faults_support import FaultyNode, shell
from tests.workflows.scripted import container

BACK_OFF = 6
"""The length of each of the pod's back-offs in seconds."""

pytestmark = pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
"""One runtime is enough, since others would not behave differently here."""


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    return Clock.make(tmp_path_factory.mktemp("clock"))


async def test_clock_jumps_do_not_shorten_or_lengthen_back_offs(node: FaultyNode, clock: Clock) -> None:
    await node.kill()
    await node.serve(**clock.environment)
    annotations = {"syncpod.dev/backoff-initial": f"{BACK_OFF}s", "syncpod.dev/backoff-factor": "1"}
    pod = await node.apply(shell("runs"), shell("crashes", "exit 3"), annotations=annotations)
    await pod.until(lambda seen: waits(seen, restarts=1))
    # During the wait, the clock is far ahead for two listings.
    listings = node.proxy.calls["ListContainers"]
    clock.jump(DAY)
    await until_true(lambda: node.proxy.calls["ListContainers"] >= listings + 2)
    clock.jump(0)
    await pod.until(lambda seen: waits(seen, restarts=2))
    # From here on, a container seems to exit an hour after its exit is seen.
    clock.jump(-HOUR)
    await pod.until(lambda seen: waits(seen, restarts=3))
    await pod.until(lambda seen: container(seen, "crashes")["restartCount"] >= 4)
    clock.jump(0)
    history = await pod.handle.query("history")
    exits = [line["at"] for line in history if (line["kind"], line["subject"]) == ("exit", "crashes")]
    assert len(exits) >= 4
    # By Temporal's clock, the first restart is immediate, and each later one follows its back-off.
    gaps = [(after - before).total_seconds() for before, after in pairwise(map(datetime.fromisoformat, exits[1:]))]
    assert all(gap > BACK_OFF - 1 for gap in gaps), gaps
    assert (await pod.live("runs")).attempt == 0
    said = await pod.history("hold")
    assert {line["reason"].split()[1] for line in said if line["subject"] == "crashes"} == {f"{BACK_OFF}s:"}, said
    await pod.delete()


def waits(pod: dict[str, Any], *, restarts: int) -> bool:
    """Return whether the crashing container waits after this many restarts."""
    status = container(pod, "crashes")
    return bool("waiting" in status.get("state", {}) and status["restartCount"] == restarts)
