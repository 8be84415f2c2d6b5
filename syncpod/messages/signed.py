"""Signed commands, as workflows and steps see them: content, purpose, and the commands that came before.

The signatures themselves are made and verified outside of workflows (`syncpod.temporal.signing`). A workflow gets the
result of the verification together with the value, and the same result in each replay.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

START: Final = "start"
"""The purpose of a run's input."""
ANY: Final = "any"
"""The purpose of a codec server's payloads: the server does not learn whether a start, a signal or an update
follows."""
INPUT: Final = "input"
"""The purpose of a step's input."""
RESULT: Final = "result"
"""The purpose of everything that a step gives back: its result, the details of its failure, its heartbeats."""

OVERTAKEN: Final = "Overtaken"
"""The type of the error of an update whose number is too low for its workflow. The update is accepted if it is signed
again."""

NODE: Final = (
    "a node's commands must be signed with the key in its state directory "
    '(for temporal and tctl: eval "$(syncpod env)")'
)
"""Ends the sentence that refuses a command to a node."""
FLEET: Final = "a fleet's commands must be signed with the keys in its directory, by `syncpod --fleet`"
"""Ends the sentence that refuses a command to a fleet."""
IN_TIME: Final = timedelta(minutes=5)
"""The most time, in a fleet, between the signature of a start and the moment at which the server begins the run."""

REMEMBERED: Final = 256
"""How many numbers of accepted commands a workflow keeps. A command is refused if this many commands with higher
numbers were accepted before it."""
NOT_JSON: Final = "its payload is signed, but is not readable JSON"
"""Why a payload with a good signature is refused: a text in it may have half of a surrogate pair."""
_NO_PAYLOAD: Final = "it has no payload that could be signed ({} is one)"
_ANY: Final = "`--input '{}'`"


@dataclass(frozen=True)
class Marked:
    """A value to be signed when it is sent."""

    value: Any
    purpose: str
    number: int = 0
    """Its number among all commands of the node; 0 = it has none, since its purpose makes it unique."""


@dataclass(frozen=True)
class Received:
    """The input of a run, a signal or an update, with the result of verifying its signature."""

    value: Any
    purpose: str = ""
    number: int = 0
    refusal: str = ""
    """Why its signature is not accepted, as a clause: "it is not signed"; "" if it is accepted."""

    def refused_as(self, purpose: str) -> str:
        """Return why the input is not accepted for this purpose; "" if it is."""
        if self.refusal:
            return self.refusal
        if self.purpose not in (purpose, ANY):
            return f"it was signed as {self.purpose}"
        return "" if self.number > 0 else "its signature has no number"


@dataclass(frozen=True)
class Refused:
    """Stands for a step's input or result whose signature is not accepted."""

    why: str


def plain(value: Any) -> Any:
    """Return a value as it was sent, without regard to its signature: for queries, which change nothing."""
    return value.value if isinstance(value, Received) else value


class Accepted(BaseModel):
    """A record of the numbered commands that a workflow has accepted: each once, and none from before its start."""

    model_config = ConfigDict(frozen=True)

    floor: int = 0
    """A command with this number or a lower one is refused."""
    numbers: tuple[int, ...] = ()
    """The newest accepted numbers above the floor, ascending."""

    def refusal(self, number: int) -> str:
        """Return why a command of this number is refused; "" if it is not."""
        if number in self.numbers:
            return "it is a copy of a command that was carried out before"
        return "it is older than what was carried out before" if number <= self.floor else ""

    def adding(self, number: int) -> Accepted:
        """Return the record after a command of this number was accepted. The caller has checked `refusal`."""
        numbers = list(self.numbers)
        insort(numbers, number)
        dropped, kept = numbers[:-REMEMBERED], numbers[-REMEMBERED:]
        return Accepted(floor=max([self.floor, *dropped]), numbers=tuple(kept))


def first_and_more(inputs: Sequence[Any]) -> tuple[Any, int]:
    """Return the first payload of a start, None if it has none, and how many others came with it.

    Anybody can start a workflow with any number of payloads. A workflow with a fixed number of parameters would fail
    its first task for ever if it got another number, and the workflow's id would stay taken.
    """
    return (inputs[0] if inputs else None), max(0, len(inputs) - 1)


