"""Scenarios of the comparison: a manifest and the moment at which it is compared, with building blocks for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.runtimes.images import BUSYBOX

Manifest = dict[str, Any]
Status = Mapping[str, Any]
Moment = Callable[[Status], bool]
"""Returns whether a pod's status has reached the state in which the two sides are compared."""


@dataclass(frozen=True)
class Scenario:
    """One manifest, and when it is compared."""

    family: str
    name: str
    spec: Manifest
    moment: Moment
    metadata: Manifest = field(default_factory=dict)
    ends: bool = False
    """Whether its file is removed at the moment. The pod is then compared after its sandbox has been stopped."""
    after: str = ""
    """The reason of an event that must have come too; "" = none."""
    created: int = 0
    """The fewest containers that must have been requested from the runtime."""
    still_seconds: float = 1.2
    """How long a status must stay the same before it is compared: events and conditions come in several writes."""
    refused: bool = False
    """Whether the kubelet should refuse the file. Then only the refusals are compared."""

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.family}/{self.name}"

    @property
    def pod_name(self) -> str:
        """The name in its manifest."""
        return f"{self.family}-{self.name}".replace("_", "-").lower()

    def manifest(self) -> Manifest:
        """The Pod that is written to its file. `@dir@` in it is replaced by a directory of each side."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.pod_name, **self.metadata},
            "spec": {"terminationGracePeriodSeconds": 2, **self.spec},
        }


def shell(name: str, script: str, **fields: Any) -> Manifest:
    """A container that runs a script of busybox's shell."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **fields}


def sleeper(name: str = "main", **fields: Any) -> Manifest:
    """A container that runs until SIGTERM, and then exits with 0 at once."""
    return shell(name, "trap 'exit 0' TERM; sleep 1000 & wait", **fields)


def containers(status: Status) -> list[Mapping[str, Any]]:
    """The statuses of all containers, those of init containers first."""
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def finished(status: Status) -> bool:
    """The pod has ended, and so have all its containers and its sandbox."""
    ended = status.get("phase") in ("Succeeded", "Failed")
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return (
        ended
        and conditions.get("PodReadyToStartContainers") != "True"
        and not any("running" in each.get("state", {}) for each in containers(status))
    )


def ready(status: Status) -> bool:
    """The pod is ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


def running(status: Status) -> bool:
    """Each main container runs, ready or not, and each init container runs or has ended."""
    main = status.get("containerStatuses", ())
    return status.get("phase") == "Running" and bool(main) and all("running" in each["state"] for each in main)


FAILED_STARTS: Final = ("RunContainerError", "PostStartHookError")
"""The waiting reasons of a container whose start failed, which a kubelet shows until its next sync."""


@dataclass(frozen=True)
class Waiting:
    """The moment at which a container is waiting, with this reason and exactly this number of restarts."""

    reason: str
    container: str
    restarts: int

    def __call__(self, status: Status) -> bool:
        """Return whether the container is waiting so."""
        return any(
            each["name"] == self.container
            and each.get("state", {}).get("waiting", {}).get("reason") == self.reason
            and each.get("restartCount", 0) == self.restarts
            for each in containers(status)
        )

    def or_ended(self, status: Status) -> bool:
        """Return whether the container is waiting so, or has ended, or failed to start, with this number of restarts.

        A kubelet shows a container in its back-off as waiting only from the second sync of the back-off on. If nothing
        else happens, that is the sync at the back-off's end.
        """
        failed = any(Waiting(reason, self.container, self.restarts)(status) for reason in FAILED_STARTS)
        return self(status) or failed or ended(self.container, restarts=self.restarts)(status)


def waiting(reason: str, container: str = "main", *, restarts: int = 0) -> Waiting:
    """A container is waiting, with this reason and exactly this number of restarts."""
    return Waiting(reason, container, restarts)


def ended(container: str, *, restarts: int) -> Moment:
    """A container's state is terminated after this number of restarts."""

    def has(status: Status) -> bool:
        return any(
            each["name"] == container and each.get("restartCount") == restarts and "terminated" in each.get("state", {})
            for each in containers(status)
        )

    return has


def restarted(times: int = 1, container: str = "main") -> Moment:
    """A container runs in its n-th restart."""

    def has(status: Status) -> bool:
        return any(
            each["name"] == container and each.get("restartCount") == times and "running" in each.get("state", {})
            for each in containers(status)
        )

    return has


def unready(container: str = "main") -> Moment:
    """A container runs, has started, and is not ready."""

    def is_unready(status: Status) -> bool:
        return any(
            each["name"] == container and "running" in each.get("state", {}) and not each.get("ready")
            for each in containers(status)
        )

    return is_unready


def all_of(*moments: Moment) -> Moment:
    """A moment at which all of these moments have come."""
    return lambda status: all(moment(status) for moment in moments)


def unique(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """Return the scenarios. Raises ValueError if two have the same pod name."""
    named: dict[str, Scenario] = {}
    for scenario in scenarios:
        if scenario.pod_name in named:
            raise ValueError(f"two scenarios make a pod {scenario.pod_name}")
        named[scenario.pod_name] = scenario
    return tuple(named.values())
