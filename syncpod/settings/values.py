"""Parses the text of settings. Every parser raises SettingsInvalid for text that is not valid."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from syncpod.go_durations import parse_go_duration

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_DOMAIN = 253
_CGROUP_PART = re.compile(r"[A-Za-z0-9._-]+")
_DAYS = re.compile(r"([0-9]{1,6})d")
_SIZE = re.compile(r"([0-9]+)(Ki|Mi|Gi|k|M|G|)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SMALLEST_JOURNAL = 2**20
_KUBELETS_BACKOFF_MAX = 300.0
LOG_FORMATS: Final = ("text", "json")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class SettingsInvalid(ValueError):
    """A setting has an invalid value; the text names the setting and what is valid."""


class Names(NamedTuple):
    """How an error names a setting."""

    variable: str
    flag: str

    def wrong(self, text: str, why: str) -> SettingsInvalid:
        """Return the error ``VARIABLE='text': why``. If a flag gave the text, `node_settings` puts the flag there."""
        return SettingsInvalid(f"{self.variable}={text!r}: {why}")

    def unusable(self, why: str) -> SettingsInvalid:
        """Return the error ``VARIABLE: why (--flag)``."""
        return SettingsInvalid(f"{self.variable}: {why} ({self.flag})")


T = TypeVar("T")
Parser = Callable[[Names, str], T]
"""Returns the value of a text. Raises SettingsInvalid, whose text has the names."""


def as_it_is(_: Names, text: str) -> str:
    """Return the text, which another room parses (`syncpod.checked_settings`, `syncpod.housekeeping_settings`)."""
    return text


def as_it_is_or_none(_: Names, text: str) -> str | None:
    """Return the text; None for an empty one."""
    return text or None


# --- paths and names --------------------------------------------------------------------------------------------------


def absolute_path(what: str, text: str) -> Path:
    """Return the path that `text` names; `what` describes it in an error."""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise SettingsInvalid(f"{what} {text!r}: must be an absolute path")
    return path


def path(what: str) -> Parser[Path]:
    """Return a parser of an absolute path; `what` describes it in an error."""
    return lambda _, text: absolute_path(what, text)


def path_or_none(what: str) -> Parser[Path | None]:
    """Return a parser of an absolute path, or of an empty text for none."""
    return lambda _, text: absolute_path(what, text) if text else None


def node_name(names: Names, text: str) -> str:
    """Return a node's name."""
    if len(text) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(text):
        raise SettingsInvalid(
            f"node name {text!r}: must be at most 253 lower-case letters, digits, '-' and '.', "
            f"and must begin and end with a letter or digit ({names.flag} or {names.variable})"
        )
    return text


