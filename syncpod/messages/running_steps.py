"""A pod's steps while they run: their own descriptions, and Temporal's view of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from syncpod.messages.identity import PodRef


class RunningStep(Protocol):
    """One attempt of a step that is under way. Its values may change from one moment to the next."""

    @property
    def ref(self) -> PodRef:
        """The pod that the step belongs to."""

    @property
    def name(self) -> str:
        """The step's name, such as `pull_image`."""

    @property
    def container(self) -> str:
        """The container that it is about; "" = the pod."""

    @property
    def telling(self) -> str:
        """What the step does or waits for at this moment, in one phrase."""


@dataclass(frozen=True)
class PendingStep:
    """A step that Temporal is trying."""

    name: str
    attempt: int
    since: datetime | None
    """When the attempt was scheduled; between two attempts, when the next is due."""
    failure: str
    """How the last attempt failed; "" = none has."""
    doing: str = ""
    """The text of its last heartbeat: `pulls web:1: 12.3 of 40.1 MiB, 8 s`; "" if it has sent none."""


def steps_of(steps: Iterable[RunningStep]) -> list[dict[str, Any]]:
    """Return the steps as JSON, each with the namespace, name and UID of its pod."""
    return [
        {
            **{"namespace": each.ref.namespace, "name": each.ref.name, "uid": each.ref.uid},
            **{"step": each.name, "container": each.container, "doing": each.telling},
        }
        for each in steps
    ]
