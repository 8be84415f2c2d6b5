"""How one instance of a container ended: a single record, from the node that sees the end to the pod's status.

A node reads it from the runtime (`syncpod.node.reader`), or gets it from the kernel (`syncpod.node.seen_exits`). A view
carries it as `ObservedContainer.exit`. The pod's workflow adds when and why (`RecordedExit`). It keeps the newest exit
of each container as long as the pod lives, so that a dead container may be removed at once. The status and the decision
whether the container is started again are made from it.

The kubelet has no such record: it keeps dead containers, and infers the past from them.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE
from syncpod.pod.wire import ForeignText, Model, Time

ExitCode = Annotated[int, Field(ge=-(2**31), lt=2**31)]

KILLED: Final = 128 + 9
"""The exit code that runtimes give to an end by SIGKILL."""

STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
UNKNOWN_EXIT_CODE: Final = KILLED
"""Reason and exit code of an end that nobody saw (kubelet_pods.go, v1.36, convertToAPIContainerStatuses)."""

DOUBTFUL_EXIT_CODE: Final = 255
"""The code that a runtime lists for a container whose end it missed, or whose shim was killed."""

OUT_OF_MEMORY: Final = "OOMKilled"
"""The reason that runtimes give if a process of the container, its first or another, was ended for lack of memory."""

UNKNOWN_TO_RUNTIME: Final = "Unknown"
"""The reason that runtimes list, with 255, if they know only that a container has ended."""


class Exit(Model):
    """How one instance of a container ended."""

    id: str = ""
    """The instance's id in the runtime, without the runtime's name."""
    name: str = ""
    """The container's name."""
    restart: int = 0
    """The instance's number."""
    sandbox: str = ""
    """The sandbox (runtime id) that it ran in; "" = not known."""
    exit_code: ExitCode = 0
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, `StartError`, ... as the runtime words it."""
    message: ForeignText = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    """`started_at` and `finished_at` are by the node's clock, as the runtime reports them; None if not known."""

    @property
    def is_unknown_to_runtime(self) -> bool:
        """Whether the runtime only knows that the container has ended: it, or the shim, was down at that time."""
        return (self.exit_code, self.reason) == (DOUBTFUL_EXIT_CODE, UNKNOWN_TO_RUNTIME)

    @property
    def is_unknown(self) -> bool:
        """Whether the record only says that the container has ended; later news may replace it."""
        return self.reason == STATUS_UNKNOWN or self.is_unknown_to_runtime

    @property
    def is_certain(self) -> bool:
        """Whether somebody saw how the container ended, rather than only that it must have."""
        return self.reason != STATUS_UNKNOWN and self.finished_at is not None

    @property
    def how(self) -> str:
        """Exit code and reason in one phrase: `1 (Error)`."""
        return f"{self.exit_code} ({self.reason})" if self.reason else str(self.exit_code)

    @property
    def in_brief(self) -> Exit:
        """The same without its message, which may be long."""
        return self.model_copy(update={"message": ""})


class RecordedExit(Exit):
    """An exit as the pod's workflow keeps it: with what only the workflow knows."""

    at: Time
    """When it ended, by the workflow's clock: when it was seen, minus its age then. Back-offs run from this time."""
    cause: str = ""
    """Why we ended the container, in words; "" = it exited by itself."""
    killed_by: str = ""
    """The `KillCause`, of this version or of a newer one; "" = it exited by itself."""
    is_settled: bool = False
    """Whether this is what the end counts as, whatever the runtime lists."""

    @property
    def why(self) -> str:
        """Why we ended the container, and that it did not end when it was asked to; "" = it exited by itself.

        A runtime sends SIGKILL once the grace of a stop is over; the kernel sends it for lack of memory.
        """
        is_by_signal = self.exit_code == KILLED and self.reason not in (STATUS_UNKNOWN, OUT_OF_MEMORY)
        return f"{self.cause}{AFTER_ITS_GRACE}" if self.cause and is_by_signal else self.cause


def reason_of(exit_code: int) -> str:
    """Return the reason that runtimes give for an exit code when they know of no other."""
    return "Completed" if exit_code == 0 else "Error"
