"""How pydantic reads and writes a plain record, in a room that does without it: as every other message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


def _wire_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


ON_WIRE: Final[Mapping[str, Any]] = {
    "alias_generator": _wire_name,
    "validate_by_name": True,
    "validate_by_alias": True,
    "serialize_by_alias": True,
    "extra": "ignore",
}
"""The ``__pydantic_config__`` of a frozen dataclass that crosses Temporal (as `syncpod.messages.identity.Message`)."""
