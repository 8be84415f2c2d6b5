"""Finds out who sent the commands that pods have received, for the node's journal.

A signal does not carry its sender. Only the run's history on the server has the sender, and the history is deleted with
the run. So the agent asks the server as soon as the journal has a command: one call for each command of a person, and
none for starts and for the node's own deletions.
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
"""The most commands that wait while the server does not answer; the oldest are dropped, and stay without a sender."""
_TOGETHER: Final = 50
"""The most senders that are written together."""
_RETRY_SECONDS: Final = 10.0
_LONGEST: Final = 200
"""The most characters of an identity that are kept: a client may choose any text."""
_THE_NODE: Final = "the node"
_CANCEL: Final = "cancel"
"""The name of a cancellation of the workflow, which deletes its pod."""

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
"""Errors of calls that are retried. After any other error the sender stays unknown, as if the run were gone."""

AskServer = Callable[[str, str], Awaitable[list[Sent]]]
"""Returns the latest signals and updates of a run, newest first, by workflow id and run id. Raises RPCError."""


@dataclass(frozen=True)
class CommandEntry:
    """A line of a pod's history that records a command."""

    workflow_id: str
    run_id: str
    life: PodLife
    entry: HistoryEntry


def sender_of(entry: HistoryEntry, sent: Sequence[Sent]) -> str:
    """Return the sender of the command that a line records; "" if it is not among the sent ones. Pure.

    If several match, the nearest in time counts: a signal's event comes just before the line, an update's just after.
    """
    names = {entry.subject, POD_COMMANDS.same_as(entry.subject), _CANCEL if entry.subject == DELETE.name else ""}
    meant = [each for each in sent if each.name in names and each.identity]
    return min(meant, key=lambda each: abs(each.at - entry.at)).identity if meant else ""


class Senders:
    """The queue of commands whose senders must still be found."""

    def __init__(
        self, ask: AskServer, *, node: str, keep: Callable[[Sequence[tuple[PodLife, HistoryEntry]]], Awaitable[None]]
    ) -> None:
        """Query the server with `ask`, and pass the senders to `keep`, as journal lines. `node` is the node's name."""
        self._ask, self._node, self._keep = ask, node, keep
        self._waiting: deque[CommandEntry] = deque(maxlen=_WAITING)
        self._own: OrderedDict[tuple[str, str, datetime], None] = OrderedDict()
        """Recent commands of the node itself: workflow id, and subject and time of the line in its history."""
        self._news = asyncio.Event()

    def take(self, command: CommandEntry) -> None:
        """Queue a command, to find its sender soon."""
        self._waiting.append(command)
        self._news.set()

    def know(self, workflow_id: str, subject: str, at: datetime) -> None:
        """Note that the history line with this subject and time records a command of this node."""
        self._own[workflow_id, subject, at] = None
        while len(self._own) > _WAITING:
            self._own.popitem(last=False)

    async def run(self) -> None:
        """Find the senders of queued commands until cancelled."""
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
        """Return lines with the senders of queued commands, and whether the server is unreachable now.

        Up to `_TOGETHER` are returned at a time, since each write has a thread and a transaction of its own.
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
        """Return the line that names a command's sender; empty if the server has no sender. Raises RPCError."""
        own = (command.workflow_id, command.entry.subject, command.entry.at)
        if own in self._own:
            del self._own[own]
            whose = _THE_NODE
        else:
            identity = sender_of(command.entry, await self._ask(command.workflow_id, command.run_id))
            if not identity:
                return ()
            whose = _THE_NODE if identity.startswith(f"{self._node}/") else identity[:_LONGEST]
        return ((command.life, replace(command.entry, kind=SENDER, reason=whose, outcome="", fact="", seconds=None)),)
