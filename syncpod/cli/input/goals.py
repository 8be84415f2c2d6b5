"""The goals of ``wait --for``: ``condition=Ready``, ``delete``, ``create``, ``jsonpath='{.status.phase}'=Running``.

Mirrors kubectl's pkg/cmd/wait, v1.36. Differences: a path may lead to several values, one of which must match, where
kubectl fails; a pod that is being deleted is not Ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncpod.cli.view.jsonpath import Path, parse_path, text_of

_FORMS: Final = "condition=NAME[=VALUE], delete, create or jsonpath='{PATH}'[=VALUE]"


@dataclass(frozen=True)
class Deleted:
    """The pod is gone."""


@dataclass(frozen=True)
class Created:
    """The pod exists."""

    def is_met(self, pod: Mapping[str, Any]) -> bool:
        """Return whether there is a pod."""
        return bool(pod)


@dataclass(frozen=True)
class HasCondition:
    """The pod's condition of this type has this value; the case of letters does not matter."""

    type: str
    value: str

    def is_met(self, pod: Mapping[str, Any]) -> bool:
        """Return whether a v1 Pod meets this.

        A pod that is being deleted counts as not ready. kubectl uses the Ready condition that its status still has.
        """
        if (self.type.casefold(), self.value.casefold()) == ("ready", "true") and _is_ending(pod):
            return False
        conditions = pod.get("status", {}).get("conditions", ())
        return any(
            str(one.get("type", "")).casefold() == self.type.casefold()
            and str(one.get("status", "")).casefold() == self.value.casefold()
            for one in conditions
        )


@dataclass(frozen=True)
class HasValue:
    """The path leads to this value; None = to any value."""

    path: Path
    value: str | None

    def is_met(self, pod: Mapping[str, Any]) -> bool:
        """Return whether a v1 Pod meets this. Raises ValueError if the path leads to an object or a list."""
        found = self.path.find(pod)
        if self.value is None:
            return bool(found)
        if any(isinstance(each, dict | list) for each in found):
            raise ValueError(f"{self.path.text}: leads to an object or a list, which nothing can be compared with")
        return any(text_of(each).strip() == self.value.strip() for each in found)


def _is_ending(pod: Mapping[str, Any]) -> bool:
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))


Goal = Deleted | Created | HasCondition | HasValue


def parse_goal(text: str) -> Goal:
    """Parse ``--for``. Raises ValueError with what would be right."""
    word, _, rest = text.partition("=")
    match word.strip().casefold():
        case "delete" if not rest:
            return Deleted()
        case "create" if not rest:
            return Created()
        case "condition":
            name, equals, value = rest.partition("=")
            if not name or (equals and not value):
                raise ValueError(f"{text!r}: write condition=Ready, or condition=Ready=False")
            return HasCondition(name, value or "True")
        case "jsonpath":
            path, wanted = _path_and_value(rest)
            if not path or wanted == "":
                raise ValueError(f"{text!r}: write jsonpath='{{.status.phase}}'=Running, or without a value")
            return HasValue(parse_path(_unquoted(path)), None if wanted is None else _unquoted(wanted))
    raise ValueError(f"must be {_FORMS}, not {text!r}")


def _path_and_value(text: str) -> tuple[str, str | None]:
    """Split at the first ``=`` (or ``==``) that stands outside the path's brackets and braces."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "=" and depth == 0:
            return text[:at].strip(), text[at + 1 :].removeprefix("=")
    return text.strip(), None


def _unquoted(text: str) -> str:
    """Return a text without quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