def cgroup(_: Names, text: str) -> str:
    """Return a cgroup's path, without slashes at its ends."""
    parts = text.strip("/").split("/")
    if not all(_CGROUP_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise SettingsInvalid(
            f"cgroup parent {text!r}: must be names of letters, digits, '.', '_' and '-' separated by '/'"
        )
    return "/".join(parts)


def comma_separated(_: Names, text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list, without surrounding space and without empty items."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


# --- addresses --------------------------------------------------------------------------------------------------------


def host_and_port(names: Names, text: str) -> str:
    """Return ``host:port`` for a listener, on the loopback address if only a port is given; "" for an empty text."""
    host, colon, number = text.strip().rpartition(":")
    if not text.strip():
        return ""
    try:
        is_loopback = host in ("", "localhost") and colon
        host = str(ipaddress.ip_address("127.0.0.1" if is_loopback else host.removeprefix("[").removesuffix("]")))
        if not number.isdecimal() or not number.isascii() or int(number) > 65535:
            raise ValueError(number)
    except ValueError:
        raise names.wrong(text, f"must be an address and a port, such as 127.0.0.1:9105 ({names.flag})") from None
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def port(names: Names, text: str) -> int:
    """Return a port; 0 = none."""
    if not re.fullmatch("[0-9]{1,5}", text, re.ASCII) or int(text) > 65535:
        raise names.wrong(text, f"must be a port from 1 to 65535, or 0 for none ({names.flag})")
    return int(text)


def ip_address(names: Names, text: str) -> str:
    """Return an address; "" for an empty text."""
    given = text.strip()
    try:
        return given and str(ipaddress.ip_address(given))
    except ValueError:
        raise names.wrong(given, f"must be an IP address ({names.flag})") from None


def ip_addresses(names: Names, text: str) -> tuple[str, ...]:
    """Return one address, or two of different families; none for an empty text."""
    given = comma_separated(names, text)
    try:
        addresses = [ipaddress.ip_address(each) for each in given]
        if len(addresses) > 2 or len({each.version for each in addresses}) < len(addresses):
            raise ValueError
    except ValueError:
        raise names.wrong(
            text, f"must be an IP address, or one of IPv4 and one of IPv6, separated by a comma ({names.flag})"
        ) from None
    return tuple(str(each) for each in addresses)


def nameservers(names: Names, text: str) -> tuple[str, ...]:
    """Return IP addresses, in their order; none for an empty text."""
    try:
        return tuple(str(ipaddress.ip_address(each)) for each in comma_separated(names, text))
    except ValueError:
        raise names.wrong(text, f"must be IP addresses, separated by commas ({names.flag})") from None


def domain(names: Names, text: str) -> str:
    """Return the name of a domain, without the dot that may end it; "" for an empty text."""
    found = text.strip().removesuffix(".")
    if found and (len(found) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(found)):
        raise names.wrong(text, f"must be the name of a domain, such as cluster.local ({names.flag})")
    return found


# --- choices and numbers ----------------------------------------------------------------------------------------------


def true_or_false(names: Names, text: str) -> bool:
    """Return the value of a yes-or-no setting."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise names.wrong(text, "must be true or false")


def is_second_of(choices: tuple[str, str]) -> Parser[bool]:
    """Return a parser that says whether the text is the second of two words; an empty text is the first."""

    def parse(names: Names, text: str) -> bool:
        if text not in choices:
            raise names.wrong(text, f"must be {' or '.join(choices)} ({names.flag})")
        return text == choices[1]

    return parse


def is_json(names: Names, text: str) -> bool:
    """Say whether the worker's log is JSON."""
    return is_second_of(LOG_FORMATS)(names, text.strip() or LOG_FORMATS[0])


def pod_pids(names: Names, text: str) -> int:
    """Return the limit of a pod's processes. Difference: for a kubelet, 0 and every negative number mean no limit."""
    if not re.fullmatch("-1|[1-9][0-9]{0,6}", text):
        raise names.wrong(text, f"must be a whole number from 1, or -1 for no limit ({names.flag})")
    return int(text)


def pulls_at_once(names: Names, text: str) -> int:
    """Return how many images may be pulled at once."""
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise names.wrong(text, f"must be a whole number from 1 ({names.flag})")
    return int(text)


def log_files(names: Names, text: str) -> int:
    """Return how many files one log may have."""
    if not text.isdecimal() or not text.isascii() or int(text) < 2:
        raise names.wrong(text, "must be a whole number, at least 2")
    return int(text)


def percent(names: Names, text: str) -> int:
    """Return a whole number from 0 to 100."""
    if not text.isdecimal() or not text.isascii() or int(text) > 100:
        raise names.wrong(text, "must be a whole number from 0 to 100")
    return int(text)


def number_or_no_limit(names: Names, text: str) -> int:
    """Return a whole number; -1 = no limit."""
    if not re.fullmatch(r"-1|\d{1,9}", text, re.ASCII):
        raise names.unusable(f"{text!r} must be a whole number, or -1")
    return int(text)


def dead_instances(names: Names, text: str) -> int:
    """Return how many dead instances of a container are kept."""
    kept = number_or_no_limit(names, text)
    if kept < 1:
        raise names.unusable("must be at least 1: a pod's next decision depends on the last one")
    return kept


def size_bytes(names: Names, text: str) -> int:
    """Return a size, more than 0, in bytes: digits with an optional k, M, G, Ki, Mi or Gi."""
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise names.wrong(text, "must be a size such as 10Mi")
    return int(match[1]) * _FACTORS[match[2]]


def journal_bytes(names: Names, text: str) -> int:
    """Return the size of a journal in bytes."""
    found = size_bytes(names, text)
    if found < _SMALLEST_JOURNAL:
        raise names.wrong(text, f"must be at least 1Mi ({names.flag})")
    return found


# --- durations --------------------------------------------------------------------------------------------------------


def days_or_duration(names: Names, text: str) -> timedelta:
    """Return a duration: whole days, as ``90d``, or as :func:`duration_seconds` takes it."""
    try:
        if days := _DAYS.fullmatch(text):
            return timedelta(days=int(days[1]))
        return timedelta(microseconds=parse_go_duration(text) // 1000)
    except (ValueError, OverflowError):
        raise names.wrong(text, "must be a duration such as 90d, 36h or 0") from None


def duration_seconds(names: Names, text: str) -> float:
    """Return a duration in seconds, written as in the kubelet's configuration: ``1h30m``."""
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise names.wrong(text, "must be a duration such as 90s, 2m or 1h30m") from None


def restart_backoff(names: Names, text: str) -> float:
    """Return the longest back-off of a restart in seconds."""
    seconds = duration_seconds(names, text)
    if not 1 <= seconds <= _KUBELETS_BACKOFF_MAX:
        raise names.wrong(text, "must be between 1s and 5m")
    return seconds


def age_seconds(names: Names, text: str) -> float:
    """Return the age of what is cleaned up, in seconds."""
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise names.unusable(f"{text!r} must be a duration such as 90s, 2m or 1h30m") from None


def age(names: Names, text: str) -> timedelta:
    """Return what :func:`age_seconds` does, as a timedelta."""
    return timedelta(seconds=age_seconds(names, text))


def period_seconds(names: Names, text: str) -> float:
    """Return how often something is done, in seconds."""
    seconds = age_seconds(names, text)
    if seconds < 0.1:
        raise names.unusable("must be at least 100ms")
    return seconds
