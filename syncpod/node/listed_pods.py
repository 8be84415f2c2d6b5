"""Sorts the entries of the runtime's two lists, of sandboxes and of containers, by pod.

A runtime may list an entry wrongly: without names, twice, or with another pod than before. Such an entry is assigned to
no pod, so nothing is started, stopped or removed because of it. If the entry belonged to a pod before, reading that pod
fails.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncpod.cri.answers import is_id, word
from syncpod.cri.errors import Unreadable
from syncpod.cri.port import ContainerAnswer, ContainerSummary, SandboxStatus, SandboxSummary
from syncpod.translation import names
from syncpod.translation.paths import is_uid

log = logging.getLogger(__name__)

Entry = SandboxSummary | ContainerSummary
Owner = tuple[str, str, int, str]
"""The owner of a sandbox or container according to its status: the pod's UID and incarnation, the attempt or restart
count, and the container's name ("" for a sandbox)."""

_LARGEST_NUMBER: Final = 2**31 - 2
"""The largest number that a view can have for a sandbox's attempt or a container's restart; CRI's numbers can be
larger."""


@dataclass(slots=True)
class ListedEntries:
    """The entries of both lists about one pod."""

    sandboxes: list[SandboxSummary] = field(default_factory=list)
    containers: list[ContainerSummary] = field(default_factory=list)
    doubt: Unreadable | None = None
    """Why these entries may be incomplete; None if there is no doubt."""
    vanished: list[Entry] = field(default_factory=list)
    """Entries that ran when they were last listed, and are missing now. The reader requests the status of each."""


class ListedPods:
    """Sorts lists by pod. Once a status of the runtime has confirmed an entry's pod, that pod never changes."""

    def __init__(self) -> None:
        """Begin with no confirmed entries."""
        self._confirmed: dict[str, Entry] = {}
        """The newest entry of each object that a status has confirmed, by id. The client returns an unchanged entry as
        the same object."""
        self._ids: defaultdict[str, set[str]] = defaultdict(set)
        """The ids of the confirmed entries, by pod UID."""
        self._passed_over: dict[str, str] = {}
        """By id: the reason why a sandbox or container with the owner's label is ignored."""

    def sort(
        self,
        sandboxes: Sequence[SandboxSummary],
        containers: Sequence[ContainerSummary],
        *,
        of: str,
        hidden: Callable[[ContainerSummary], bool],
    ) -> dict[str, ListedEntries]:
        """Return the listed entries by pod UID. Containers for which `hidden` returns True are left out.

        `of` is the UID of the only pod in the lists; "" if they have all pods.
        """
        pods: defaultdict[str, ListedEntries] = defaultdict(ListedEntries)
        odd: dict[str, str] = {}
        entries: Sequence[Entry] = (*sandboxes, *containers)
        listed = {each.id for each in entries}
        twice = _ids_listed_twice(entries) if len(listed) < len(entries) else frozenset()
        for sandbox in sandboxes:
            if self._is_owned(sandbox, twice, pods, odd):
                pods[sandbox.labels[names.POD_UID_LABEL]].sandboxes.append(sandbox)
        for container in containers:
            if self._is_owned(container, twice, pods, odd) and not hidden(container):
                pods[container.labels[names.POD_UID_LABEL]].containers.append(container)
        for id in (self._ids.get(of, set()) if of else self._confirmed.keys()) - listed:
            if _was_alive(gone := self._confirmed[id]):
                pods[gone.labels[names.POD_UID_LABEL]].vanished.append(gone)
            else:
                self.forget(id)
        self._pass_over(odd, whole=not of)
        return dict(pods)

    def confirm(self, entry: Entry) -> None:
        """Record that a status of the runtime has confirmed an entry's pod."""
        if self._confirmed.get(entry.id) is not entry:
            self._confirmed[entry.id] = entry
            self._ids[entry.labels[names.POD_UID_LABEL]].add(entry.id)

    def forget(self, id: str) -> None:
        """Forget a sandbox or container that is gone."""
        if (entry := self._confirmed.pop(id, None)) is not None:
            ids = self._ids[uid := entry.labels[names.POD_UID_LABEL]]
            ids.discard(id)
            if not ids:
                del self._ids[uid]

    def belongs_to_pod(self, id: str) -> bool:
        """Return whether a status has confirmed that this sandbox or container belongs to a pod."""
        return id in self._confirmed

    def require_own(self, operation: str, id: str, uid: str) -> None:
        """Raise Unreadable if `id`, which the runtime returned for a new object of this pod, belongs to another pod."""
        known = self._confirmed.get(id)
        if known is not None and known.labels[names.POD_UID_LABEL] != uid:
            text = f"the runtime answered with {id}, which it has listed as {_described(known)}"
            raise Unreadable(operation, "INTERNAL", text)

    def _is_owned(
        self, entry: Entry, twice: frozenset[str], pods: Mapping[str, ListedEntries], odd: dict[str, str]
    ) -> bool:
        """Return whether an entry belongs to the pod that it names.

        If not, add it to `odd`, and set `doubt` of its pods.
        """
        known = self._confirmed.get(entry.id)
        if known is entry and not twice:
            return True
        why = why_of_no_pod(entry)
        if not why and known is not None and whose(entry) != whose(known):
            why = f"it was listed as {_described(known)} before, and is now as {_described(entry)}"
        if not why and entry.id in twice:
            why = "it is listed twice, and not as the same"
            self._doubt(entry, why, pods)
        if not why:
            return True
        if known is not None:
            self._doubt(known, why, pods)
        odd[entry.id] = f"{_kind(entry)} {word(entry.id)}: {why}"
        return False

    @staticmethod
    def _doubt(entry: Entry, why: str, pods: Mapping[str, ListedEntries]) -> None:
        text = f"the runtime's list is not valid: {_kind(entry)} {word(entry.id)}: {why}"
        operation = "list_podsandbox" if isinstance(entry, SandboxSummary) else "list_containers"
        pods[entry.labels[names.POD_UID_LABEL]].doubt = Unreadable(operation, "INTERNAL", text)

    def _pass_over(self, odd: Mapping[str, str], *, whole: bool) -> None:
        """Warn once about each ignored sandbox or container; if the listing is `whole`, forget removed ones."""
        for id_, why in odd.items():
            if id_ not in self._passed_over:
                log.warning("passed over, although it has this node's label: %s", why)
        self._passed_over = dict(odd) if whole else {**self._passed_over, **odd}


