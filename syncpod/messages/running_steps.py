"""What a node's steps say of themselves while they run, for readers of its API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from syncpod.messages.identity import PodRef


class RunningStep(Protocol):
    """One attempt of a step that is under way. Its values may change from one moment to the next."""

    @property
    def ref(self) -> PodRef:
        """Its pod."""

    @property
    def name(self) -> str:
        """The step's name, such as `pull_image`."""

    @property
    def container(self) -> str:
        """The container that it is about; "" = the pod."""

    @property
    def telling(self) -> str:
        """What it does or waits for, in one phrase."""


def steps_of(steps: Iterable[RunningStep]) -> list[dict[str, Any]]:
    """Return the steps as JSON, each with the namespace, name and UID of its pod."""
    return [
        {
            **{"namespace": each.ref.namespace, "name": each.ref.name, "uid": each.ref.uid},
            **{"step": each.name, "container": each.container, "doing": each.telling},
        }
        for each in steps
    ]
