"""The engine's answers about a pod that has ended or no longer changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PodRecord:
    """One incarnation of a pod: its manifest, the engine's answers about it, and the faults of its workflow."""

    document: dict[str, Any]
    """The Pod as it was applied, with its UID."""
    shown: dict[str, Any] = field(default_factory=dict)
    """The output of `syncpod get -o json`; {} if the pod is gone."""
    history: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    terminated: bool = False
    """Whether its workflow was terminated, so that later restarts were not counted."""
    reset: bool = False
    """Whether its workflow was reset to an earlier moment."""
    undone: tuple[tuple[dict[str, Any], ...], ...] = ()
    """The histories of the runs that were reset. Later runs do not have their entries from after the reset point."""

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
        """Whether the engine shows this incarnation; False if it shows another pod of the same name, or none."""
        return self.shown_uid == self.uid

    @property
    def shown_uid(self) -> str:
        """The UID of the pod that the engine shows; "" if it shows nothing."""
        uid: str = self.shown.get("metadata", {}).get("uid", "")
        return uid

    @property
    def never(self) -> bool:
        """Whether none of its containers may start twice."""
        return bool(self.document["spec"].get("restartPolicy") == "Never")

    @property
    def inits(self) -> tuple[str, ...]:
        """Its init containers without sidecars, in their order."""
        containers = self.document["spec"].get("initContainers", [])
        return tuple(each["name"] for each in containers if each.get("restartPolicy") != "Always")

    @property
    def order(self) -> tuple[str, ...]:
        """All its init containers, including sidecars, in their order."""
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
        """Its phase, and the state, reason and restarts of each container, in one line."""
        phase = self.shown.get("status", {}).get("phase", "not shown")
        shown = ", ".join(f"{name} {_state_of(self.status(name))}" for name in (*self.order, *self.mains))
        return f"{self.name} ({self.uid}) {phase}: {shown}"

    def status(self, container: str) -> dict[str, Any]:
        """Return the status of one container; {} if the engine shows none."""
        status = self.shown.get("status", {})
        listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        return next((each for each in listed if each["name"] == container), {})

    def exits(self, container: str) -> tuple[str, ...]:
        """Return the ends of a container's instances in the history, in the order of recording, such as `7 (Error)`."""
        return _exits_in(self.history, container)

    def exits_by_run(self, container: str) -> tuple[tuple[str, ...], ...]:
        """Return the result of `exits` for each run: the last run, and those that were reset."""
        return tuple(_exits_in(history, container) for history in (self.history, *self.undone))

    def exits_of(self, container: str, restart: int) -> tuple[str, ...]:
        """Return the recorded ends of one instance: perhaps none, or several if a later record corrects the first."""
        return _exits_in(self.history, container, restart)

    def undone_exits_of(self, container: str, restart: int) -> tuple[str, ...]:
        """Return the result of `exits_of` from the runs that were reset."""
        return tuple(exit_ for history in self.undone for exit_ in _exits_in(history, container, restart))


def _exits_in(history: Iterable[dict[str, Any]], container: str, restart: int | None = None) -> tuple[str, ...]:
    """Return the exits of one instance of a container; None = of every instance."""
    lines = (line for line in history if line["kind"] == "exit" and line["subject"] == container)
    return tuple(line["outcome"].removeprefix("exited ") for line in lines if restart in (None, line["restart"]))


def _state_of(status: dict[str, Any]) -> str:
    """Return a container's state, reason and restarts: `waiting (CrashLoopBackOff: back-off 10s ...), 3 restarts`."""
    for kind, state in status.get("state", {}).items():
        said = ": ".join(filter(None, (state.get("reason", ""), state.get("message", ""))))
        code = f" {state['exitCode']}" if kind == "terminated" else ""
        return f"{kind}{code}{f' ({said})' if said else ''}, {status.get('restartCount')} restarts"
    return "without a state"
