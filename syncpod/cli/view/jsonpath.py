"""JSONPath as kubectl takes it: ``{.status.phase}``, ``.status.conditions[?(@.type=="Ready")].status``.

Mirrors the part of client-go's util/jsonpath, v1.36, that selects values: fields, indices, ``[*]`` and filters.
``..``, slices, unions and ``range`` are not supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_FIELD: Final = re.compile(r"\.((?:[\w/$-]|\\.)+)")
_WILDCARD: Final = re.compile(r"\.\*|\[\*\]")
_INDEX: Final = re.compile(r"\[(-?\d+)\]")
_KEY: Final = re.compile(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_FILTER: Final = re.compile(r"\[\?\(((?:[^'\"()]|'[^']*'|\"[^\"]*\")+)\)\]")
_CONDITION: Final = re.compile(r"\s*@([^\s=!<>'\"]*(?:\['[^']*'\][^\s=!<>'\"]*)*)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*")

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}

_Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True)
class Path:
    """A parsed path."""

    text: str
    steps: tuple[_Step, ...]

    def find(self, document: Any) -> list[Any]:
        """Return every value that the path leads to, if any."""
        found = [document]
        for step in self.steps:
            found = [value for each in found for value in step(each)]
        return found


def parse_path(text: str) -> Path:
    """Parse a path, with or without the braces and the leading dot, as kubectl does.

    Raises ValueError with the part that cannot be parsed.
    """
    inner = text.strip()
    if inner.startswith("{") != inner.endswith("}"):
        raise ValueError(f"{text!r}: an opening and a closing brace belong together")
    inner = inner.strip("{}").strip().removeprefix("$")
    if not inner:
        raise ValueError(f"{text!r} is not a JSONPath: write {{.status.phase}}")
    return Path(text, tuple(_steps(inner if inner[0] in ".[" else f".{inner}", text)))


def text_of(value: Any) -> str:
    """Return a scalar as Go prints it: ``true``, ``3``, ``Running``."""
    if value is None:
        return "<nil>"
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def _steps(path: str, whole: str) -> Iterator[_Step]:
    position = 0
    while position < len(path):
        for pattern, step in _KINDS:
            if found := pattern.match(path, position):
                yield step(found, whole)
                position = found.end()
                break
        else:
            raise ValueError(f"{whole!r} cannot be read as JSONPath from {path[position:]!r} on")


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(number: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(text: str, whole: str) -> _Step:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f'{whole!r}: the filter {text!r} must be like @.type=="Ready"')
    inner = tuple(_steps(found[1], whole)) if found[1] else ()
    compare = _COMPARISONS[found[2]] if found[2] else None
    wanted = _literal(found[3], whole) if found[3] else None

    def holds(item: Any) -> bool:
        values = Path("", inner).find(item)
        if compare is None or not values:
            return bool(values)
        try:
            return compare(values[0], wanted)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return step


def _literal(text: str, whole: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{whole!r}: {text!r} must be a number, true, false or text in quotes") from None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_KINDS: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str], str], _Step]]]] = (
    (_WILDCARD, lambda found, whole: _each),
    (_FIELD, lambda found, whole: _field(_unescaped(found[1]))),
    (_INDEX, lambda found, whole: _index(int(found[1]))),
    (_KEY, lambda found, whole: _field(_unescaped(found[1] if found[1] is not None else found[2]))),
    (_FILTER, lambda found, whole: _filter(found[1], whole)),
)
