"""The revisions of a workload: which templates were asked for, when, and what became of each.

Mirrors pkg/controller/deployment/util, v1.36 (revisions are numbered upwards, and a template that is asked for again
gets a new number) and kubectl's rollback.go. Difference: what became of a revision is kept with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""The annotation in which an author says why, as kubectl's ``rollout history`` shows it."""
DEFAULT_LIMIT: Final = 10
"""`revisionHistoryLimit`, where it is not given."""
BYTES: Final = 512 * 1024
"""Earlier templates are remembered up to this size, all together, as JSON: they travel with the workload's state."""


@dataclass(frozen=True)
class Revision:
    """One template that was asked for."""

    number: int
    template: str
    """What the template is called."""
    applied: datetime
    cause: str = ""
    """Why, in its author's words."""
    good_since: datetime | None = None
    """When all pods had it, and were available; None = that has not been so."""
    given_up: str = ""
    """Why its rollout was given up; "" if it was not."""


class NoRevision(LookupError):
    """There is no such revision; the text says so in one sentence."""


def applied(history: tuple[Revision, ...], template: str, cause: str, now: datetime) -> tuple[Revision, ...]:
    """Return the history, oldest first, with a template as its newest revision; that one again is no new revision."""
    if history and history[-1].template == template:
        return (*history[:-1], replace(history[-1], cause=cause))
    number = history[-1].number + 1 if history else 1
    return (*(each for each in history if each.template != template), Revision(number, template, now, cause))


def shortened(
    history: tuple[Revision, ...], limit: int, sizes: Mapping[str, int], needed: Collection[str]
) -> tuple[Revision, ...]:
    """Return the history with no more than `limit` earlier revisions, of at most BYTES together.

    `sizes` are the templates' in bytes. The newest one stays, and those of `needed` templates.
    """
    kept, room = list(history[-1:]), BYTES
    for each in reversed(history[:-1]):
        room -= sizes.get(each.template, 0)
        if each.template in needed or (len(kept) <= limit and room >= 0):
            kept.insert(0, each)
    return tuple(kept)


def became_good(history: tuple[Revision, ...], template: str, now: datetime) -> tuple[Revision, ...]:
    """Note that a template is rolled out."""
    return tuple(
        replace(each, good_since=each.good_since or now, given_up="") if each.template == template else each
        for each in history
    )


def given_up(history: tuple[Revision, ...], template: str, why: str) -> tuple[Revision, ...]:
    """Note that the rollout of a template was given up."""
    return tuple(replace(each, given_up=why) if each.template == template else each for each in history)


def chosen(history: tuple[Revision, ...], number: int) -> Revision:
    """Return the revision of this number; 0 = the one before the newest. Raises NoRevision."""
    found = [each for each in history if each.number == number] if number else list(history[-2:-1])
    if not found:
        known = ", ".join(str(each.number) for each in history) or "none"
        what = f"revision {number} not found" if number else "there is no earlier revision"
        raise NoRevision(f"{what}; known: {known}")
    return found[0]
