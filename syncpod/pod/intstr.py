"""Int-or-string: a port by number or by name."""

from typing import Annotated, Any

from pydantic import PlainValidator


def _read(value: Any) -> int | str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be an integer or a string")


IntOrString = Annotated[int | str, PlainValidator(_read)]
"""A number, or a text such as a port's name; a number in quotes is a text, as in Kubernetes."""
