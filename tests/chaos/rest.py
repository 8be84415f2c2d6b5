"""Whether what the engine says of a pod agrees with what its containers have noted, once nothing is broken any more.

Reading a pod takes a while, a minute on a starved machine, and a pod that crashes goes on meanwhile. So a pod is judged
only by a look during which it has noted nothing, and each pod by a look of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.checker import Violation, check
from tests.chaos.notes import Note
from tests.chaos.record import PodRecord


@dataclass(frozen=True)
class Look:
    """What was found when one pod was looked at."""

    record: PodRecord
    written: tuple[Note, ...]
    """What it has noted while it was read: nothing can be said of it then."""
    violations: tuple[Violation, ...]

    @property
    def is_at_rest(self) -> bool:
        return not self.written and not self.violations

    @property
    def awaited(self) -> str:
        """What keeps the pod from being at rest."""
        written = [f"{self.record.name} notes {each.what} of {each.container} {each.restart}" for each in self.written]
        return "; ".join([*written, *map(str, self.violations)])


def look_at(
    records: Iterable[PodRecord], before: Sequence[Note], after: Sequence[Note], killed: Collection[str]
) -> list[Look]:
    """Compare records with the notes from before and after they were read."""
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
    """What is wrong with pods that do not come to rest in time."""
    found: list[Violation] = []
    for look in looks:
        found += look.violations
        if look.written:
            found.append(Violation("pods come to rest", look.record.name, look.awaited))
    return found
