"""What two observations differ in, and what is said of it."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any, Literal

from tests.differential.explained import DEFECTS, EXPLAINED, Sentence
from tests.differential.observation import Observation

Kind = Literal["equal", "explained", "defect", "unexplained", "undecided"]


@dataclass(frozen=True)
class Difference:
    """One fact that is not the same on both sides; None where a side does not have it."""

    path: str
    kubelet: Any
    ours: Any
    sentence: Sentence | None = None


@dataclass(frozen=True)
class Verdict:
    """What a scenario came to."""

    title: str
    kind: Kind
    differences: tuple[Difference, ...] = ()
    why: str = ""


def differences(title: str, kubelet: Observation, ours: Observation) -> tuple[Difference, ...]:
    """Return what differs, in the order of its paths, each with the first sentence that fits."""
    found = []
    for path in sorted(kubelet.facts.keys() | ours.facts.keys()):
        theirs, mine = kubelet.facts.get(path), ours.facts.get(path)
        if theirs != mine:
            found.append(Difference(path, theirs, mine, sentence_for(title, path, theirs, mine)))
    return tuple(found)


def judge(title: str, found: tuple[Difference, ...]) -> Verdict:
    """Say what the differences of a scenario come to: the worst of them decides."""
    if not found:
        return Verdict(title, "equal")
    if any(each.sentence is None for each in found):
        return Verdict(title, "unexplained", found)
    defect = any(each.sentence in DEFECTS for each in found)
    return Verdict(title, "defect" if defect else "explained", found)


def sentence_for(title: str, path: str, kubelet: Any, ours: Any) -> Sentence | None:
    """Return the first sentence that fits a difference of a scenario, None if none does."""
    for sentence in (*EXPLAINED, *DEFECTS):
        here = any(fnmatch.fnmatchcase(title, each) for each in sentence.scenarios)
        this = any(fnmatch.fnmatchcase(path, each) for each in sentence.paths)
        if here and this and (sentence.holds is None or sentence.holds(kubelet, ours)):
            return sentence
    return None
