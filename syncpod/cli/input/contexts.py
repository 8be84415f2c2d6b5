"""The two contexts of a command that a node and a fleet both have, and the options of each.

The page of such a command declares its options once, as the fields of a record. Its command for the node and its
command for the fleet both take this record, and typer has its fields as parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

from typer.models import OptionInfo, ParameterInfo

_T = TypeVar("_T")


class Context(Enum):
    """What a command is for: ``syncpod VERB`` or ``syncpod fleet VERB``."""

    NODE = "node"
    FLEET = "fleet"


OnlyNode: TypeAlias = Annotated[_T, Context.NODE]
"""An option that the fleet's command does not have."""
OnlyFleet: TypeAlias = Annotated[_T, Context.FLEET]
"""An option that the node's command does not have."""


@dataclass(frozen=True)
class InFleet:
    """The help and the metavar of an option in the fleet's command, where they differ; "" = as in the node's."""

    help: str = ""
    metavar: str = ""


def with_parameters(command: Callable[..., None], context: Context) -> Callable[..., None]:
    """Return a command as typer takes it: with a parameter for each field of the record that it takes.

    The options of the other context are left out, and have their defaults. A command without a record is returned as it
    is.
    """
    if (record := _record_of(command)) is None:
        return command
    other = Context.NODE if context is Context.FLEET else Context.FLEET
    options = inspect.signature(record, eval_str=True).parameters.values()
    own = [_shown(each, context) for each in options if other not in get_args(each.annotation)]

    def page(**given: Any) -> None:
        command(record(**given))

    page.__doc__ = command.__doc__
    page.__annotations__ = {each.name: each.annotation for each in own}
    page.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return page


def _record_of(command: Callable[..., None]) -> Any:
    """Return the record of options that a command takes; None = it takes the options themselves."""
    taken = [each.annotation for each in inspect.signature(command, eval_str=True).parameters.values()]
    return taken[0] if taken and is_dataclass(taken[0]) else None


def _shown(field: inspect.Parameter, context: Context) -> inspect.Parameter:
    """Return a parameter with the help and the metavar that its option has in this context."""
    value, *notes = get_args(field.annotation)
    option = copy(next(note for note in notes if isinstance(note, ParameterInfo)))
    for note in notes:
        if isinstance(note, InFleet) and context is Context.FLEET:
            option.help, option.metavar = note.help or option.help, note.metavar or option.metavar
    return field.replace(annotation=Annotated[value, option])


def flags_for_node(given: Any, besides: Collection[str] = ()) -> list[str]:
    """Return the flags with which the node's command is told what the fleet's was: all that are not the default.

    An empty value is sent too: the node's error says what is valid. The fields `besides` are left out.
    """
    notes = get_type_hints(type(given), include_extras=True)
    flags = []
    for each in fields(given):
        of_field = get_args(notes[each.name])
        is_flag = any(isinstance(note, OptionInfo) for note in of_field) and Context.FLEET not in of_field
        if is_flag and each.name not in besides and (value := getattr(given, each.name)) != each.default:
            name = f"--{each.name.replace('_', '-')}"
            flags.append(name if value is True else f"{name}={value}")
    return flags
