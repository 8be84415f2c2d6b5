"""A workflow's handlers of signals and updates, made from its table of commands.

::

    @workflow.defn(name=POD_WORKFLOW)
    @takes(POD_COMMANDS)
    class PodWorkflow: ...

Each handler takes any number of payloads, so that none fails a workflow task, and hands them to the workflow's
`receive`, `change` or `check` with the row. Queries are methods, marked by :func:`query_handler`; the handler of
unknown signals is a method too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.messages.command_table import CommandTable, QuerySpec, SignalSpec, UpdateSpec

UNKNOWN_UPDATE: Final = "An update of any other name is refused"
_NAME: Final = 100
"""How many characters of an unknown update's name are quoted."""
UNKNOWN: Final = "A signal of any other name is shown as a rejection"


class Takes(Protocol):
    """The work that the handlers leave to their workflow."""

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises."""

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> Any:
        """Carry out an accepted update, and return its answer."""

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Validate an update before it is in the history. Raises ApplicationError if it is refused."""


Workflow = TypeVar("Workflow", bound=type[Takes])
Method = TypeVar("Method", bound=Callable[..., Any])


def takes(table: CommandTable) -> Callable[[Workflow], Workflow]:
    """Give a workflow class a handler for each signal and update of its table."""

    def decorate(kind: Workflow) -> Workflow:
        for name, handler in _handlers(table).items():
            setattr(kind, name, handler)
        return kind

    return decorate


def _handlers(table: CommandTable) -> dict[str, Callable[..., Any]]:
    """Return the methods that a workflow gets, by name."""
    return {
        **{f"signal_{name}": _signal_handler(signal) for name, signal in table.signals.items()},
        **{f"update_{name}": _update_handler(update) for name, update in table.updates.items()},
        "update_of_another_name": _refused_updates(table),
    }


def query_handler(query: QuerySpec) -> Callable[[Method], Method]:
    """Make a method the handler of a query."""
    return workflow.query(name=query.name, description=query.description)


def unknown_signal(table: CommandTable, name: str, given: int) -> str:
    """Return the sentence that rejects an unknown signal; `given` is the number of its payloads."""
    if (update := table.updates.get(name)) is not None:
        return f"{name} is an update: `temporal workflow update execute --name {name}` with {update.example}"
    return f"unknown, with {given} payload{'' if given == 1 else 's'}; known: {', '.join(table.signals)}"


def unknown_update(table: CommandTable, name: str) -> str:
    """Return the sentence that refuses an unknown update."""
    if (signal := table.signals.get(name)) is not None:
        return f"{name} is a signal: `temporal workflow signal --name {name}` with {signal.example}"
    return f"unknown update {name[:_NAME]}; known: {', '.join(table.updates)}"


def _refused_updates(table: CommandTable) -> Callable[..., Any]:
    """Return the handler that refuses unknown updates before they are in the history."""

    class Refusing:
        def check(self, name: str, args: Sequence[RawValue]) -> None:
            raise ApplicationError(unknown_update(table, name), type="Invalid", non_retryable=True)

        @workflow.update(dynamic=True, description=UNKNOWN_UPDATE)
        async def refuse(self, name: str, args: Sequence[RawValue]) -> None:
            raise ApplicationError(unknown_update(table, name), type="Invalid", non_retryable=True)

    refuse = Refusing.refuse
    refuse.validator(Refusing.check)
    return refuse


def _signal_handler(signal: SignalSpec[Any]) -> Callable[..., None]:
    @workflow.signal(name=signal.name, description=signal.description)
    def receive(self: Takes, *args: Any) -> None:
        self.receive(signal, args)

    return receive


def _update_handler(update: UpdateSpec[Any]) -> Callable[..., Any]:
    @workflow.update(name=update.name, description=update.description)
    async def change(self: Takes, *args: Any) -> Any:
        return await self.change(update, args)

    def check(self: Takes, *args: Any) -> None:
        self.check(update, args)

    change.validator(check)
    return change
