"""The effect of a signal or an update on a workflow's state, bound to its row in the workflow's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from syncpod.messages.command_table import CommandSpec
from workflows.rejections import Rejected

State = TypeVar("State")
Payload = TypeVar("Payload")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Effect(Generic[State, Payload, Result]):
    """A row of the table, and the function that folds its payload into the state.

    The type parameters make the two match.
    """

    command: CommandSpec[Payload]
    fold: Callable[[State, Payload, datetime], Result]
    """Raises Rejected, ValidationError or PodInvalid to refuse the payload."""

    def __call__(self, state: State, args: tuple[Any, ...], now: datetime) -> Result:
        """Decode the payload and fold it into the state. Raises Rejected, ValidationError, and the errors of `fold`."""
        if self.command.takes_payload and (len(args) > 1 or (self.command.needs_payload and not args)):
            raise Rejected(self.command.wrong_number(len(args)))
        try:
            given = self.command.decoded(args[0] if args else {})
        except ValidationError as wrong:
            if kind := self.command.wrong_kind(wrong):
                raise Rejected(kind) from None
            raise
        return self.fold(state, given, now)


def effects(*rows: Effect[State, Any, Result]) -> dict[str, Effect[State, Any, Result]]:
    """Return effects by the names of their commands."""
    return {row.command.name: row for row in rows}
