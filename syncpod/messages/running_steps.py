"""What a node's steps say of themselves while they run, for readers on its socket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from syncpod.messages.identity import PodRef, pod_workflow_id


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


def steps_of(steps: Iterable[RunningStep]) -> dict[str, list[dict[str, Any]]]:
    """Return the steps by workflow id, as JSON."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in steps:
        workflow_id = pod_workflow_id(each.ref.namespace, each.ref.name)
        said = {"uid": each.ref.uid, "step": each.name, "container": each.container, "doing": each.telling}
        found.setdefault(workflow_id, []).append(said)
    return found
