"""How long a kill may take before its step gives up.

A runtime that hangs, or a process that no signal ends, would otherwise block the step for ever without a message. The
step fails with the reason. The StopContainer calls that it sent go on, and the workflow kills again after a back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from activities.step_attempt import Interrupted, PodFault, StepAttempt, warning
from syncpod.cri.errors import CriError, Unavailable
from syncpod.messages.steps import Fault, StepResult

LEAST_SECONDS = 10.0
"""The timeout of a kill is never shorter, however short its grace is."""

_EXCEEDED = "Container runtime did not kill the pod within specified grace period."


def kill_timeout_seconds(grace_seconds: float) -> float:
    """Return how long a kill may take: half as long again as the grace (pod_workers.go, v1.36, killPodNow)."""
    return max(LEAST_SECONDS, 1.5 * grace_seconds)


async def within_kill_timeout(
    attempt: StepAttempt, grace_seconds: float, work: Coroutine[Any, Any, StepResult]
) -> StepResult:
    """Return the result of a kill, or raise PodFault once it has taken too long; the stops that it sent go on.

    The fault is ExceededGracePeriod if something has not ended, and FailedKillPod if the runtime refuses or does not
    answer. If the runtime cannot be reached at all, the error stays retryable. Each try has at least ten seconds.

    Difference: the kubelet reports this only for a pod that it evicts or preempts, and kills again at each resync.
    """
    timeout = kill_timeout_seconds(grace_seconds)
    left = max(LEAST_SECONDS, timeout - attempt.waited_seconds)
    alarm = asyncio.get_running_loop().call_later(left, attempt.expire)
    try:
        return await work
    except Interrupted:
        if not attempt.expired or attempt.asked:
            raise
        what = ", ".join(attempt.unended) or "its sandbox"
        message = f"{what} did not end within {attempt.waited_seconds:.0f} s, for a grace of {grace_seconds:.0f} s"
        raise PodFault(Fault.EXCEEDED_GRACE_PERIOD, message, warning("ExceededGracePeriod", _EXCEEDED)) from None
    except CriError as error:
        if isinstance(error, Unavailable) or attempt.waited_seconds < timeout:
            raise
        message = f"error killing pod: {error}"
        raise PodFault(Fault.FAILED_KILL_POD, str(error), warning("FailedKillPod", message)) from error
    finally:
        alarm.cancel()
