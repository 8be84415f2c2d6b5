"""The output of pods' workflows with default values for the fields that a test does not use."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from syncpod.journal.records import TaskRecords
from syncpod.messages.identity import EndedLife
from syncpod.pod import ObjectMeta


class Known(NamedTuple):
    """The part of a published state that identifies its pod."""

    metadata: ObjectMeta
    is_followed: bool = False


class OfNoPod:
    """A published state without a pod, without remains and without answers."""

    is_followed = False
    incarnation = ""
    replacing: Collection[str] = ()
    ended_life: EndedLife | None = None

    @property
    def metadata(self) -> ObjectMeta:
        return ObjectMeta()

    def pod(self) -> dict[str, Any]:
        return {}

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        return {}

    def history(self) -> list[dict[str, Any]]:
        return []

    def events(self) -> list[dict[str, Any]]:
        return []

    def steps(self) -> list[str]:
        return []

    def node(self) -> dict[str, Any]:
        return {}

    def next_input(self) -> dict[str, Any]:
        return {}

    def summary(self) -> None: ...

    def journal_records(self, since: datetime | None) -> TaskRecords | None:
        return None
