"""Reads which labels or annotations ``label`` and ``annotate`` set and remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names


@dataclass(frozen=True)
class KeyChange:
    """A change of labels or annotations."""

    field: Literal["labels", "annotations"]
    wanted: Mapping[str, str]
    """The values to set."""
    removed: Set[str]
    """The keys to remove."""
    overwrite: bool
    """Whether existing values may be replaced."""


def read_key_change(
    words: Sequence[str], field: Literal["labels", "annotations"], *, overwrite: bool
) -> tuple[list[str], KeyChange]:
    """Parse ``pod web a=b c-``: return the names of the pods, and the change. Raises BadInput."""
    at = next((at for at, word in enumerate(words) if "=" in word or word.endswith("-")), len(words))
    wanted: dict[str, str] = {}
    removed: set[str] = set()
    for word in words[at:]:
        key, equals, value = word.partition("=")
        if equals and key:
            wanted[key] = value
        elif word.endswith("-") and len(word) > 1 and not equals:
            removed.add(word[:-1])
        else:
            raise BadInput(f"{word!r}: write KEY=VALUE to set one of the {field}, KEY- to remove it")
    if both := wanted.keys() & removed:
        raise BadInput(f"{min(both)}: either set or removed, not both")
    if not wanted and not removed:
        raise BadInput(f"say which {field} to set or remove: KEY=VALUE, KEY-")
    return pod_names(words[:at]) if at else [], KeyChange(field, wanted, removed, overwrite)
