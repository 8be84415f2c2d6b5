"""Texts, and values that are none, without pydantic: importing it and building a parser of texts costs 60 ms.

typer has pydantic check each value of a command line, also those that can only be what they are.
"""

from __future__ import annotations

from typing import Any

_PARSER = "_runtime_param"
"""Where typer (from 0.26 on) keeps a parameter's parser, None until it is needed. Without it, nothing is changed."""


def taken_plainly(parameters: list[Any]) -> list[Any]:
    """Return these parameters of a command, which now take texts as they are; typer parses all other values."""
    for each in parameters:
        if getattr(each, _PARSER, each) is None:
            setattr(each, _PARSER, _Plain())
    return parameters


class _Plain:
    """Stands where typer keeps a parameter's parser, until a value needs that."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer's parser would. Raises typer.BadParameter."""
        wanted = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if wanted in (str, int, bool) and type(value) is wanted:
            return value
        if wanted == list[str] and type(value) in (list, tuple) and all(type(one) is str for one in value):
            return list(value)
        setattr(param, _PARSER, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
