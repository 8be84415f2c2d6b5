r"""YAML as go-yaml reads it for Kubernetes: plain data from a stream, within limits.

Scalars resolve as in `go.yaml.in/yaml/v2` behind `sigs.k8s.io/yaml`: YAML 1.1 words and octals, but no base-60
numbers, and times stay text. `\'` inside double quotes is a quote. Mistakes and attacks are refused: tags, duplicate
keys, keys that are not scalars, too much depth, and aliases that multiply.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

DEEPEST = 100
"""The deepest nesting of a document."""

_MOST_ALIASED = 10_000
"""How many values aliases may add to a stream."""

MOST_VALUES = 200_000
"""How many values, keys included, a stream may have: about those of a thousand pods, which parse in half a second."""

_MOST_RESCANNED = 16 * 1024 * 1024
"""How many characters may be read again because of escaped single quotes."""

_LONGEST_SHOWN = 80
_OF_INDENTATION = (
    *("mapping values are not allowed", "did not find expected key"),
    *("block sequence entries", "'-' indicator"),
)
"""Parts of libyaml's errors about lines that are not indented as the lines next to them."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_INTEGER = re.compile(r"([-+]?)(?:0b([01_]+)|0[xX]([0-9a-fA-F_]+)|0o?([0-7_]+)|([0-9][0-9_]*))")
_BASES = (2, 16, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LARGEST_EXACT_FLOAT = 1e21
_LONGEST_NUMBER = 400


class YamlError(ValueError):
    """A stream cannot be read; `document` is the number, from 1, of the invalid document."""

    def __init__(self, document: int, reason: str) -> None:
        self.document = document
        super().__init__(reason)


def read_yaml(text: str) -> Iterator[Any]:
    """Yield each document of a stream as None, bool, int, float, str, list or dict with text keys.

    Raises YamlError with one sentence that says where and why. Earlier documents may have been yielded.
    """
    composer = _Composer()
    try:
        # libyaml scans ahead of its events, so escapes that it refuses are replaced in a pass before the first event.
        yield from composer.documents(_with_plain_quotes(text))
    except yaml.YAMLError as error:
        raise YamlError(max(composer.document, 1), _reason(error, text)) from None


def _with_plain_quotes(text: str) -> str:
    r"""Remove the backslash of each `\'` inside double quotes, which libyaml refuses and go-yaml accepts."""
    rescanned = 0
    while r"\'" in text:
        try:
            for _ in _events(text):
                pass
        except yaml.scanner.ScannerError as error:
            mark, quote = error.problem_mark, error.context_mark
            backslash = mark.index if mark is not None else 0
            if quote is None or "escape character" not in str(error.problem) or not text.startswith(r"\'", backslash):
                return text
            rescanned += len(text)
            if rescanned > _MOST_RESCANNED:
                raise YamlError(1, r"too many \' escapes: write ' without a backslash inside double quotes") from None
            quoted = _DOUBLE_QUOTED.match(text, quote.index)
            end = quoted.end() if quoted is not None else len(text)
            scalar = _ESCAPE.sub(lambda found: "'" if found[0] == r"\'" else found[0], text[quote.index : end])
            text = text[: quote.index] + scalar + text[end:]
        except yaml.YAMLError:
            return text
        else:
            return text
    return text


def _events(text: str) -> Iterator[Event]:
    return yaml.parse(text, Loader=yaml.CSafeLoader)


def _reason(error: yaml.YAMLError, text: str) -> str:
    """Format libyaml's error and position as one line, with the most likely mistake there."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {getattr(error, 'reason', None) or error}"
    place = _place(error.problem_mark or error.context_mark)
    return f"not YAML: {error.problem or error.context}{place}{_hint(error, text)}"


def _hint(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return the advice about an error of libyaml, in a clause; "" if there is no advice."""
    problem, context, mark = str(error.problem), str(error.context), error.problem_mark
    if mark is None:
        return ""
    line = text.split("\n")[mark.line] if mark.line <= text.count("\n") else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return ": indent with spaces, not with tabs"
    if "quoted scalar" in context and "end of stream" in problem and error.context_mark is not None:
        return f": the quote of line {error.context_mark.line + 1} is not closed"
    if "cannot start any token" in problem:
        return f": put a text that begins with {line[mark.column : mark.column + 1]} in quotes"
    if any(each in problem for each in _OF_INDENTATION):
        return (
            ": look whether this line is indented like those that it belongs to, and whether a space follows each colon"
        )
    return ""


def _place(mark: Any) -> str:
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""


class _Composer:
    """Builds values from events; `document` is the number of the current document, from 1."""

    def __init__(self) -> None:
        self.document = 0
        self._aliased = 0
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open_anchors: set[str] = set()
        self._count = 0

    def documents(self, text: str) -> Iterator[Any]:
        events = _events(text)
        for event in events:
            match event:
                case DocumentStartEvent():
                    self.document += 1
                    self._counted(event)
                    self._anchors.clear()
                case StreamStartEvent() | StreamEndEvent() | DocumentEndEvent():
                    pass
                case _:
                    yield self._value(event, events, 1)

    def _refuse(self, reason: str, event: Event) -> YamlError:
        return YamlError(self.document, reason + _place(event.start_mark))

    def _counted(self, event: Event) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._refuse(f"more than {MOST_VALUES} values", event)

    def _value(self, event: Any, events: Iterator[Event], depth: int) -> Any:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")[:40]
            raise self._refuse(f"YAML tags such as {tag} are not taken", event)
        if depth > DEEPEST:
            raise self._refuse(f"nested more than {DEEPEST} levels deep", event)
        self._counted(event)
        before, anchor = self._count, event.anchor
        if anchor is not None:
            self._open_anchors.add(anchor)
        value: Any
        match event:
            case ScalarEvent():
                value = self._scalar(event)
            case SequenceStartEvent():
                value = []
                while not isinstance(item := next(events), SequenceEndEvent):
                    value.append(self._value(item, events, depth + 1))
            case _:
                value = self._mapping(events, depth)
        if anchor is not None:
            self._open_anchors.discard(anchor)
            self._anchors[anchor] = (value, self._count - before + 1)
        return value

    def _mapping(self, events: Iterator[Event], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        while not isinstance(event := next(events), MappingEndEvent):
            if isinstance(event, ScalarEvent) and event.value == "<<" and not event.style and event.tag is None:
                merged += self._merged(event, self._value(next(events), events, depth + 1))
                continue
            key = self._key(event, self._value(event, events, depth + 1))
            if key in found:
                raise self._refuse(f"the key {key[:_LONGEST_SHOWN]!r} is there twice", event)
            found[key] = self._value(next(events), events, depth + 1)
        for addition in merged:
            for key, value in addition.items():
                found.setdefault(key, value)
        return found

    def _merged(self, event: Event, value: Any) -> list[dict[str, Any]]:
        additions = value if isinstance(value, list) else [value]
        if not all(isinstance(addition, dict) for addition in additions):
            raise self._refuse("<< takes an object or a list of objects", event)
        return additions

    def _key(self, event: Event, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._refuse("a key must be a string", event)

    def _alias(self, event: AliasEvent) -> Any:
        shown = str(event.anchor)[:_LONGEST_SHOWN]
        if event.anchor in self._open_anchors:
            raise self._refuse(f"the anchor {shown!r} holds itself", event)
        if event.anchor not in self._anchors:
            raise self._refuse(f"unknown anchor {shown!r}", event)
        value, size = self._anchors[event.anchor]
        # An aliased value counts each time it is used, so aliases of aliases count in full.
        self._aliased += size
        self._count += size
        if self._aliased > _MOST_ALIASED:
            raise self._refuse(f"aliases stand for more than {_MOST_ALIASED} values", event)
        return value

    def _scalar(self, event: ScalarEvent) -> bool | int | float | str | None:
        text: str = event.value
        if event.style:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text) <= _LONGEST_NUMBER:
            if (integer := _INTEGER.fullmatch(text)) and (value := _integer(integer)) is not None:
                return value
            if _FLOAT.fullmatch(text):
                return _float(text)
            if _NO_NUMBER.fullmatch(text):
                raise self._refuse(f"{text} is not a number that JSON has", event)
        return text


def _integer(matched: re.Match[str]) -> int | None:
    """Return the text as a number; None if it is not one."""
    sign, *digits = matched.groups()
    for base, found in zip(_BASES, digits, strict=True):
        if found is not None and (plain := found.replace("_", "")):
            value = int(plain, base)
            return -value if sign == "-" else value
    return None


def _float(text: str) -> int | float | str:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return text
    return int(value) if value.is_integer() and abs(value) < _LARGEST_EXACT_FLOAT else value
