"""What the engine says of a pod, once it has ended or has come to rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PodRecord:
    """One incarnation of a pod: as it was applied, as the engine shows it, and what was done to it."""

    document: dict[str, Any]
    """As it was applied, with a UID."""
    shown: dict[str, Any] = field(default_factory=dict)
    """As `syncpod get -o json` has it; {} if nobody can say any more."""
    history: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    terminated: bool = False
    """Its workflow was terminated: nobody kept count any more."""
    reset: bool = False
    """Its workflow was reset to an earlier moment."""
    undone: tuple[tuple[dict[str, Any], ...], ...] = ()
    """The histories of the runs that were reset: no later run knows what happened after the moment of the reset."""

    @property
    def uid(self) -> str:
        uid: str = self.document["metadata"]["uid"]
        return uid

    @property
    def name(self) -> str:
        name: str = self.document["metadata"]["name"]
        return name

    @property
    def is_own(self) -> bool:
        """Whether what is shown is this incarnation, and not another one of its name; False if nothing is shown."""
        return self.shown_uid == self.uid

    @property
    def shown_uid(self) -> str:
        """The UID of the pod that is shown; "" if nothing is."""
        uid: str = self.shown.get("metadata", {}).get("uid", "")
        return uid

    @property
    def never(self) -> bool:
        """Whether no container of it may start twice."""
        return bool(self.document["spec"].get("restartPolicy") == "Never")

    @property
    def inits(self) -> tuple[str, ...]:
        """Its init containers that come to an end, in their order."""
        containers = self.document["spec"].get("initContainers", [])
        return tuple(each["name"] for each in containers if each.get("restartPolicy") != "Always")

    @property
    def order(self) -> tuple[str, ...]:
        """All init containers, in their order; sidecars are among them."""
        return tuple(each["name"] for each in self.document["spec"].get("initContainers", []))

    @property
    def mains(self) -> tuple[str, ...]:
        return tuple(each["name"] for each in self.document["spec"]["containers"])

    @property
    def with_pre_stop(self) -> tuple[str, ...]:
        """The containers that have a preStop hook."""
        containers = [*self.document["spec"].get("initContainers", []), *self.document["spec"]["containers"]]
        return tuple(each["name"] for each in containers if "preStop" in each.get("lifecycle", {}))

    @property
    def summary(self) -> str:
        """Its phase, and of each container the state with its reason and the restarts, in one line."""
        phase = self.shown.get("status", {}).get("phase", "not shown")
        shown = ", ".join(f"{name} {_state_of(self.status(name))}" for name in (*self.order, *self.mains))
        return f"{self.name} ({self.uid}) {phase}: {shown}"

    def status(self, container: str) -> dict[str, Any]:
        """What is shown of one container; {} if nothing is."""
        status = self.shown.get("status", {})
        listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        return next((each for each in listed if each["name"] == container), {})

    def exits(self, container: str) -> tuple[str, ...]:
        """How each instance ended, by the history, oldest first: `7 (Error)`."""
        return _exits_in(self.history, container)

    def exits_by_run(self, container: str) -> tuple[tuple[str, ...], ...]:
        """The same of each run: of the last one, and of those that were reset."""
        return tuple(_exits_in(history, container) for history in (self.history, *self.undone))


def _exits_in(history: Iterable[dict[str, Any]], container: str) -> tuple[str, ...]:
    lines = (line for line in history if line["kind"] == "exit" and line["subject"] == container)
    return tuple(line["outcome"].removeprefix("exited ") for line in lines)


def _state_of(status: dict[str, Any]) -> str:
    """A container's state with its reason, and its restarts: `waiting (CrashLoopBackOff: back-off 10s ...), 3`."""
    for kind, state in status.get("state", {}).items():
        said = ": ".join(filter(None, (state.get("reason", ""), state.get("message", ""))))
        code = f" {state['exitCode']}" if kind == "terminated" else ""
        return f"{kind}{code}{f' ({said})' if said else ''}, {status.get('restartCount')} restarts"
    return "without a state"
