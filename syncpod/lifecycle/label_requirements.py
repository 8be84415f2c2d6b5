"""Checks whether labels meet a requirement of a label selector or of a node selector.

Mirrors apimachinery, pkg/labels/selector.go, v0.36, Requirement.Matches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from syncpod.pod import LabelSelectorRequirement, NodeSelectorRequirement

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


def meets(requirement: LabelSelectorRequirement | NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Say whether labels, or the fields of a node, meet one requirement. Nothing meets an unknown operator."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, requirement.values, value)
        case _:
            return False


def _compares(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    """Say whether a label is a whole number above (Gt) or below (Lt) the number in the requirement."""
    number, bound = _number(value), _number(values[0] if len(values) == 1 else None)
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _number(text: str | None) -> int | None:
    """Return the text as a signed 64-bit number, or None if it is not one (strconv.ParseInt)."""
    if text is None or not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
