"""Whether a failed start was refused, was interrupted or may have run, by the runtime's message.

Holds: No instance starts twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.start_errors import FailedStart, failed_start, without_guess

NO_SUCH_PROGRAM = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    'unable to start container process: exec: "/no": stat /no: no such file or directory: unknown'
)
CASES: dict[str, tuple[str, FailedStart]] = {
    "a program that is not there": (NO_SUCH_PROGRAM, "refused"),
    "a sandbox that has gone": ('sandbox container "5c1" is not running', "cut off"),
    "runc will not start it": (
        'failed to start containerd task "ab": OCI runtime start failed: cannot start a container that has stopped',
        "refused",
    ),
    "the caller goes while the task is made": (
        "failed to create containerd task: failed to create shim task: context canceled",
        "cut off",
    ),
    "the caller's time is over while the task is made": (
        "failed to create containerd task: context deadline exceeded: unknown",
        "cut off",
    ),
    "the shim dies with its sandbox while the task is made": (
        "failed to create containerd task: failed to create shim task: ttrpc: closed",
        "cut off",
    ),
    "the shim has gone with its sandbox before the task is made": (
        'failed to create containerd task: failed to start shim: failed to load sandbox task "8b": dial unix',
        "cut off",
    ),
    "the caller goes while the process is started": (
        'failed to start containerd task "ab": context canceled',
        "unknown",
    ),
    "runc is killed with its caller": (
        'failed to start containerd task "ab": OCI runtime start failed: context canceled: unknown',
        "unknown",
    ),
    "the shim dies while the process is started": ('failed to start containerd task "ab": ttrpc: closed', "unknown"),
    "the start cannot be written down": ('failed to update container "ab" state: no space left on device', "unknown"),
    "the embedded runtime cannot start it": (
        "failed to start container process: /bin/no: No such file or directory",
        "refused",
    ),
    "the embedded runtime withdraws a start": (
        "the runtime was restarted while the container was being started",
        "cut off",
    ),
}


@pytest.mark.parametrize(("message", "meaning"), CASES.values(), ids=CASES.keys())
def test_a_start_error_says_whether_the_process_may_have_run(message: str, meaning: FailedStart) -> None:
    assert failed_start(message) == meaning
    exit_ = Exit(id="c1", exit_code=128, reason="StartError", message=message)
    told = without_guess(exit_)
    assert (told == exit_) == (meaning != "unknown")
    if meaning == "unknown":
        assert (told.exit_code, told.reason) == (137, "ContainerStatusUnknown")
        assert message in told.message
    instance = ObservedContainer(id="c1", state="exited").ended_as(told)
    assert instance.has_run == (meaning != "cut off")
    assert instance.was_refused == (meaning == "refused")


def test_a_container_that_was_seen_running_keeps_its_exit() -> None:
    ran = Exit(exit_code=3, reason="StartError", message=CASES["the shim dies while the process is started"][0])
    ran = replace(ran, started_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert without_guess(ran) == ran
