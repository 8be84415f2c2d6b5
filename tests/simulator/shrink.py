"""Reduces a failing case to a short one that fails in the same way."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulator.faults import Case
from tests.simulator.pods import Manifest
from tests.simulator.runtime import FOREVER
from tests.simulator.simulation import simulate


def shrink(case: Case, fails: Callable[[Case], bool] | None = None) -> Case:
    """Return the smallest case found that violates the same invariant as `case`, which must fail.

    Events are left out by delta debugging (ddmin): halves, quarters, down to single ones, until none can be spared.
    Then containers, lives and settings are made plainer, one at a time, as long as that goes on.
    """
    if fails is None:
        wanted = signature(simulate(case).violation)

        def fails(candidate: Case) -> bool:
            return signature(simulate(candidate).violation) == wanted

    case = _fewer_events(case, fails)
    while (plainer := _plainest(case, fails)) is not case:
        case = _fewer_events(plainer, fails)
    return case


def signature(violation: str) -> str:
    """Return which invariant a violation is of: its first words, without names and numbers."""
    first = violation.split("\n")[0].split(":")[0]
    return re.sub(r"\b(a|b|i|j|s|debug-\d)\b|[\d.]+", "*", first)


def _fewer_events(case: Case, fails: Callable[[Case], bool]) -> Case:
    events, parts = case.events, 2
    while events:
        size = max(1, len(events) // parts)
        for begin in range(0, len(events), size):
            fewer = events[:begin] + events[begin + size :]
            if fails(replace(case, events=fewer)):
                events, parts = fewer, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(events))
    return replace(case, events=events)


def _plainest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Simplify a case in one part after another, in one pass; return the same case if nothing can be omitted.

    What was needed once is not tried again in this pass: each try is a whole simulation.
    """
    candidates, needed = list(_plainer(case)), 0
    while needed < len(candidates):
        if fails(candidates[needed]):
            case = candidates[needed]
            candidates = list(_plainer(case))
        else:
            needed += 1
    return case


def _plainer(case: Case) -> Iterator[Case]:
    """Yield cases that are each simpler than this one in one part."""
    for manifest in _smaller(case.manifest):
        yield replace(case, manifest=manifest)
    names = _names(case.manifest)
    # An init container that never ends is another case: nothing follows it.
    ends = {each["name"] for each in case.manifest["spec"].get("initContainers", ()) if "restartPolicy" not in each}
    lives = {name: life for name, life in case.lives.items() if name in names}
    if lives != case.lives:
        yield replace(case, lives=lives)
    if case.absent:
        yield replace(case, absent=False)
    if case.max_events:
        yield replace(case, max_events=0)
    for name, each in case.lives.items():
        if each != (FOREVER,) and name not in ends:
            yield replace(case, lives={**case.lives, name: (FOREVER,)})
        if len(each) > 1:
            yield replace(case, lives={**case.lives, name: each[:-1]})
        for index, life in enumerate(each):
            if life.stop != FOREVER.stop or life.kill:
                plain = replace(life, stop=FOREVER.stop, kill=0.0)
                yield replace(case, lives={**case.lives, name: (*each[:index], plain, *each[index + 1 :])})


_SPARED = ("resources", "livenessProbe", "lifecycle")
"""The fields of containers that may be omitted."""


def _names(manifest: Manifest) -> set[str]:
    spec = manifest["spec"]
    return {container["name"] for kind in ("initContainers", "containers") for container in spec.get(kind, ())}


def _smaller(manifest: Manifest) -> Iterator[Manifest]:
    """Yield manifests that each lack one part."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(manifest["spec"].get(kind, ())):
            less = copy.deepcopy(manifest)
            del less["spec"][kind][index]
            if less["spec"]["containers"]:
                yield less
            for key, plain in (("imagePullPolicy", "IfNotPresent"), *((key, None) for key in _SPARED)):
                if container.get(key) != plain:
                    less = copy.deepcopy(manifest)
                    if plain is None:
                        del less["spec"][kind][index][key]
                    else:
                        less["spec"][kind][index][key] = plain
                    yield less
    if "activeDeadlineSeconds" in manifest["spec"]:
        less = copy.deepcopy(manifest)
        del less["spec"]["activeDeadlineSeconds"]
        yield less
