"""Trials in which the worker is killed at twenty points of its work on a pod of the cluster."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from qa.cluster_outages.killed_worker import VARIABLE
from qa.cluster_outages.room import RUNS, Fell, Room, container, held, is_ready, noting, pod, restarts

POINTS: Final = int(os.environ.get("SYNCPOD_KILL_POINTS") or 20)
"""The number of points of each phase at which a worker is killed, evenly spread over all its points."""
CHOSEN: Final = tuple(int(each) for each in os.environ.get("SYNCPOD_KILL_AT", "").split(",") if each)
"""The numbers of the points to try instead, such as those that another run left out: 2,4,6."""
_HOOK: Final = {"postStart": {"exec": {"command": ["sh", "-c", "echo hook >> /notes/starts"]}}}
_SHOWS: Final = f"cat /var/run/secrets/kubernetes.io/serviceaccount/token > /notes/token; {RUNS}"


@dataclass(frozen=True)
class Phase:
    """One piece of the worker's work, during which it is killed."""

    title: str
    prepare: Callable[[Room, str], None]
    """Brings the pod of this name into the state before the work. The worker lives."""
    begin: Callable[[Room, str, Path], None]
    """Begins the work, without waiting. Points count from here on."""
    is_over: Callable[[Room, str], object]
    """Returns whether the work is done, according to the API server."""
    check: Callable[[Room, str], None]
    """Raises Fell if something was done twice, or if a status is wrong."""
    again: Callable[[Room, str, Path], None] = lambda room, name, directory: None
    """Has the next worker do the work now, if it would otherwise wait until the work is due again."""


def killed_at_points(phase: Phase) -> Callable[[Room], str]:
    """Return the trial of one phase."""

    def trial(room: Room) -> str:
        directory = room.notes.parent / "killed"
        directory.mkdir(exist_ok=True)
        room.node.kill_worker()
        number, _ = _once(room, phase, directory, 0)
        held(number, "the worker passed no point")
        chosen = CHOSEN or sorted({1 + round(at * (number - 1) / (POINTS - 1)) for at in range(POINTS)})
        died = 0
        for kill in chosen:
            died += _once(room, phase, directory, kill)[1]
            sys.stderr.write(f"{phase.title}: point {kill} of {number}, the worker died at {died} so far\n")
        held(died > len(chosen) / 2, f"the worker died at {died} of {len(chosen)} points only")
        return (
            f"{number} points, and the worker died at {died} of them: nothing was started or written twice, and every "
            "status was right in the end"
        )

    trial.__doc__ = f"{phase.title}."
    return trial


def _once(room: Room, phase: Phase, directory: Path, kill: int) -> tuple[int, bool]:
    """Go through a phase once, with a worker that is killed at point `kill`; 0 = at none.

    Return the number of points that it passed, and whether it was killed.
    """
    name, armed, record = f"k{kill}", directory / "armed", directory / "points"
    record.unlink(missing_ok=True)
    room.node.start_worker(environment={VARIABLE: f"{directory},{kill}"}, is_killed=True)
    phase.prepare(room, name)
    _settle(room, name)
    armed.touch()
    phase.begin(room, name, directory)
    deadline = time.monotonic() + 60
    while room.node.is_up and not phase.is_over(room, name) and time.monotonic() < deadline:
        time.sleep(0.2)
    has_died = room.node.await_death(10 if kill else 3)
    armed.unlink()
    points = record.read_text().splitlines() if record.exists() else []
    room.node.kill_worker()
    room.node.start_worker(environment={VARIABLE: str(directory)}, is_killed=True)
    try:
        if not phase.is_over(room, name):
            phase.again(room, name, directory)
        room.until(f"the end of it after {points[-1:] or 'no point'}", lambda: phase.is_over(room, name))
        phase.check(room, name)
    except Fell as fell:
        raise Fell(f"killed at {points[-1] if points else 'no point'}: {fell}") from None
    room.node.kill_worker()
    (directory / "rotate").unlink(missing_ok=True)
    _tidy(room, name)
    return len(points), has_died


