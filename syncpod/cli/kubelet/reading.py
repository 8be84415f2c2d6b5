"""Reads a kubelet's command line and its configuration files into one value for each field.

A flag overrides the files, and a later file overrides an earlier one, as with a kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from syncpod.cli.kubelet.fields import BY_FLAG, BY_PATH, Field, Form
from syncpod.go_durations import GoDurationTooLong, parse_go_duration

_API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
_KIND: Final = "KubeletConfiguration"
_SUFFIX: Final = ".conf"
_ABOUT: Final = ("apiVersion", "kind")
_TRUE: Final = ("true", "1", "t", "True", "TRUE", "T")
_FALSE: Final = ("false", "0", "f", "False", "FALSE", "F")
_WORDS: Final[Mapping[Form, str]] = {
    "bool": "true or false",
    "int": "a whole number",
    "number": "a number",
    "text": "a string",
    "duration": "a duration, such as 5m or 1h30m",
    "words": "a list of strings",
    "map": "strings by name",
    "object": "an object",
    "objects": "a list",
}


class KubeletInputInvalid(ValueError):
    """Flags or a file are wrong; the text is one line for each mistake, with the field's path."""


@dataclass(frozen=True)
class Given:
    """The given values: by path for a field of the configuration, by ``--flag`` for a flag that has no field."""

    values: Mapping[str, Any]
    names: Mapping[str, str]
    """The name of each value as the user wrote it: ``--max-pods``, or the field's path."""

    def of(self, name: str, default: Any = None) -> Any:
        """Return the value that was given for a path or a ``--flag``, else `default`."""
        value = self.values.get(name)
        return default if value is None else value


def read(arguments: Sequence[str]) -> Given:
    """Return the values of a command line and of the files that it names. Raises KubeletInputInvalid, OSError."""
    flags = _flags(arguments)
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    files = [Path(flags["--config"])] if flags.get("--config") else []
    if directory := flags.get("--config-dir"):
        files += sorted(each for each in Path(directory).rglob(f"*{_SUFFIX}") if each.is_file())
    for path in files:
        for name, value in _file(path).items():
            found[name] = {**found[name], **value} if _are_maps(name, found.get(name), value) else value
            names[name] = name
    for name, value in flags.items():
        row = BY_FLAG[name.removeprefix("--")]
        key = row.path or name
        found[key], names[key] = value, name
    return Given(found, names)


def _flags(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the flags, as ``--name``, with their values. Raises KubeletInputInvalid."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, has_value, text = word.partition("=")
        name = "--" + name.lstrip("-")
        row = BY_FLAG.get(name[2:])
        if not word.startswith("-"):
            problems.append(f"{word}: a kubelet takes no arguments but flags")
            continue
        if row is None:
            problems.append(f"{name}: a kubelet has no such flag")
            continue
        if not has_value and row.form == "bool":
            text = "true"
        elif not has_value:
            if not waiting:
                problems.append(f"{name}: needs {_WORDS[row.form]}")
                continue
            text = waiting.pop(0)
        try:
            found[name] = _of_text(row.form, text)
        except ValueError:
            problems.append(f"{name}: must be {_WORDS[row.form]}, not {text!r}")
    if problems:
        raise KubeletInputInvalid("\n".join(problems))
    return found


def _of_text(form: Form, text: str) -> Any:
    """Return a flag's value. Raises ValueError."""
    if form == "bool":
        if text in (*_TRUE, *_FALSE):
            return text in _TRUE
        raise ValueError
    if form == "int":
        return int(text)
    if form == "number":
        return float(text)
    if form == "duration":
        _require_duration(text)
        return text
    if form in ("words", "objects"):
        return [word for word in text.split(",") if word]
    if form == "map":
        pairs = [part.replace("<", "=", 1).partition("=") for part in text.split(",") if part]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError
        return {name.strip(): value.strip() for name, _, value in pairs}
    return text


def _file(path: Path) -> dict[str, Any]:
    """Return a file's values by path. Raises KubeletInputInvalid, OSError."""
    try:
        document = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeletInputInvalid(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise KubeletInputInvalid(f"{path}: must be a {_KIND}")
    problems = [
        f"{path}: {name}: must be {wanted}, not {document.get(name)!r}"
        for name, wanted in zip(_ABOUT, (_API_VERSION, _KIND), strict=True)
        if document.get(name) != wanted
    ]
    found: dict[str, Any] = {}
    rest = {name: value for name, value in document.items() if name not in _ABOUT}
    problems += [f"{path}: {each}" for each in _take(rest, "", found)]
    if problems:
        raise KubeletInputInvalid("\n".join(problems))
    return found


def _take(document: Mapping[str, Any], above: str, found: dict[str, Any]) -> Iterable[str]:
    """Put the fields below a path into `found`; yield a line for each mistake."""
    for name, value in document.items():
        path = f"{above}{name}"
        row = BY_PATH.get(path)
        if row is not None:
            if value is not None and not _CHECKS[row.form](value):
                yield f"{path}: must be {_WORDS[row.form]}"
            elif _has_nul(value):
                yield f"{path}: must have no NUL character"
            else:
                found[path] = value
        elif any(each.startswith(f"{path}.") for each in BY_PATH):
            if isinstance(value, dict):
                yield from _take(value, f"{path}.", found)
            elif value is not None:
                yield f"{path}: must be an object"
        else:
            yield f"{path}: a {_KIND} has no such field"


def _has_nul(value: Any) -> bool:
    """Return whether a text in a value has a NUL, which no environment variable can have."""
    if isinstance(value, dict):
        return _has_nul([*value.keys(), *value.values()])
    return any(map(_has_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _are_maps(name: str, before: Any, value: Any) -> bool:
    row: Field | None = BY_PATH.get(name)
    return row is not None and row.form == "map" and isinstance(before, dict) and isinstance(value, dict)


def _is_map_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str | bool | int) for each in value.values())


def _is_duration(value: Any) -> bool:
    try:
        _require_duration(value)
    except ValueError:
        return False
    return True


def _require_duration(value: Any) -> None:
    """Raise ValueError for a text that Go does not read as a duration."""
    try:
        if not isinstance(value, str) or parse_go_duration(value) is None:
            raise ValueError
    except GoDurationTooLong:
        raise ValueError from None


_CHECKS: Final[Mapping[Form, Callable[[Any], bool]]] = {
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "duration": _is_duration,
    "words": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "map": _is_map_of_texts,
    "object": lambda value: isinstance(value, dict),
    "objects": lambda value: isinstance(value, list),
}
