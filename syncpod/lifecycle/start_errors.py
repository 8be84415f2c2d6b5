"""Interprets a failed start: the process never began, it may have begun, or the start was only cut off.

If a runtime could not carry out a start, it lists the container as EXITED 128 `StartError`, with no start time, and
with the error as the message. containerd does so in three cases that differ (internal/cri/server/container_start.go,
1.6 to 2.4):

- containerd or the OCI runtime refused. No process of the container ran, and the same start would be refused again.
- The caller went away while the task was being made, or the sandbox had gone before. No process ran, and nothing was
  wrong with the container.
- The caller went away, or the shim died, while the process was being started. The process may have run: containerd then
  kills it, and lists it as if it had never run.

The embedded runtime has messages of its own for the first two cases, and in the third lists how the process ended.
CRI-O never lists such an end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit

START_ERROR: Final = "StartError"
"""The reason that runtimes list for a start that they could not carry out."""

FailedStart = Literal["refused", "cut off", "unknown"]
"""The outcome for the process. Refused: it never began, and never will. Cut off: it never began. Unknown: it may have
begun."""

_BEGINNING: Final = ("failed to start containerd task", "failed to update container")
"""The beginnings of containerd's error if containerd had already called its shim to start the process."""

_REFUSED_BY_THE_OCI_RUNTIME: Final = "OCI runtime start failed"
"""The shim's error if the OCI runtime itself has refused: the process is then never released to run."""

_CUT_OFF: Final = ("context canceled", "context deadline exceeded", "ttrpc: closed", "failed to start shim")
"""A part of containerd's error if only the caller went away, or the shim with its sandbox."""

_NOTHING_TO_START_IN: Final = ("sandbox container ", "the runtime was restarted while the container was being started")
"""The beginnings of the error if the sandbox was gone (containerd), or the runtime gave up the start (embedded)."""


def failed_start(message: str) -> FailedStart:
    """Return the outcome of a `StartError` with this message for the container's process."""
    cut_off = any(words in message for words in _CUT_OFF)
    if message.startswith(_BEGINNING):
        return "refused" if _REFUSED_BY_THE_OCI_RUNTIME in message and not cut_off else "unknown"
    return "cut off" if cut_off or message.startswith(_NOTHING_TO_START_IN) else "refused"


def with_meaning(message: str, short: str) -> str:
    """Return `short`, a cut `message`, if it keeps the meaning of the `StartError`; else a phrase with that meaning."""
    meaning = failed_start(message)
    return short if failed_start(short) == meaning else _SIGNS[meaning]


_SIGNS: Final[dict[FailedStart, str]] = {
    "refused": "",
    "cut off": _CUT_OFF[0],
    "unknown": _BEGINNING[0],
}


def without_guess(exit_: Exit) -> Exit:
    """Return an unknown exit for a failed start whose process may have begun, and any other exit unchanged.

    The runtime lists an instance with such a start as never started. If the listing were trusted, the container could
    run a second time.
    """
    if exit_.reason != START_ERROR or exit_.started_at is not None or failed_start(exit_.message) != "unknown":
        return exit_
    message = f"The runtime gave up the start when the process may have begun: {exit_.message}"
    return replace(exit_, exit_code=UNKNOWN_EXIT_CODE, reason=STATUS_UNKNOWN, message=message)
