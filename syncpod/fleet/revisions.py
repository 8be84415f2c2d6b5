"""The revisions of a workload: which templates were applied, when, and how each rollout ended.

Mirrors pkg/controller/deployment/util, v1.36 (revisions are numbered upwards, and a template that is applied again gets
a new number) and kubectl's rollback.go. Difference: each revision also has the result of its rollout.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from syncpod.fleet.workload_traits import KINDS, TEMPLATED

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""The annotation with an author's reason for a change, as kubectl's ``rollout history`` shows it."""
DEFAULT_LIMIT: Final = 10
"""The default of `revisionHistoryLimit`."""
BYTES: Final = 128 * 1024
"""The limit for the JSON of all earlier templates together, in bytes: they are part of the workload's state."""


@dataclass(frozen=True)
class Revision:
    """One template that was applied."""

    number: int
    template: str
    """The digest of the template."""
    applied: datetime
    cause: str = ""
    """The author's reason for it; "" = none is given."""
    good_since: datetime | None = None
    """When it became good: all pods had it and were available. None = it has not."""
    given_up: str = ""
    """Why its rollout was rolled back; "" if it was not."""
    failed_pod: str = ""
    """The pod whose failure caused the rollback; "" = there was none."""
    failed_on: str = ""
    """The node of that pod."""


class NoRevision(LookupError):
    """The history has no such revision. The text explains this in one sentence."""


def revision_in(labels: Mapping[str, str]) -> str:
    """Return the revision of the template that a pod with these labels was made from; "" if from none."""
    return next((labels[label] for kind in TEMPLATED if (label := KINDS[kind].revision_label) in labels), "")


def applied(history: tuple[Revision, ...], template: str, cause: str, now: datetime) -> tuple[Revision, ...]:
    """Return the history, oldest first, with a template as its newest revision, unless it already is the newest."""
    if history and history[-1].template == template:
        return (*history[:-1], replace(history[-1], cause=cause))
    number = history[-1].number + 1 if history else 1
    return (*(each for each in history if each.template != template), Revision(number, template, now, cause))


def shortened(
    history: tuple[Revision, ...], limit: int, sizes: Mapping[str, int], needed: Collection[str]
) -> tuple[Revision, ...]:
    """Return the history with at most `limit` earlier revisions, of at most BYTES in all.

    `sizes` are the sizes of the templates in bytes. The newest revision stays, and so do the revisions of `needed`
    templates.
    """
    kept, room = list(history[-1:]), BYTES
    for each in reversed(history[:-1]):
        room -= sizes.get(each.template, 0)
        if each.template in needed or (len(kept) <= limit and room >= 0):
            kept.insert(0, each)
    return tuple(kept)


def became_good(history: tuple[Revision, ...], template: str, now: datetime) -> tuple[Revision, ...]:
    """Return the history with the note that a template has been rolled out."""
    return tuple(
        replace(each, good_since=each.good_since or now, given_up="", failed_pod="", failed_on="")
        if each.template == template
        else each
        for each in history
    )


def is_under_way(history: tuple[Revision, ...], template: str) -> bool:
    """Say whether the history has a template that is not noted as rolled out.

    A template that is applied again has a new revision without that note.
    """
    return any(each.template == template and each.good_since is None for each in history)


def given_up(
    history: tuple[Revision, ...], template: str, why: str, pod: str = "", node: str = ""
) -> tuple[Revision, ...]:
    """Return the history with the note that a template's rollout was given up, because of `pod` on `node`."""
    return tuple(
        replace(each, given_up=why, failed_pod=pod if node else "", failed_on=node)
        if each.template == template
        else each
        for each in history
    )


def chosen(history: tuple[Revision, ...], number: int, template: str = "") -> Revision:
    """Return the revision with this template; if `template` is "", the revision with this number.

    Number 0 means the last good revision: the newest one before the current that was not rolled back. Raises
    NoRevision.
    """
    if template:
        found, what = [each for each in history if each.template == template], f"template {template} not found"
    elif number:
        found, what = [each for each in history if each.number == number], f"revision {number} not found"
    else:
        found = [each for each in history[:-1] if not each.given_up][-1:]
        what = "there is no earlier revision" + (" that was not rolled back" if history[:-1] else "")
    if not found:
        known = ", ".join(str(each.number) for each in history) or "none"
        raise NoRevision(f"{what}; known: {known}")
    return found[0]