def _settle(room: Room, name: str) -> None:
    """Wait until a pod at the API server no longer changes."""
    version = ""
    while version != (version := room.pod(name).get("metadata", {}).get("resourceVersion", "")):
        time.sleep(1)


def _tidy(room: Room, name: str) -> None:
    room.cluster.kubectl("delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")
    for each in room.notes.iterdir():
        each.unlink()


def _nothing(room: Room, name: str) -> None:
    """Prepare nothing: the pod does not exist yet."""


def _serving(room: Room, name: str) -> None:
    room.apply(pod(room, name, noting(name, _SHOWS, lifecycle=_HOOK), has_token=True))
    room.running(name)


def _is_once(room: Room, name: str) -> None:
    """Check that the pod started once, that its hook ran at most twice, and that the API server has its true status."""
    found = room.pod(name)
    held(room.starts(name) == 1, f"{room.starts(name)} starts")
    held(room.starts("hook") <= 2, f"{room.starts('hook')} runs of the hook")
    held(is_ready(found) and restarts(found, name) == 0, f"the status is {json.dumps(found.get('status'))[:300]}")
    own = container(room.own(name), name).get("containerID")
    held(container(found, name).get("containerID") == own, "the container's id at the API server is another one")
    written = _events(room, name)
    held(max(written.values(), default=0) <= 1, f"events that were written twice: {written}")


def _events(room: Room, name: str) -> Counter[str]:
    """Return how often each event of a pod was reported to the cluster."""
    listed = json.loads(
        room.cluster.kubectl("get", "events", f"--field-selector=involvedObject.name={name}", "-o", "json")
    )
    counted: Counter[str] = Counter()
    for each in listed["items"]:
        if each["reason"] in ("Created", "Started", "Killing"):
            counted[each["reason"]] += each.get("count") or 1
    return counted


def _begin_start(room: Room, name: str, _: Path) -> None:
    room.apply(pod(room, name, noting(name, _SHOWS, lifecycle=_HOOK), has_token=True))


def _begin_delete(room: Room, name: str, _: Path) -> None:
    room.cluster.kubectl("delete", "pod", name, "--wait=false")


def _is_gone(room: Room, name: str) -> None:
    held(room.starts(name) == 1, f"{room.starts(name)} starts")
    room.until("the end of the pod's workflow", lambda: not room.own(name))


def _flapping(room: Room, name: str) -> None:
    probe = {"exec": {"command": ["sh", "-c", "test ! -e /notes/sick"]}, "periodSeconds": 1, "failureThreshold": 1}
    room.apply(pod(room, name, noting(name, RUNS, readinessProbe=probe)))
    room.running(name)


def _flap(room: Room, _: str, __: Path) -> None:
    """Have the pod become unready and stay so, so that the worker writes its status."""
    (room.notes / "sick").touch()


def _is_unready(room: Room, name: str) -> None:
    held(room.starts(name) == 1, f"{room.starts(name)} starts")
    (room.notes / "sick").unlink()
    room.running(name)


def _rotate(_: Room, __: str, directory: Path) -> None:
    (directory / "rotate").touch()


def _token(room: Room, name: str) -> str:
    path = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    return room.cluster.kubectl("exec", name, "--", "cat", path, check=False)


def _has_new_token(room: Room, name: str) -> bool:
    first, now = (room.notes / "token"), _token(room, name)
    return bool(now) and first.exists() and first.read_text() != now


def _works(room: Room, name: str) -> None:
    held(room.starts(name) == 1, f"{room.starts(name)} starts")
    text = room.cluster.kubectl("get", "--raw", "/api", f"--token={_token(room, name)}", check=False)
    held("versions" in text, "the API server does not take the token that the pod has")


START: Final = Phase("A pod begins", _nothing, _begin_start, lambda room, name: is_ready(room.pod(name)), _is_once)
DELETE: Final = Phase("A pod is deleted", _serving, _begin_delete, lambda room, name: not room.pod(name), _is_gone)
STATUS: Final = Phase(
    "A status is written",
    _flapping,
    _flap,
    lambda room, name: bool(room.pod(name)) and not is_ready(room.pod(name)),
    _is_unready,
)
TOKEN: Final = Phase("A token is replaced", _serving, _rotate, _has_new_token, _works, _rotate)
