"""The columns READY, STATUS and RESTARTS of ``get pods``, computed as the API server's printer does, from a Pod's JSON.

This module does not import the models, which take longer to import than all the rest of ``get pods``. A field that is
missing has its default. Mirrors pkg/printers/internalversion/printers.go, v1.36, printPod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PrintedStatus:
    """A pod's status in the words of ``get pods``."""

    ready: int
    total: int
    word: str
    """STATUS: `Running`, `CrashLoopBackOff`, `Init:1/2`, `Terminating`."""
    restarts: int
    counted: tuple[Mapping[str, Any], ...]
    """The container statuses whose restarts count."""


def printed_status(pod: Mapping[str, Any]) -> PrintedStatus:
    """Return the pod's status as ``get pods`` prints it."""
    status, spec = part_of(pod, "status"), part_of(pod, "spec")
    init_statuses: Sequence[Mapping[str, Any]] = status.get("initContainerStatuses", ())
    sidecars = {each["name"] for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"}
    init = _initialization(init_statuses, sidecars, len(spec.get("initContainers", ())))
    ready = sum(bool(entry.get("ready")) for entry in init_statuses[: init.seen] if _is_up(entry, sidecars))
    word = init.word or _phase(status)
    counted = list(init_statuses[: init.seen + 1])
    if not init.word or _has(status, "Initialized"):
        statuses = status.get("containerStatuses", ())
        counted = [entry for entry in init_statuses[: init.seen + 1] if entry.get("name") in sidecars]
        counted += statuses
        word, running = _of_containers(statuses, word)
        ready += running
        if word == "Completed" and running:
            word = "Running" if _has(status, "Ready") else "NotReady"
    if part_of(pod, "metadata").get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        word = "Terminating"
    return PrintedStatus(
        ready=ready,
        total=len(spec.get("containers", ())) + len(sidecars),
        word=word,
        restarts=sum(entry.get("restartCount", 0) for entry in counted),
        counted=tuple(counted),
    )


@dataclass(frozen=True)
class _Initialization:
    word: str
    """The status while the pod initializes; "" = it is initialized."""
    seen: int
    """Index of the current init container: those before it are done, or are sidecars that have started."""


def _initialization(
    statuses: Iterable[Mapping[str, Any]], sidecars: Collection[str], containers: int
) -> _Initialization:
    index = -1
    for index, entry in enumerate(statuses):
        ended, waiting = part_of(entry, "state").get("terminated"), part_of(entry, "state", "waiting")
        if (ended is not None and not ended.get("exitCode")) or _is_up(entry, sidecars):
            continue
        if ended is not None:
            return _Initialization(f"Init:{_end_word(ended)}", index)
        if waiting.get("reason", "") not in ("", "PodInitializing"):
            return _Initialization(f"Init:{waiting['reason']}", index)
        return _Initialization(f"Init:{index}/{containers}", index)
    return _Initialization("", index + 1)


def _of_containers(statuses: Sequence[Mapping[str, Any]], word: str) -> tuple[str, int]:
    """Return the reason of the first container that waits or has ended, else `word`; and how many run and are ready."""
    running = 0
    for entry in reversed(statuses):
        state = part_of(entry, "state")
        ended = state.get("terminated")
        if reason := part_of(state, "waiting").get("reason"):
            word = reason
        elif ended is not None:
            word = _end_word(ended)
        elif entry.get("ready") and state.get("running") is not None:
            running += 1
    return word, running


def _phase(status: Mapping[str, Any]) -> str:
    gated = any(
        entry.get("type") == "PodScheduled" and entry.get("reason") == "SchedulingGated"
        for entry in status.get("conditions", ())
    )
    return "SchedulingGated" if gated else status.get("reason") or status.get("phase") or "Pending"


def _end_word(ended: Mapping[str, Any]) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_up(entry: Mapping[str, Any], sidecars: Collection[str]) -> bool:
    """Say whether this is a sidecar that has started."""
    return entry.get("name") in sidecars and bool(entry.get("started"))


def _has(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        entry.get("type") == condition and entry.get("status") == "True" for entry in status.get("conditions", ())
    )


def part_of(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return an object inside a document; {} if it is missing."""
    for name in names:
        document = document.get(name) or {}
    return document
