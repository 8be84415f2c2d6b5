"""Compares the engine's answers about a pod with the notes of its containers, after the last fault.

Reading a pod takes up to a minute on a busy machine, and a crash loop continues meanwhile. So a read ("look") counts
only if the pod wrote no note during it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from qa.chaos.checker import Violation, check
from qa.chaos.notes import Note
from qa.chaos.record import PodRecord


@dataclass(frozen=True)
class Look:
    """The result of one read of a pod."""

    record: PodRecord
    written: tuple[Note, ...]
    """The notes that the pod wrote during the read. If there are any, the read does not count."""
    violations: tuple[Violation, ...]

    @property
    def is_at_rest(self) -> bool:
        return not self.written and not self.violations

    @property
    def awaited(self) -> str:
        """The new notes and the violations because of which the pod is not at rest."""
        written = [f"{self.record.name} notes {each.what} of {each.container} {each.restart}" for each in self.written]
        return "; ".join([*written, *map(str, self.violations)])


def look_at(
    records: Iterable[PodRecord], before: Sequence[Note], after: Sequence[Note], killed: Collection[str]
) -> list[Look]:
    """Compare records with the notes from before and after the pods were read."""
    looks = []
    for record in records:
        known = [note for note in before if note.uid == record.uid]
        written = tuple([note for note in after if note.uid == record.uid][len(known) :])
        violations = [] if written or not record.shown else check(known, [record], killed).violations
        if not record.shown:
            violations = [Violation("the pods are shown", record.name, "`syncpod get` does not list it")]
        looks.append(Look(record, written, tuple(violations)))
    return looks


def restless(looks: Iterable[Look]) -> list[Violation]:
    """Return the violations of pods that did not come to rest in time."""
    found: list[Violation] = []
    for look in looks:
        found += look.violations
        if look.written:
            found.append(Violation("pods come to rest", look.record.name, look.awaited))
    return found
