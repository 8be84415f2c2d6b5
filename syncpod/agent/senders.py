"""Finds out who sent the commands that pods have obeyed, for the node's journal.

A workflow does not learn who signals it; its server does, and forgets it with the run. So the agent asks the server as
soon as the journal has a command. It costs a call for each command of a person. It costs none for a start, and none for
a deletion that the node's own workflow wants.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from temporalio.service import RPCError, RPCStatusCode

from syncpod.journal.records import SENDER, HistoryEntry, PodLife
from syncpod.messages.pod_commands import DELETE, POD_COMMANDS
from syncpod.temporal.senders import Sent

log = logging.getLogger(__name__)

_WAITING: Final = 1000
"""How many commands wait at most while the server does not answer; then the oldest go without."""
_TOGETHER: Final = 50
"""How many answers are written at once."""
_RETRY_SECONDS: Final = 10.0
_LONGEST: Final = 200
"""Characters of an identity that are kept: its sender may say anything."""
_THE_NODE: Final = "the node"
_CANCEL: Final = "cancel"
"""A request to cancel a workflow, which is a deletion."""

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
class CommandEntry:
    """A line of a pod's history that says what somebody has commanded."""

    workflow_id: str
    run_id: str
    life: PodLife
    line: HistoryEntry


def sender_of(line: HistoryEntry, sent: Sequence[Sent]) -> str:
    """Return the sender of the command that a line records; "" if it is not among the sent ones. Pure.

    A signal is recorded just before it is obeyed, an update just after: of several, the nearest is meant.
    """
    names = {line.subject, POD_COMMANDS.same_as(line.subject), _CANCEL if line.subject == DELETE.name else ""}
    meant = [each for each in sent if each.name in names and each.identity]
    return min(meant, key=lambda each: abs(each.at - line.at)).identity if meant else ""


class Senders:
    """The commands whose senders are yet to be asked for."""

    def __init__(
        self, ask: AskServer, *, node: str, keep: Callable[[Sequence[tuple[PodLife, HistoryEntry]]], Awaitable[None]]
    ) -> None:
        """Ask `ask`, and give the answers to `keep`, as lines of the journal. `node` is this node's name."""
        self._ask, self._node, self._keep = ask, node, keep
        self._waiting: deque[CommandEntry] = deque(maxlen=_WAITING)
        self._own: OrderedDict[tuple[str, str, datetime], None] = OrderedDict()
        """Recent commands of the node itself: a workflow's id, and subject and time of its history's line."""
        self._news = asyncio.Event()

    def take(self, command: CommandEntry) -> None:
        """Ask for a command's sender soon."""
        self._waiting.append(command)
        self._news.set()

    def know(self, workflow_id: str, subject: str, at: datetime) -> None:
        """Remember that a line of a pod's history with this subject and time records a command of this node."""
        self._own[workflow_id, subject, at] = None
        while len(self._own) > _WAITING:
            self._own.popitem(last=False)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            while self._waiting:
                answers, is_away = await self._answers()
                if answers:
                    await self._keep(answers)
                if is_away:
                    await asyncio.sleep(_RETRY_SECONDS)
            self._news.clear()
            await self._news.wait()

    async def _answers(self) -> tuple[list[tuple[PodLife, HistoryEntry]], bool]:
        """Ask for the senders of the commands that wait; also say whether the server cannot answer now.

        The answers for a crowd are written at once, since each write has a thread and a transaction of its own.
        """
        answers: list[tuple[PodLife, HistoryEntry]] = []
        while self._waiting and len(answers) < _TOGETHER:
            try:
                answers.extend(await self._find(self._waiting[0]))
            except RPCError as error:
                if error.status in _PASSING:
                    return answers, True
            with contextlib.suppress(IndexError):
                self._waiting.popleft()
        return answers, False

    async def _find(self, command: CommandEntry) -> Sequence[tuple[PodLife, HistoryEntry]]:
        """Return the line that says who sent a command; none if the server does not know. Raises RPCError."""
        own = (command.workflow_id, command.line.subject, command.line.at)
        if own in self._own:
            del self._own[own]
            whose = _THE_NODE
        else:
            identity = sender_of(command.line, await self._ask(command.workflow_id, command.run_id))
            if not identity:
                return ()
            whose = _THE_NODE if identity.startswith(f"{self._node}/") else identity[:_LONGEST]
        return ((command.life, replace(command.line, kind=SENDER, reason=whose, outcome="", fact="", seconds=None)),)
