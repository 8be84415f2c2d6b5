"""A person's command has numbers and truth values of JSON: a text or another type in their place is refused."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from syncpod.messages import fleet_commands
from syncpod.messages.command_table import CommandTable, Sender
from syncpod.messages.node_commands import NODE_COMMANDS
from syncpod.messages.pod_commands import POD_COMMANDS

TABLES = [
    POD_COMMANDS,
    NODE_COMMANDS,
    *(each for each in vars(fleet_commands).values() if isinstance(each, CommandTable)),
]
WRONG: dict[type, tuple[Any, ...]] = {int: ("5", True, 5.0), bool: ("true", 1, "no")}


def parts(annotation: Any) -> list[Any]:
    """A type, or all types within a union or an Annotated."""
    within = typing.get_args(annotation)
    return [part for each in within for part in parts(each)] if within else [annotation]


def cases() -> Iterator[Any]:
    """Each number and truth value of each command that a person sends, with each wrong value."""
    for table in TABLES:
        for command in (*table.signals.values(), *table.updates.values()):
            if command.sender is not Sender.PERSON or not issubclass(command.payload, BaseModel):
                continue
            for field in command.payload.model_fields.values():
                for value in [value for kind in parts(field.annotation) if kind in WRONG for value in WRONG[kind]]:
                    yield pytest.param(command, field.alias, value, id=f"{command.name}-{field.alias}-{value!r}")


@pytest.mark.parametrize(("command", "field", "value"), list(cases()))
def test_another_type_is_refused(command: Any, field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        command.decoded({field: value})


def test_the_grace_of_a_deletion_is_among_them() -> None:
    assert sum(each.id.startswith("delete_pod-gracePeriodSeconds") for each in cases()) == len(WRONG[int])
