"""Finds out who sent the commands that pods have obeyed, for the node's journal.

A workflow does not learn who signals it; its server does, and forgets it with the run. So the agent asks the server as
soon as the journal has a command. It costs a call for each command of a person, and none for a start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from temporalio.service import RPCError, RPCStatusCode

from syncpod.journal.records import SENDER, Life, Line
from syncpod.temporal.senders import Sent

log = logging.getLogger(__name__)

_WAITING: Final = 1000
"""How many commands wait at most while the server does not answer; then the oldest go without."""
_RETRY_SECONDS: Final = 10.0
_LONGEST: Final = 200
"""Characters of an identity that are kept: its sender may say anything."""
_SENT_AS: Final = {"apply": ("apply", "update_pod"), "delete": ("delete", "delete_pod", "cancel")}
"""What a line's subject may have been sent as, if not by its own name."""

_PASSING: Final = frozenset(
    (
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    )
)
"""How a call fails that may succeed later. Otherwise the run is gone, or the server does not tell."""

AskServer = Callable[[str, str], Awaitable[list[Sent]]]
"""Returns what a run of a workflow was sent of late, newest first. Raises RPCError."""


@dataclass(frozen=True)
class Command:
    """A line of a pod's history that says what somebody has commanded."""

    workflow_id: str
    run_id: str
    life: Life
    line: Line


def sender_of(line: Line, sent: Sequence[Sent]) -> str:
    """Return the identity of who sent what a line is about; "" if that is not among what was sent. Pure.

    A signal is recorded just before it is obeyed, an update just after: of several, the nearest is meant.
    """
    names = _SENT_AS.get(line.subject, (line.subject,))
    meant = [each for each in sent if each.name in names and each.identity]
    return min(meant, key=lambda each: abs(each.at - line.at)).identity if meant else ""


class Senders:
    """The commands whose senders are yet to be asked for."""

    def __init__(self, ask: AskServer, *, node: str, keep: Callable[[Life, Line], Awaitable[None]]) -> None:
        """Ask `ask`, and give each answer to `keep`, as a line of the journal. `node` is this node's name."""
        self._ask, self._node, self._keep = ask, node, keep
        self._waiting: deque[Command] = deque(maxlen=_WAITING)
        self._news = asyncio.Event()

    def take(self, command: Command) -> None:
        """Ask for a command's sender soon."""
        self._waiting.append(command)
        self._news.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            while self._waiting:
                if await self._find(self._waiting[0]):
                    with contextlib.suppress(IndexError):
                        self._waiting.popleft()
                else:
                    await asyncio.sleep(_RETRY_SECONDS)
            self._news.clear()
            await self._news.wait()

    async def _find(self, command: Command) -> bool:
        """Have a command's sender kept; say whether there is no more to do for it."""
        try:
            sent = await self._ask(command.workflow_id, command.run_id)
        except RPCError as error:
            return error.status not in _PASSING
        if identity := sender_of(command.line, sent):
            whose = "the node" if identity.startswith(f"{self._node}/") else identity[:_LONGEST]
            await self._keep(
                command.life, replace(command.line, kind=SENDER, reason=whose, outcome="", fact="", seconds=None)
            )
        return True
