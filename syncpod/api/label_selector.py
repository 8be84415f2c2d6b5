"""Label selectors, as ``-l`` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Operator = Literal["in", "notin", "exists", "absent", "gt", "lt"]

_KEY: Final = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VALUE: Final = r"[A-Za-z0-9_.-]*"
_SET: Final = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARED: Final = re.compile(rf"\s*({_KEY})\s*(==|=|!=|>|<)\s*({_VALUE})\s*")
_BARE: Final = re.compile(rf"\s*(!?)\s*({_KEY})\s*")


@dataclass(frozen=True)
class Requirement:
    """One requirement on a label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; ``notin`` also matches an absent label, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "gt" | "lt":
                if value is None or not re.fullmatch(r"-?\d+", value):
                    return False
                bound = int(self.values[0])
                return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True)
class Selector:
    """Requirements that must all be met; without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1``.

    Raises ValueError with the part that cannot be parsed. Mirrors apimachinery's pkg/labels, v1.36, Parse.
    """
    return Selector(tuple(_requirement(part) for part in _parts(text))) if text.strip() else Selector()


def _parts(text: str) -> list[str]:
    """Split at the commas that are not in parentheses."""
    return re.split(r",(?![^(]*\))", text)


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(value.strip() for value in found[3].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Requirement(found[1], "in" if found[2] == "in" else "notin", values)
    elif found := _COMPARED.fullmatch(part):
        key, sign, value = found[1], found[2], found[3]
        if sign in ("=", "=="):
            return Requirement(key, "in", (value,))
        if sign == "!=":
            return Requirement(key, "notin", (value,))
        if re.fullmatch(r"-?\d+", value):
            return Requirement(key, "gt" if sign == ">" else "lt", (value,))
    elif found := _BARE.fullmatch(part):
        return Requirement(found[2], "absent" if found[1] else "exists")
    raise ValueError(
        f"{part.strip()!r} is not a condition on a label: write key=value, key!=value, key in (a,b), key notin (a,b), "
        "key or !key, with commas between them"
    )
