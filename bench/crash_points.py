"""``python -m bench.crash_points``: kills a worker at every boundary of a pod's life; writes docs/crash-points.md.

A boundary is the moment before or after one call to the runtime that changes something (`qa/fault_points.py`). For
each boundary of each phase of a pod's life, a fresh pod is started, the worker kills itself there with SIGKILL, and the
next worker continues. Each worker thus completes the phase of one pod, and is killed at a boundary of the next.

The end-to-end tests run the same on real runtimes and compare it with the document (`tests/e2e/test_crash_points.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.on_runtimes import document, main
from qa.fault_points import VARIABLE, Boundary, read_boundaries
from tests.e2e.faults_census import Census, Count, census
from tests.e2e.faults_support import FaultyNode, Pod, open_to_all, shell, until
from tests.runtimes.images import BUSYBOX_2
from tests.workflows.scripted import container

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "crash-points.md"

SMALL = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
LARGE = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"cpu": "400m", "memory": "128Mi"}}

_RUNS = "trap 'exit 0' TERM; echo {name} >> /out/started; while :; do sleep 0.05; done"
_CRASHES = (
    "trap 'exit 0' TERM; echo web >> /out/started; "
    "while [ ! -e /out/crash ]; do sleep 0.05; done; rm /out/crash; exit 7"
)
CONTAINERS = ("first", "helper", "web", "api")
"""An init container, a sidecar and two main containers, in the order in which they start."""


@dataclass
class Subject:
    """A pod whose worker dies, and the directory in which its containers record their starts."""

    pod: Pod
    place: Path

    def asked(self, **web: Any) -> dict[str, Any]:
        """Return the pod's document with these changes to the container `web`."""
        document = self.pod.document
        containers = [{**each, **web} if each["name"] == "web" else each for each in document["spec"]["containers"]]
        return {**document, "spec": {**document["spec"], "containers": containers}}

    async def count(self) -> Count:
        """Count the live sandboxes and containers of the pod."""
        sandboxes, containers = await self.pod.sandboxes(), await self.pod.containers()
        ready = sum(each.state == "SANDBOX_READY" for each in sandboxes)
        return Count(ready, sum(each.state == "running" for each in containers))

    def starts(self) -> Counter[str]:
        """Count how often each container has run, by its own record."""
        noted = self.place / "started"
        return Counter(noted.read_text().split() if noted.exists() else ())


@dataclass(frozen=True)
class Life:
    """One phase of a pod's life; a worker is killed at each of its boundaries."""

    name: str
    begin: Callable[[Subject], Awaitable[Any]]
    """Starts the phase. Does nothing for `start`, which begins when the pod is applied."""
    end: Callable[[Subject], Awaitable[Any]]
    """Returns at the end of the phase."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """Expected restart counts of containers at the end of the phase; those that are not here have 0."""


async def _nothing(_: Subject) -> None:
    pass


async def _crash(subject: Subject) -> None:
    await asyncio.to_thread((subject.place / "crash").touch)


async def _update(subject: Subject) -> None:
    await subject.pod.handle.signal("update_pod", subject.asked(image=BUSYBOX_2))


async def _resize(subject: Subject) -> None:
    await subject.pod.handle.signal("update_pod", subject.asked(resources=LARGE))


async def _delete(subject: Subject) -> None:
    await subject.pod.handle.signal("delete_pod", {})


async def _up(subject: Subject) -> None:
    await subject.pod.running()


async def _restarted(subject: Subject) -> None:
    await subject.pod.running(web=1)


async def _updated(subject: Subject) -> None:
    await subject.pod.running(web=1)
    (web,) = [each for each in await subject.pod.containers() if each.name == "web" and each.state == "running"]
    assert web.attempt == 1, web


async def _resized(subject: Subject) -> None:
    def seen(pod: dict[str, Any]) -> bool:
        resizing = [each for each in pod["status"]["conditions"] if each["type"].startswith("PodResize")]
        return container(pod, "web").get("resources") == LARGE and not resizing

    await subject.pod.until(seen)
    await subject.pod.running()


async def _gone(subject: Subject) -> None:
    await subject.pod.gone()


LIVES = (
    Life("start", _nothing, _up),
    Life("crash", _crash, _restarted, restarts={"web": 1}),
    Life("update", _update, _updated, restarts={"web": 1}),
    Life("resize", _resize, _resized),
    Life("delete", _delete, _gone),
)


@dataclass(frozen=True)
class Row:
    """The outcome of killing a worker at one boundary."""

    life: str
    boundary: Boundary
    """Numbered within its phase."""
    before: Count
    """Sandboxes and containers alive after the worker died."""
    after: Count
    """Sandboxes and containers alive at the end of the phase, under the next worker."""
    duplicates: tuple[str, ...]
    """Sandboxes and containers of which two were alive at once, and runs beyond those of a pod without a crash."""
    lost: tuple[str, ...]
    """Containers that are not alive at the end but should be, and runs that are missing compared with no crash."""

    @property
    def where(self) -> str:
        """The boundary as text."""
        return where(self.boundary)


def where(boundary: Boundary) -> str:
    """Return a boundary as text."""
    return " ".join(part for part in (boundary.when, boundary.call, boundary.container) if part)


Choose = Callable[[Life, Sequence[Boundary]], Sequence[Boundary]]
"""Returns those of a phase's boundaries at which workers are killed."""


