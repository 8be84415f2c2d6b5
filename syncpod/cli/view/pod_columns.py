"""The columns of ``get pods``, computed as the API server's printer does.

Mirrors pkg/printers/internalversion/printers.go, v1.36, printPod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from syncpod.cli.console import Colour
from syncpod.cli.view.durations import age, short_duration
from syncpod.pod import Container, ContainerStateTerminated, ContainerStatus, Pod

HEADER: Final = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
WIDE: Final = ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")

_NONE: Final = "<none>"
_GOOD: Final = frozenset({"Running", "Completed", "Succeeded"})
_UNDERWAY: Final = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating", "NotReady"})


@dataclass(frozen=True)
class Summary:
    """A pod in one line."""

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: datetime | None
    """When the last container that ended did so."""

    def restarts_cell(self, now: datetime) -> str:
        """Write the restarts as ``3 (10s ago)``."""
        if not self.restarts or self.last_restart is None:
            return str(self.restarts)
        return f"{self.restarts} ({short_duration(now - self.last_restart)} ago)"


def summarize(pod: Pod) -> Summary:
    """Return the pod in one line."""
    status = pod.status
    sidecars = {container.name for container in pod.spec.init_containers if _is_sidecar(container)}
    init = _initialization(pod, sidecars)
    ready = sum(entry.ready for entry in status.init_container_statuses[: init.seen] if _is_up(entry, sidecars))
    word = init.word or _phase(pod)
    counted: list[ContainerStatus] = list(status.init_container_statuses[: init.seen + 1])
    if not init.word or _has(pod, "Initialized"):
        counted = [entry for entry in status.init_container_statuses[: init.seen + 1] if entry.name in sidecars]
        counted += status.container_statuses
        word, running = _of_containers(status.container_statuses, word)
        ready += running
        if word == "Completed" and running:
            word = "Running" if _has(pod, "Ready") else "NotReady"
    if pod.metadata.deletion_timestamp is not None and status.phase not in ("Succeeded", "Failed"):
        word = "Terminating"
    return Summary(
        ready=ready,
        total=len(pod.spec.containers) + len(sidecars),
        status=word,
        restarts=sum(entry.restart_count for entry in counted),
        last_restart=_last_end(counted),
    )


def row(pod: Pod, now: datetime, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of a pod's line."""
    summary = summarize(pod)
    cells = (
        pod.metadata.name,
        f"{summary.ready}/{summary.total}",
        summary.status,
        summary.restarts_cell(now),
        age(pod.metadata.creation_timestamp, now),
    )
    return (*cells, *_wide(pod)) if wide else cells


def uncertain_row(pod: Pod, now: datetime, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of a pod that did not answer: what Temporal recorded last, marked with ``?``."""
    phase = pod.status.phase or "Unknown"
    cells = (pod.metadata.name, "?", f"{phase}?", "?", age(pod.metadata.creation_timestamp, now))
    return (*cells, *_wide(pod)) if wide else cells


def colour_of(status: str) -> Colour:
    """Return the colour in which a terminal shows a status."""
    word = status.removeprefix("Init:")
    if word.endswith("?"):
        return "dim"
    if word in _GOOD:
        return "green"
    return "yellow" if word in _UNDERWAY or word[:1].isdigit() else "red"


# --- the status -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Initialization:
    word: str
    """The status while the pod initializes; "" = it is initialized."""
    seen: int
    """Index of the current init container: those before it are done, or are sidecars that have started."""


def _initialization(pod: Pod, sidecars: frozenset[str] | set[str]) -> _Initialization:
    statuses = pod.status.init_container_statuses
    for index, entry in enumerate(statuses):
        ended, waiting = entry.state.terminated, entry.state.waiting
        if (ended is not None and ended.exit_code == 0) or _is_up(entry, sidecars):
            continue
        if ended is not None:
            return _Initialization(f"Init:{_end_word(ended)}", index)
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return _Initialization(f"Init:{waiting.reason}", index)
        return _Initialization(f"Init:{index}/{len(pod.spec.init_containers)}", index)
    return _Initialization("", len(statuses))


def _of_containers(statuses: Iterable[ContainerStatus], word: str) -> tuple[str, int]:
    """Return the reason of the first container that waits or has ended, else `word`; and how many run and are ready."""
    running = 0
    for entry in reversed(tuple(statuses)):
        waiting, ended = entry.state.waiting, entry.state.terminated
        if waiting is not None and waiting.reason:
            word = waiting.reason
        elif ended is not None:
            word = _end_word(ended)
        elif entry.ready and entry.state.running is not None:
            running += 1
    return word, running


def _phase(pod: Pod) -> str:
    gated = any(entry.type == "PodScheduled" and entry.reason == "SchedulingGated" for entry in pod.status.conditions)
    return "SchedulingGated" if gated else pod.status.reason or pod.status.phase or "Pending"


def _end_word(ended: ContainerStateTerminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _is_up(entry: ContainerStatus, sidecars: frozenset[str] | set[str]) -> bool:
    """Say whether this is a sidecar that has started."""
    return entry.name in sidecars and bool(entry.started)


def _has(pod: Pod, condition: str) -> bool:
    return any(entry.type == condition and entry.status == "True" for entry in pod.status.conditions)


def _last_end(statuses: Iterable[ContainerStatus]) -> datetime | None:
    ends = [entry.last_state.terminated.finished_at for entry in statuses if entry.last_state.terminated is not None]
    return max((end for end in ends if end is not None), default=None)


def _wide(pod: Pod) -> tuple[str, ...]:
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    conditions: Mapping[str, str | None] = {entry.type: entry.status for entry in pod.status.conditions}
    met = sum(conditions.get(gate) == "True" for gate in gates)
    return (
        pod.status.pod_ips[0].ip if pod.status.pod_ips else _NONE,
        pod.spec.node_name or _NONE,
        pod.status.nominated_node_name or _NONE,
        f"{met}/{len(gates)}" if gates else _NONE,
    )
