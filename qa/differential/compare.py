"""Judges the differences between two observations, and keeps verdicts in a file."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from qa.differential.explained import DEFECTS, EXPLAINED
from qa.differential.sentence import Facts, Sentence

Kind = Literal["equal", "explained", "defect", "unexplained", "undecided"]
NEVER_TRIED: Final = "never tried"
"""The reason of an undecided scenario that is not in the file of results."""


@dataclass(frozen=True)
class Difference:
    """One fact that differs between the sides. A value is None if that side does not have the fact."""

    path: str
    kubelet: Any
    ours: Any
    sentence: Sentence | None = None


@dataclass(frozen=True)
class Seen:
    """All facts of a scenario, on both sides."""

    kubelet: Facts
    ours: Facts


@dataclass(frozen=True)
class Verdict:
    """The judgement of a scenario."""

    title: str
    kind: Kind
    differences: tuple[Difference, ...] = ()
    why: str = ""
    seen: Seen | None = None
    """The facts that were compared; None = there was nothing to compare."""


def judge(title: str, seen: Seen) -> Verdict:
    """Return the verdict on a scenario, which its worst difference decides."""
    found = tuple(_differences(title, seen))
    if not found:
        return Verdict(title, "equal", seen=seen)
    if any(each.sentence is None for each in found):
        return Verdict(title, "unexplained", found, seen=seen)
    defect = any(each.sentence in DEFECTS for each in found)
    return Verdict(title, "defect" if defect else "explained", found, seen=seen)


def _differences(title: str, seen: Seen) -> Iterator[Difference]:
    """Yield the differences by path, each with the first sentence that explains it."""
    for path in sorted(seen.kubelet.keys() | seen.ours.keys()):
        theirs, mine = seen.kubelet.get(path), seen.ours.get(path)
        if theirs != mine:
            yield Difference(path, theirs, mine, _sentence_for(title, path, seen))


def _sentence_for(title: str, path: str, seen: Seen) -> Sentence | None:
    """Return the first sentence that explains a difference of a scenario; None if none does."""
    for sentence in (*EXPLAINED, *DEFECTS):
        here = any(fnmatch.fnmatchcase(title, each) for each in sentence.scenarios)
        this = any(fnmatch.fnmatchcase(path, each) for each in sentence.paths)
        if here and this and _holds(sentence, path, seen):
            return sentence
    return None


def _holds(sentence: Sentence, path: str, seen: Seen) -> bool:
    """Return whether a sentence explains the two values: by its `holds`, and by its `turned`."""
    theirs, mine = seen.kubelet.get(path), seen.ours.get(path)
    if sentence.holds is not None and not sentence.holds(theirs, mine):
        return False
    return sentence.turned is None or sentence.turned(seen.kubelet, seen.ours).get(path) == mine


def keep(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Write verdicts to the file, each in place of an older one of its scenario."""
    known = _read(path)
    for verdict in verdicts:
        seen = {"kubelet": verdict.seen.kubelet, "ours": verdict.seen.ours} if verdict.seen is not None else None
        known[verdict.title] = {"why": verdict.why, "seen": seen}
    path.write_text(json.dumps(known, indent=1, sort_keys=True))


def kept(path: Path, titles: Iterable[str]) -> list[Verdict]:
    """Return verdicts on these scenarios: the file's facts, judged by today's sentences; undecided if never tried."""
    known = _read(path)
    verdicts = []
    for title in titles:
        entry = known.get(title, {"why": NEVER_TRIED, "seen": None})
        if entry["seen"] is None:
            verdicts.append(Verdict(title, "undecided", why=entry["why"]))
        else:
            verdicts.append(judge(title, Seen(**entry["seen"])))
    return verdicts


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found