def every_one(_: Life, boundaries: Sequence[Boundary]) -> Sequence[Boundary]:
    """Choose all boundaries."""
    return boundaries


def one_of_each(_: Life, boundaries: Sequence[Boundary]) -> Sequence[Boundary]:
    """Choose the first boundary, before any call, and for each kind of call the last boundary after it.

    Boundaries before a call are left out: the runtime's state is the same as after the previous call.
    """
    after = {each.call: each for each in boundaries if each.when == "after"}
    return sorted((*boundaries[:1], *after.values()), key=lambda each: each.ordinal)


async def run(node: FaultyNode, place: Path, lives: Sequence[Life] = LIVES, choose: Choose = every_one) -> list[Row]:
    """Run each phase once without a crash to number its boundaries, then once for each chosen boundary, with a crash.

    The node's worker is replaced, and none runs at the end. `place` is a directory for the containers' files.
    """
    await asyncio.to_thread(place.mkdir)
    node.worker.kill()
    try:
        return await _killed(node, place, lives, choose)
    finally:
        node.worker.kill()


async def _killed(node: FaultyNode, place: Path, lives: Sequence[Life], choose: Choose) -> list[Row]:
    boundaries = await _undisturbed(node, place, lives)
    deaths = [(life, boundary) for life in lives for boundary in choose(life, boundaries[life.name])]
    rows: list[Row] = []
    async with census(node.cri, node.name) as seen:
        former: _Death | None = None
        for number, (life, boundary) in enumerate(deaths):
            death = _Death(node, place, life, boundary, name=f"crash-{number:03}")
            offset = 0 if life.name == "start" else len(boundaries["start"])
            await death.serve(kill=offset + boundary.ordinal)
            await asyncio.gather(_converged(former, seen, rows), death.bring_up(passed=offset))
            await death.happen()
            former = death
        await node.serve()
        await _converged(former, seen, rows)
    return rows


async def _undisturbed(node: FaultyNode, place: Path, lives: Sequence[Life]) -> dict[str, list[Boundary]]:
    """Run each phase without a crash. Return its boundaries by phase, numbered from 1; `start` has those of a start."""
    record = place / "undisturbed"
    await node.serve(**{VARIABLE: f"record={record}"})
    subjects = [(life, await _applied(node, place, f"whole-{life.name}")) for life in LIVES if life in lives]
    await asyncio.gather(*(_up(subject) for _, subject in subjects))
    begun = len(read_boundaries(record))
    await asyncio.gather(*(life.begin(subject) for life, subject in subjects))
    await asyncio.gather(*(life.end(subject) for life, subject in subjects))
    passed = read_boundaries(record)
    await asyncio.gather(*(subject.pod.delete() for life, subject in subjects if life.name != "delete"))
    node.worker.kill()
    found = {}
    for life, subject in subjects:
        of_the_start = [each for each in passed[:begun] if each.pod == subject.pod.name]
        later = [each for each in passed[begun:] if each.pod == subject.pod.name]
        found[life.name] = _numbered(of_the_start if life.name == "start" else later)
        found.setdefault("start", _numbered(of_the_start))
    return found


def _numbered(passed: Sequence[Boundary]) -> list[Boundary]:
    return [
        Boundary(number, each.when, each.call, each.pod, each.container) for number, each in enumerate(passed, start=1)
    ]


async def _applied(node: FaultyNode, place: Path, name: str) -> Subject:
    directory = place / name
    await asyncio.to_thread(open_to_all, directory)
    mount = {"volumeMounts": [{"name": "out", "mountPath": "/out"}], "resources": SMALL}
    pod = await node.apply(
        shell("web", _CRASHES, **mount),
        shell("api", _RUNS.format(name="api"), **mount),
        initContainers=[
            shell("first", "echo first >> /out/started", **mount),
            shell("helper", _RUNS.format(name="helper"), restartPolicy="Always", **mount),
        ],
        volumes=[{"name": "out", "hostPath": {"path": str(directory)}}],
        name=name,
    )
    return Subject(pod, directory)


