"""How one instance of a container ended: one record, which goes from the node through the workflow to the status.

A node reads it from the runtime (`syncpod.node.reader`), or gets it from the kernel (`syncpod.node.seen_exits`). A view
carries it as `ObservedContainer.exit`. The pod's workflow adds when and why (`Exit.recorded`). It keeps the newest exit
of each container as long as the pod lives, so that a dead container may be removed at once. Three things are made from
it: the status, the decision whether the container starts again, and the journal's record of the instance.

The kubelet has no such record: it keeps dead containers, and infers the past from them. This module does not import
pydantic, because the journal's readers do not; messages carry exits as `syncpod.messages.queries.WireExit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final

from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE

KILLED: Final = 128 + 9
"""The exit code that runtimes list for a process that was ended by SIGKILL."""

STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
UNKNOWN_EXIT_CODE: Final = KILLED
"""The exit code of an end that nobody saw; its reason is `STATUS_UNKNOWN` (kubelet_pods.go, v1.36,
convertToAPIContainerStatuses)."""

DOUBTFUL_EXIT_CODE: Final = 255
"""The code that a runtime lists for a container whose end it missed, or whose shim was killed."""

OUT_OF_MEMORY: Final = "OOMKilled"
"""The reason that runtimes give if a process of the container, its first or another, was ended for lack of memory."""

UNKNOWN_TO_RUNTIME: Final = "Unknown"
"""The reason that runtimes list, with 255, if they have no record of how a container ended."""


def _wire_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


ON_WIRE: Final[Mapping[str, Any]] = {
    "alias_generator": _wire_name,
    "validate_by_name": True,
    "validate_by_alias": True,
    "serialize_by_alias": True,
    "extra": "ignore",
}
"""The ``__pydantic_config__`` of a frozen dataclass that crosses Temporal. `syncpod.messages.identity.Message` has the
same one; this one is for modules that do without pydantic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How one instance of a container ended."""

    __pydantic_config__: ClassVar = ON_WIRE

    id: str = ""
    """The instance's id in the runtime, without the runtime's name."""
    name: str = ""
    """The container's name."""
    restart: int = 0
    """The instance's number within its container, from 0."""
    sandbox: str = ""
    """The sandbox (runtime id) that it ran in; "" = not known."""
    exit_code: int = 0
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, `StartError`, ... as the runtime words it."""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    """`started_at` and `finished_at` are by the node's clock, as the runtime reports them; None if not known."""
    at: datetime | None = None
    """When it ended, by the workflow's clock: when the workflow received the exit, minus the exit's age at that time.
    None until the exit is `recorded`."""
    cause: str = ""
    """Why the node ended the container, in words; "" = it exited by itself."""
    killed_by: str = ""
    """The `KillCause`, perhaps one that only a newer version has; "" = the container exited by itself."""
    is_settled: bool = False
    """True if the record is final: later listings of the instance by the runtime do not replace it."""

    def recorded(self, at: datetime, *, cause: str, killed_by: str) -> Exit:
        """Return the exit as the pod's workflow keeps it, with the fields that only the workflow can set."""
        return replace(self, at=at, cause=cause, killed_by=killed_by)

    @property
    def since(self) -> datetime:
        """The time from which back-offs run (`at`). Raises ValueError if the exit is not recorded."""
        if self.at is None:
            raise ValueError(f"the exit of instance {self.restart} of container {self.name} is not recorded")
        return self.at

    @property
    def is_unknown_to_runtime(self) -> bool:
        """Whether the runtime lists only that the container has ended: the runtime or the shim was down at the time."""
        return (self.exit_code, self.reason) == (DOUBTFUL_EXIT_CODE, UNKNOWN_TO_RUNTIME)

    @property
    def is_unknown(self) -> bool:
        """Whether the record has only the fact that the container has ended; a later listing may replace it."""
        return self.reason == STATUS_UNKNOWN or self.is_unknown_to_runtime

    @property
    def is_certain(self) -> bool:
        """Whether the end itself was observed, and not only inferred because the container is gone."""
        return self.reason != STATUS_UNKNOWN and self.finished_at is not None

    @property
    def how(self) -> str:
        """Exit code and reason in one phrase: `1 (Error)`."""
        return f"{self.exit_code} ({self.reason})" if self.reason else str(self.exit_code)

    @property
    def in_brief(self) -> Exit:
        """The exit without its message, which may be long."""
        return replace(self, message="")

    @property
    def why(self) -> str:
        """Why the node ended the container, and whether only SIGKILL ended it; "" = it exited by itself.

        A runtime sends SIGKILL once the grace of a stop is over; the kernel sends it for lack of memory.
        """
        is_by_signal = self.exit_code == KILLED and self.reason not in (STATUS_UNKNOWN, OUT_OF_MEMORY)
        return f"{self.cause}{AFTER_ITS_GRACE}" if self.cause and is_by_signal else self.cause


def reason_of(exit_code: int) -> str:
    """Return the reason that runtimes list for an exit code if the end had no special reason."""
    return "Completed" if exit_code == 0 else "Error"
