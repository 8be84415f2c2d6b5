"""``python -m bench.stop_cases``: measures how pods end, case by case, on each runtime.

It writes docs/engineering/stop-cases.md. The end-to-end tests check order, events and exit codes of the same cases
(`tests/e2e/test_stop_cases.py`); only their duration is measured here.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.on_runtimes import document, main
from tests.agent.waiting import until
from tests.e2e.faults_support import FaultyNode, Pod, open_to_all, shell

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "engineering" / "stop-cases.md"

GRACE = 4
"""The pods' grace period in seconds, unless a case says otherwise."""
PATIENT = 60
"""The grace period of pods that end on SIGTERM: it must not pass even on a busy machine."""
TOLD = ("Killing", "FailedPreStopHook", "ExceededGracePeriod", "Exited")
"""The reasons of the events that a case is checked for."""


def ending(name: str, *, takes: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return a container that exits with 0, `takes` seconds after SIGTERM, and writes its name to a file."""
    script = f"trap 'sleep {takes}; echo {name} >> /out/ends; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    return shell(name, script, volumeMounts=[{"name": "out", "mountPath": "/out"}], **more)


def deaf(name: str, **more: Any) -> dict[str, Any]:
    """Return a container that ignores SIGTERM."""
    return shell(name, "trap '' TERM; echo up; while :; do sleep 0.1; done", **more)


def before(script: str) -> dict[str, Any]:
    """Return a container's lifecycle with this shell script as its preStop hook."""
    return {"preStop": {"exec": {"command": ["sh", "-c", script]}}}


@dataclass(frozen=True)
class Case:
    """One way in which a pod ends."""

    name: str
    what: str
    """The behaviour of the pod, for the table."""
    containers: Sequence[dict[str, Any]]
    sidecars: Sequence[dict[str, Any]] = ()
    grace: int = GRACE
    seconds: str = "0"
    """How long it is expected to take, by the kubelet's rules."""
    codes: Mapping[str, int] = field(default_factory=dict)
    """Exit code of each container."""
    events: frozenset[tuple[str, str]] = frozenset()
    """Reason and container of each event besides Killing and Exited, which every container has."""
    order: tuple[str, ...] = ()
    """The containers that end on SIGTERM, in the order in which they must end; empty = in any order."""
    hangs: bool = False
    """Whether the runtime does not answer the first StopContainer."""


def sidecar(name: str) -> dict[str, Any]:
    """Return a sidecar that ends on SIGTERM."""
    return ending(name, restartPolicy="Always")


CASES = (
    Case("polite", "ends on SIGTERM", (ending("web"),), grace=PATIENT, codes={"web": 0}),
    Case("slow", "ends 2 s after SIGTERM", (ending("web", takes=2),), grace=PATIENT, seconds="2", codes={"web": 0}),
    Case("deaf", "ignores SIGTERM", (deaf("web"),), seconds="4", codes={"web": 137}),
    Case(
        "hook-shorter",
        "preStop takes 2 s, less than the grace period",
        (ending("web", lifecycle=before("sleep 2")),),
        grace=PATIENT,
        seconds="2",
        codes={"web": 0},
    ),
    Case(
        "hook-shorter-deaf",
        "preStop takes 2 s, and SIGTERM is ignored: the hook counts towards the grace period",
        (deaf("web", lifecycle=before("sleep 2")),),
        seconds="4",
        codes={"web": 137},
    ),
    Case(
        "hook-equal-deaf",
        "preStop takes as long as the grace period, and SIGTERM is ignored: 2 s are left at least",
        (deaf("web", lifecycle=before(f"sleep {GRACE}")),),
        seconds="6",
        codes={"web": 137},
        events=frozenset({("FailedPreStopHook", "web")}),
    ),
    Case(
        "hook-longer",
        "preStop takes longer than the grace period",
        (ending("web", lifecycle=before(f"sleep {GRACE + 3}")),),
        seconds="4",
        codes={"web": 0},
        events=frozenset({("FailedPreStopHook", "web")}),
    ),
    Case(
        "hook-hangs-deaf",
        "preStop hangs, and SIGTERM is ignored",
        (deaf("web", lifecycle=before("sleep 600")),),
        seconds="6",
        codes={"web": 137},
        events=frozenset({("FailedPreStopHook", "web")}),
    ),
    Case(
        "hook-fails",
        "preStop fails",
        (ending("web", lifecycle=before("exit 1")),),
        grace=PATIENT,
        codes={"web": 0},
        events=frozenset({("FailedPreStopHook", "web")}),
    ),
    Case(
        "sidecars",
        "two sidecars: they end after the main container, the last one first",
        (ending("web", takes=1),),
        sidecars=(sidecar("one"), sidecar("two")),
        grace=PATIENT,
        seconds="1",
        codes={"web": 0, "one": 0, "two": 0},
        order=("web", "two", "one"),
    ),
    Case(
        "sidecars-deaf",
        "a sidecar, and a main container that ignores SIGTERM: the sidecar waits for the grace period at most",
        (deaf("web"),),
        sidecars=(sidecar("one"),),
        seconds="4",
        codes={"web": 137, "one": 0},
    ),
    Case(
        "no-grace",
        "grace period of 0, and SIGTERM is ignored: 2 s are left at least",
        (deaf("web"),),
        grace=0,
        seconds="2",
        codes={"web": 137},
    ),
    Case(
        "runtime-hangs",
        "the runtime does not answer StopContainer: the step gives up after 10 s, and is retried 10 s later",
        (ending("web"),),
        seconds="20",
        codes={"web": 0},
        events=frozenset({("ExceededGracePeriod", "")}),
        hangs=True,
    ),
)


@dataclass(frozen=True)
class Ending:
    """The outcome of a case."""

    seconds: float
    """Seconds from the deletion until no container of the pod ran, by its history."""
    codes: dict[str, int]
    events: frozenset[tuple[str, str]]
    order: tuple[str, ...]
    phase: str


async def run(node: FaultyNode, cases: Sequence[Case], place: Path) -> dict[str, Ending]:
    """Start a pod for each case, delete them all at once, and return how each ended. `place` is for their files."""
    brought_up = await asyncio.gather(*(_up(node, case, place / case.name) for case in cases))
    pods = list(zip(cases, brought_up, strict=True))
    # The next StopContainer call hangs, so the pod of that case is deleted first.
    hanging = [pair for pair in pods if pair[0].hangs]
    with contextlib.ExitStack() as held:
        for _, pod in hanging:
            stop = held.enter_context(node.proxy.stop("StopContainer", "before", calls=1))
            await pod.handle.signal("delete_pod", {})
            await stop.reached()
        for case, pod in pods:
            if not case.hangs:
                await pod.handle.signal("delete_pod", {"gracePeriodSeconds": case.grace})
        endings = await asyncio.gather(*(_ending(case, pod, place / case.name) for case, pod in pods))
    return {case.name: ending for (case, _), ending in zip(pods, endings, strict=True)}


async def _up(node: FaultyNode, case: Case, place: Path) -> Pod:
    await asyncio.to_thread(open_to_all, place)
    pod = await node.apply(
        *case.containers,
        initContainers=list(case.sidecars),
        terminationGracePeriodSeconds=case.grace,
        volumes=[{"name": "out", "hostPath": {"path": str(place)}}],
    )
    meta = (await pod.running())["metadata"]
    logs = node.directory / "logs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
    said = {each["name"] for each in (*case.containers, *case.sidecars)}
    # Process 1 ignores SIGTERM until it has installed its handler.
    await until(lambda: said == {file.parent.name for file in logs.glob("*/0.log") if file.stat().st_size})
    return pod


async def _ending(case: Case, pod: Pod, place: Path) -> Ending:
    final = await pod.gone()
    status = final["status"]
    statuses = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    told: list[dict[str, Any]] = await pod.handle.query("events")
    history: list[dict[str, Any]] = await pod.handle.query("history")
    (asked,) = [line["at"] for line in history if (line["kind"], line["subject"]) == ("update", "delete")]
    killed = [line["at"] for line in history if line["subject"] == "kill_pod" and line["outcome"] == "done"]
    ends = place / "ends"
    return Ending(
        seconds=(datetime.fromisoformat(killed[-1]) - datetime.fromisoformat(asked)).total_seconds(),
        codes={each["name"]: each["state"]["terminated"]["exitCode"] for each in statuses},
        events=frozenset((each["reason"], each["container"]) for each in told if each["reason"] in TOLD),
        order=tuple((await asyncio.to_thread(ends.read_text)).split()) if case.order else (),
        phase=status["phase"],
    )


# --- the table --------------------------------------------------------------------------------------------------------

INTRODUCTION = f"""# How pods end, case by case

[The rules](../pod-behaviour.md#how-a-pod-stops) give the expected duration. `python -m bench.stop_cases` starts a
pod for each case, deletes them all at once, and writes this page. `tests/e2e/test_stop_cases.py` checks order, events
and exit codes of the same cases. The grace period is {GRACE} s here, and {PATIENT} s for pods that end by themselves.

"""
"""The beginning of the document."""


def written(environment: str, measured: Mapping[str, Mapping[str, Ending]]) -> str:
    """Return the document: a row for each case, a column of seconds for each runtime."""
    names = list(measured)
    lines = [
        "| case | expected | " + " | ".join(names) + " | exit codes | events besides Killing and Exited |",
        "|---|---:|" + "---:|" * len(names) + "---|---|",
    ]
    for case in CASES:
        seconds = " | ".join(f"{measured[name][case.name].seconds:.1f} s" for name in names)
        codes = ", ".join(f"{name} {code}" for name, code in case.codes.items())
        events = ", ".join(sorted(reason for reason, _ in case.events)) or "–"
        lines.append(f"| {case.what} | {case.seconds} s | {seconds} | {codes} | {events} |")
    return INTRODUCTION + "\n".join(lines) + f"\n\n{environment}\n"


async def measure(node: FaultyNode, place: Path) -> dict[str, Ending]:
    """Return how each case ended on one runtime."""
    return await run(node, CASES, place)


if __name__ == "__main__":
    sys.exit(main("bench.stop_cases", "Measure how pods end.", measure, document(DOCUMENT, written)))
