"""Parses the text of settings. Every function raises SettingsInvalid for text that is not valid."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from syncpod.go_durations import parse_go_duration

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_DOMAIN = 253
_DAYS = re.compile(r"([0-9]{1,6})d")
_SIZE = re.compile(r"([0-9]+)(Ki|Mi|Gi|k|M|G|)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class SettingsInvalid(ValueError):
    """A setting has an invalid value; the text names the setting and what is valid."""


def absolute_path(what: str, text: str | None, default: Path) -> Path:
    """Return the path that `text` names, else `default`; `what` describes it in an error."""
    path = Path(text).expanduser() if text else default
    if not path.is_absolute():
        raise SettingsInvalid(f"{what} {text!r}: must be an absolute path")
    return path


def host_and_port(name: str, text: str) -> str:
    """Return ``host:port`` for a listener, on the loopback address if only a port is given; "" for an empty text."""
    host, colon, port = text.strip().rpartition(":")
    if not text.strip():
        return ""
    try:
        is_loopback = host in ("", "localhost") and colon
        host = str(ipaddress.ip_address("127.0.0.1" if is_loopback else host.removeprefix("[").removesuffix("]")))
        if not port.isdecimal() or not port.isascii() or int(port) > 65535:
            raise ValueError(port)
    except ValueError:
        raise SettingsInvalid(
            f"{name}={text!r}: must be an address and a port, such as 127.0.0.1:9105 (--metrics-address)"
        ) from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ip_addresses(name: str, text: str) -> tuple[str, ...]:
    """Return one address, or two of different families; none for an empty text."""
    given = comma_separated(text)
    try:
        addresses = [ipaddress.ip_address(each) for each in given]
        if len(addresses) > 2 or len({each.version for each in addresses}) < len(addresses):
            raise ValueError
    except ValueError:
        raise SettingsInvalid(
            f"{name}={text!r}: must be an IP address, or one of IPv4 and one of IPv6, separated by a comma (--node-ip)"
        ) from None
    return tuple(str(each) for each in addresses)


def nameservers(name: str, text: str) -> tuple[str, ...]:
    """Return IP addresses, in their order; none for an empty text."""
    try:
        return tuple(str(ipaddress.ip_address(each)) for each in comma_separated(text))
    except ValueError:
        raise SettingsInvalid(f"{name}={text!r}: must be IP addresses, separated by commas (--cluster-dns)") from None


def domain(name: str, text: str) -> str:
    """Return the name of a domain, without the dot that may end it; "" for an empty text."""
    found = text.strip().removesuffix(".")
    if found and (len(found) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(found)):
        raise SettingsInvalid(
            f"{name}={text!r}: must be the name of a domain, such as cluster.local (--cluster-domain)"
        )
    return found


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


def days_or_duration(name: str, environ: Mapping[str, str], default: timedelta) -> timedelta:
    """Return the variable's duration: whole days, as ``90d``, or as :func:`duration_seconds` takes it."""
    text = environ.get(name, "")
    try:
        if days := _DAYS.fullmatch(text):
            return timedelta(days=int(days[1]))
        return timedelta(microseconds=parse_go_duration(text) // 1000) if text else default
    except (ValueError, OverflowError):
        raise SettingsInvalid(f"{name}={text!r}: must be a duration such as 90d, 36h or 0") from None


def duration_seconds(name: str, environ: Mapping[str, str], default: float) -> float:
    """Return the variable's duration in seconds, written as in the kubelet's configuration: ``1h30m``."""
    text = environ.get(name)
    if not text:
        return default
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise SettingsInvalid(f"{name}={text!r}: must be a duration such as 90s, 2m or 1h30m") from None