@dataclass
class _Death:
    """The death of a worker at one boundary of a pod's life."""

    node: FaultyNode
    place: Path
    life: Life
    boundary: Boundary
    name: str
    before: Count | None = None
    subject: Subject | None = None

    @property
    def record(self) -> Path:
        return self.place / f"{self.name}.boundaries"

    async def serve(self, *, kill: int) -> None:
        """Start the worker that will be killed at this boundary. It first completes the previous worker's pod."""
        await self.node.serve(**{VARIABLE: f"record={self.record},pod={self.name},kill={kill}"})

    async def bring_up(self, *, passed: int) -> None:
        """Start the pod, which passes `passed` boundaries. Do nothing for the phase `start`, which begins later."""
        if self.life.name == "start":
            return
        self.subject = await _applied(self.node, self.place, self.name)
        await _up(self.subject)
        await until_said(self.subject, Counter(CONTAINERS))
        assert len(read_boundaries(self.record)) == passed, f"{self.name}: {read_boundaries(self.record)}"

    async def happen(self) -> None:
        """Start the phase, and wait until the worker has died at this boundary."""
        if self.subject is None:
            self.subject = await _applied(self.node, self.place, self.name)
        await self.life.begin(self.subject)
        try:
            assert await self.node.worker.ended() == -signal.SIGKILL, self.node.said
        except subprocess.TimeoutExpired:
            passed = [where(each) for each in read_boundaries(self.record)]
            missing = f"{self.life.name} never came to {where(self.boundary)}"
            raise AssertionError(f"{self.name}: {missing}, only to {passed}\n{self.node.said}") from None
        await self.node.kill()
        last = read_boundaries(self.record)[-1]
        # Two concurrent calls may come in either order, but the calls themselves must be the same.
        passed = [where(each) for each in read_boundaries(self.record)]
        assert last.call == self.boundary.call, f"{last} in place of {self.boundary}; it passed {passed}"
        self.boundary = Boundary(self.boundary.ordinal, last.when, last.call, last.pod, last.container)
        self.before = await self.subject.count()


async def until_said(subject: Subject, runs: Counter[str]) -> None:
    """Wait until the containers have recorded these starts. From then on they handle SIGTERM.

    Raises TimeoutError.
    """

    async def said() -> bool:
        return subject.starts() >= runs

    await until(said)


async def _converged(death: _Death | None, seen: Census, rows: list[Row]) -> None:
    """Wait for the end of a phase under the next worker, add its row, and delete the pod."""
    if death is None:
        return
    assert death.subject is not None
    assert death.before is not None
    subject, life = death.subject, death.life
    uid = (await subject.pod.until(lambda pod: bool(pod["metadata"].get("uid"))))["metadata"]["uid"]
    await life.end(subject)
    runs = Counter({name: 1 + life.restarts.get(name, 0) for name in CONTAINERS})
    if life.name != "delete":
        with contextlib.suppress(TimeoutError):  # reported as lost below
            await until_said(subject, runs)
    after = await subject.count()
    wanted = {} if life.name == "delete" else {name: life.restarts.get(name, 0) for name in CONTAINERS[1:]}
    alive = {each.name: each.attempt for each in await subject.pod.containers() if each.state == "running"}
    ran = subject.starts()
    assert all(alive.get(name, restarts) == restarts for name, restarts in wanted.items()), alive
    rows.append(
        Row(
            life.name,
            death.boundary,
            death.before,
            after,
            duplicates=(*seen.of(uid), *(f"run of {name}" for name in (ran - runs).elements())),
            lost=(*(wanted.keys() - alive.keys()), *(f"run of {name}" for name in (runs - ran).elements())),
        )
    )
    if life.name != "delete":
        await subject.pod.delete()


# --- the table --------------------------------------------------------------------------------------------------------

INTRODUCTION = """# Crash points

The fate of a pod whose worker is killed with SIGKILL. Written by `python -m bench.crash_points`.
`tests/e2e/test_crash_points.py` runs the same crashes and compares the results with this page.

The pod has an init container (`first`), a sidecar (`helper`) and two main containers (`web`, `api`). Its life has five
phases: the pod starts; `web` exits with 7 and is restarted; the image of `web` is changed; `web` gets more CPU and
memory; the pod is deleted. A boundary is the moment before or after one call to the runtime that changes something.
For each boundary a fresh pod is started, its worker kills itself there, and the next worker completes the phase.

*Before* and *after*: sandboxes and containers alive after the worker died, and at the end of the phase. *Duplicates*:
sandboxes or containers of which two were ever seen alive at once (the runtime is asked ten times a second), and
containers that ran more often than without the crash, by their own record. *Lost*: what should be alive at the end and
is not, or ran less often. In every case the restart counts are those of a pod without a crash, and after a deletion
nothing of the pod is left in the runtime, on disk or in cgroups; otherwise the page is not written.

"""
"""The beginning of the document."""


def written(environment: str, found: Mapping[str, Sequence[Row]]) -> str:
    """Return the document: a table for each runtime, a row for each boundary."""
    parts = [INTRODUCTION.rstrip("\n")]
    for runtime, rows in found.items():
        double, lost = sum(len(row.duplicates) for row in rows), sum(len(row.lost) for row in rows)
        parts += [
            f"\n## {runtime}\n",
            f"{len(rows)} boundaries, duplicates {double}, lost {lost}.\n",
            "| life | boundary | before | after | duplicates | lost |",
            "|---|---|---|---|---:|---:|",
            *(table_row(row) for row in rows),
        ]
    return "\n".join(parts) + f"\n\n{environment}\n"


def table_row(row: Row) -> str:
    """Return the row of the document for one crash."""
    return (
        f"| {row.life} | {row.boundary.ordinal}. {row.where} | {row.before} | {row.after} "
        f"| {len(row.duplicates)} | {len(row.lost)} |"
    )


if __name__ == "__main__":
    sys.exit(main("bench.crash_points", "Kill workers at each boundary.", run, document(DOCUMENT, written)))
