"""Refuses, in a node's worker, each activity whose input its fleet has not sealed for the node, and logs one line."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from syncpod.messages.sealing import FOR_ANOTHER_KEY, SEALED_BY_ANOTHER
from syncpod.messages.signed import Refused
from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)

UNSEALED: Final = "Unsealed"
"""The type of the failure of an activity whose input the node could not open."""
QUIET_SECONDS: Final = 60.0
"""How long the same reason is not logged again."""
_MEANINGS: Final = {
    FOR_ANOTHER_KEY: "the fleet asked it for an earlier certificate of this node, and asks anew within seconds",
    SEALED_BY_ANOTHER: "if the fleet's sealing key was removed while this node was away, invite the node anew",
}


class RefusesUnsealed(Interceptor):
    """Fails an activity whose input the node's codec has refused. The fleet then sends it anew, with current keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self._lines = RareLines(QUIET_SECONDS, clock)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # the SDK's name
        """Wrap the node's activities."""
        return _Refuses(next, self)

    def say(self, question: str, why: str) -> None:
        """Log that a question of the fleet was refused, at most once a minute for each reason."""
        if self._lines.left_out(why) is not None:
            meaning = f" ({_MEANINGS[why]})" if why in _MEANINGS else ""
            log.warning("the fleet's request %s is refused: %s%s", question, why, meaning)


class _Refuses(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, refusals: RefusesUnsealed) -> None:
        super().__init__(next)
        self._refusals = refusals

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # the SDK's name
        why = next((each.why for each in input.args if isinstance(each, Refused)), "")
        if not why and len(input.args) != 1:
            why = f"it has {len(input.args)} payloads, and not one"
        if why:
            self._refusals.say(activity.info().activity_type, why)
            # Not retried: the next try would have the same input. The fleet's workflow waits, and sends a new activity.
            text = f"the node refuses what it is asked: {why}"
            raise ApplicationError(text, type=UNSEALED, non_retryable=True, category=ApplicationErrorCategory.BENIGN)
        return await super().execute_activity(input)
