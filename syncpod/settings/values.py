"""Parses the text of settings. Every function raises SettingsInvalid for text that it cannot take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from syncpod.go_durations import parse_go_duration
from syncpod.settings.errors import SettingsInvalid

_SIZE = re.compile(r"([0-9]+)(Ki|Mi|Gi|k|M|G|)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def absolute_path(what: str, text: str | None, default: Path) -> Path:
    """Return the path that `text` names, else `default`; `what` describes it in an error."""
    path = Path(text).expanduser() if text else default
    if not path.is_absolute():
        raise SettingsInvalid(f"{what} {text!r}: must be an absolute path")
    return path


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list, without surrounding space and without empty items."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def flag(name: str, text: str) -> bool:
    """Return the value of a yes-or-no variable."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise SettingsInvalid(f"{name}={text!r}: must be true or false")


def percent(name: str, environ: Mapping[str, str], default: int) -> int:
    """Return the variable's whole number from 0 to 100."""
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not text.isascii() or int(text) > 100:
        raise SettingsInvalid(f"{name}={text!r}: must be a whole number from 0 to 100")
    return int(text)


def size_bytes(name: str, environ: Mapping[str, str], default: int) -> int:
    """Return the variable's size, more than 0, in bytes: digits with an optional k, M, G, Ki, Mi or Gi."""
    text = environ.get(name) or str(default)
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise SettingsInvalid(f"{name}={text!r}: must be a size such as 10Mi")
    return int(match[1]) * _FACTORS[match[2]]


def duration_seconds(name: str, environ: Mapping[str, str], default: float) -> float:
    """Return the variable's duration in seconds, written as in the kubelet's configuration: ``1h30m``."""
    text = environ.get(name)
    if not text:
        return default
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise SettingsInvalid(f"{name}={text!r}: must be a duration such as 90s, 2m or 1h30m") from None