class Commands:
    """Decides which commands one run accepts: they must be signed if the run's own start was."""

    def __init__(self, start: Any, whose: str = NODE, purpose: str = START, *, more: int = 0) -> None:
        """`start` is the run's input as it was received, which must be signed for this purpose.

        `whose` ends the sentence that refuses a command. `more` is the number of payloads besides `start`; a start with
        more than one payload begins nothing.
        """
        self._whose = whose
        self.signed = isinstance(start, Received)
        self.input = plain(start)
        self.number = start.number if isinstance(start, Received) else 0
        self.refusal = ""
        """Why the run must not begin; "" if it may."""
        if isinstance(start, Received) and (why := start.refused_as(purpose)):
            self.refusal = unsigned("the start", why, whose)
        elif more:
            self.refusal = f"input: takes one payload, got {more + 1}"

    def accepted_before(self, continued: Accepted) -> Accepted:
        """Return the record of accepted commands with which the run begins; `continued` is the previous run's record.

        A run that continues or follows a previous run, or begins from that run's published state, goes on with its
        record. Any other run accepts no command from before its start.
        """
        if not self.signed:
            return continued
        if isinstance(self.input, dict):
            if "snapshot" in self.input:
                return continued
            if "accepted" in self.input:
                return Accepted.model_validate(self.input["accepted"])
        return Accepted(floor=self.number)

    def checked(
        self, accepted: Accepted, purpose: str, args: Sequence[Any], example: str = _ANY
    ) -> tuple[Accepted, str]:
        """Return the record after this command, and "".

        If the command is refused, return the old record and the reason. `purpose` is ``signal/NAME`` or
        ``update/NAME``, and `example` shows a payload that it takes.
        """
        return taken(accepted, purpose, args, self._whose, example) if self.signed else (accepted, "")

    def refusal_of(self, purpose: str, args: Sequence[Any], example: str = _ANY) -> str:
        """Return why the signature of a command is refused; "" if it is accepted. Copies are not looked for."""
        if not self.signed:
            return ""
        none = "" if args else _NO_PAYLOAD.format(example)
        why = next((why for each in args if (why := _refused_as(each, purpose))), none)
        return self.refused(purpose, why) if why else ""

    def refused(self, purpose: str, why: str) -> str:
        """Return the sentence that refuses a command, for a reason that is a clause."""
        return unsigned(purpose.replace("/", " ", 1), why, self._whose)

    def is_overtaken(self, accepted: Accepted, purpose: str, args: Sequence[Any]) -> bool:
        """Say whether a refused command would be accepted if it was signed again: only its number is too low."""
        known = [each for each in args if isinstance(each, Received) and not each.refused_as(purpose)]
        old = [each.number for each in known if each.number <= accepted.floor]
        return self.signed and len(known) == len(args) and bool(old) and not set(old) & set(accepted.numbers)


def continuing(run_id: str) -> str:
    """Return the purpose of the input of a fleet's run that continues this run. The server names the run."""
    return f"{START}/{run_id}"


def microseconds(at: datetime) -> int:
    """Return a moment as the number of a command: in microseconds since 1970."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class FleetCommands(Commands):
    """Decides which commands one run of a fleet accepts.

    A fleet's workers may run on several machines, which share no list of used starts. So a start is valid only for a
    run that the server begins within :data:`IN_TIME` of its signature. The start of a continuing run is valid only for
    a run that continues the same run.
    """

    def __init__(self, start: Any, began: datetime, continued: str = "", *, more: int = 0) -> None:
        """`began` is when the server began the run, and `continued` is the run that it continues; "" = none.

        `more` is as for `Commands`.
        """
        super().__init__(start, FLEET, continuing(continued) if continued else START, more=more)
        self.not_its_history = ""
        """Why no worker of this fleet may complete the run's workflow tasks; "" if they may."""
        if self.signed and not self.refusal:
            early = timedelta(microseconds=microseconds(began) - self.number)
            if abs(early) > IN_TIME:
                self.refusal = (
                    f"the start is refused, since it was signed {abs(early.total_seconds()):.0f} s "
                    f"{'before' if early > timedelta() else 'after'} the server began the run, and no more than "
                    f"{IN_TIME.total_seconds():.0f} s are accepted: either it is a copy, or the clock of the machine "
                    "that commands the fleet is not that of the fleet's server"
                )


def taken(
    accepted: Accepted, purpose: str, args: Sequence[Any], whose: str = NODE, example: str = _ANY
) -> tuple[Accepted, str]:
    """Check a command that must be signed. Returns the same pair as :meth:`Commands.checked`."""
    what = purpose.replace("/", " ", 1)
    if not args:
        return accepted, unsigned(what, _NO_PAYLOAD.format(example), whose)
    known = accepted
    for each in args:
        if why := _refused_as(each, purpose) or known.refusal(each.number):
            return accepted, unsigned(what, why, whose)
        known = known.adding(each.number)
    return known, ""


def _refused_as(given: Any, purpose: str) -> str:
    return given.refused_as(purpose) if isinstance(given, Received) else "it is not signed"


def unsigned(what: str, why: str, whose: str = NODE) -> str:
    """Return the sentence that refuses a command. It ends with the remedy if the signature is at fault."""
    return f"{what} is refused, since {why}" + ("" if why == NOT_JSON else f": {whose}")