def why_of_no_pod(thing: Entry) -> str:
    """Return why a sandbox or a container with our label can belong to no pod; "" if it can."""
    uid = thing.labels.get(names.POD_UID_LABEL, "")
    if not is_uid(uid):
        return f"{uid[:100]!r} is not a pod's UID"
    if thing.attempt > _LARGEST_NUMBER:
        return f"{thing.attempt} is not an attempt's number"
    if not is_id(thing.id):
        return f"{thing.id[:100]!r} is not an id"
    labels = (thing.labels.get(label, "") for label in (names.POD_NAME_LABEL, names.POD_NAMESPACE_LABEL))
    others = (thing.name, thing.namespace) if isinstance(thing, SandboxSummary) else (thing.name,)
    wrong = next((text for text in (*others, *labels) if text and not is_uid(text)), "")
    return f"{wrong[:100]!r} is not a name" if wrong else ""


def whose(thing: Entry) -> tuple[str | int, ...]:
    """Return a sandbox's or container's identity: pod UID, incarnation and number, and a container's name and sandbox.

    None of these ever changes.
    """
    place = (thing.name, thing.sandbox_id) if isinstance(thing, ContainerSummary) else ()
    labels, annotations = thing.labels, thing.annotations
    incarnation = annotations.get(names.INCARNATION_ANNOTATION, "")
    return (labels.get(names.POD_UID_LABEL, ""), incarnation, thing.attempt, *place)


def still_there(entry: Entry) -> Unreadable:
    """Return the error for an entry that the runtime no longer lists, although it still returns a status of it."""
    operation = "list_podsandbox" if isinstance(entry, SandboxSummary) else "list_containers"
    text = f"the runtime does not list {_kind(entry)} {entry.id}, {_described(entry)}, although it answers about it"
    return Unreadable(operation, "INTERNAL", text)


def owner_of(answer: SandboxStatus | ContainerAnswer) -> Owner:
    """Return the owner that a status names."""
    labels, annotations = answer.labels, answer.annotations
    uid, incarnation = labels.get(names.POD_UID_LABEL, ""), annotations.get(names.INCARNATION_ANNOTATION, "")
    if isinstance(answer, ContainerAnswer):
        return uid, incarnation, answer.container.restart_count, answer.container.name
    return uid, incarnation, answer.attempt, ""


def is_same(listed: Entry, owner: Owner | None) -> bool:
    """Return whether a list's entry has this `owner`, which `owner_of` has returned for a status."""
    if owner is None:
        return False
    uid, incarnation, number, name = owner
    if (number, name) != (listed.attempt, listed.name if isinstance(listed, ContainerSummary) else ""):
        return False
    labels, annotations = listed.labels, listed.annotations
    return uid == labels.get(names.POD_UID_LABEL, "") and incarnation == annotations.get(
        names.INCARNATION_ANNOTATION, ""
    )


def require_same(listed: Entry, owner: Owner) -> None:
    """Raise Unreadable if a status and the list's entry with the same id have different pods, containers or numbers."""
    if is_same(listed, owner):
        return
    uid, _, number, name = owner
    operation = "podsandbox_status" if isinstance(listed, SandboxSummary) else "container_status"
    text = (
        f"the runtime lists {listed.id} as {_described(listed)}, and its status is of {word(name or listed.name)!r}, "
        f"number {number}, of pod {word(uid)!r}"
    )
    raise Unreadable(operation, "INTERNAL", text)


def _ids_listed_twice(entries: Sequence[Entry]) -> frozenset[str]:
    return frozenset(id for id, times in Counter(each.id for each in entries).items() if times > 1)


def _was_alive(entry: Entry) -> bool:
    return entry.state in ("running", "SANDBOX_READY")


def _kind(entry: Entry) -> str:
    return "sandbox" if isinstance(entry, SandboxSummary) else "container"


def _described(entry: Entry) -> str:
    place = f" in sandbox {word(entry.sandbox_id)!r}" if isinstance(entry, ContainerSummary) else ""
    return f"{word(entry.name)!r}, number {entry.attempt},{place} of pod {word(entry.labels[names.POD_UID_LABEL])}"
