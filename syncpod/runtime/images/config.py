"""The part of an image's OCI configuration that its containers use."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from protos.cri.v1 import api_pb2

_NEAR_THE_FIRST: Final = 15
"""Realtime signals up to this distance from the first are named SIGRTMIN+n, others SIGRTMAX-n."""
_NO_ID: Final = 2**32 - 1
"""The kernel's value for no user or group; ids are below it."""
_MOST_DIGITS: Final = 64
"""Maximum digits of an id; Python refuses to parse numbers with several thousand."""


class ConfigInvalid(ValueError):
    """The configuration is invalid. The text begins with the field's path."""


@dataclass(frozen=True)
class ImageConfig:
    """An image's defaults for its containers."""

    environment: tuple[tuple[str, str], ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """Cmd: the arguments of the entrypoint, or without one the command itself."""
    user: str = ""
    """`user` or `user:group`, each a name or an id; empty: root."""
    working_directory: str = ""
    stop_signal: str = ""
    """The stop signal as written in the image: SIGTERM, TERM, 15, SIGRTMIN+3."""


@dataclass(frozen=True)
class OwnImage:
    """An image with its own files, as containers need it."""

    root: Path
    """The directory of its files."""
    config: ImageConfig


def parse_config(document: Mapping[str, Any]) -> ImageConfig:
    """Read the `config` of an image's configuration. Raises ConfigInvalid."""
    environment = []
    for index, variable in enumerate(_strings(document, "Env")):
        name, sign, value = variable.partition("=")
        if not (name and sign) or "\0" in variable:
            raise ConfigInvalid(f"config.Env[{index}]: must be NAME=value")
        environment.append((name, value))
    config = ImageConfig(
        environment=tuple(environment),
        entrypoint=_strings(document, "Entrypoint"),
        command=_strings(document, "Cmd"),
        user=_string(document, "User"),
        working_directory=_string(document, "WorkingDir"),
        stop_signal=_string(document, "StopSignal"),
    )
    stop_signal(config)
    _check_user(config)
    return config


def read_config(fields: Mapping[str, Any]) -> ImageConfig:
    """Return a configuration from the JSON of its `dataclasses.asdict`.

    Raises TypeError, and ConfigInvalid for an invalid user.
    """
    lists = {name: tuple(fields[name]) for name in ("entrypoint", "command")}
    environment = tuple((name, value) for name, value in fields["environment"])
    config = ImageConfig(**{**fields, **lists, "environment": environment})
    if not isinstance(config.user, str):
        raise TypeError("user must be a string")
    _check_user(config)
    return config


def as_id(text: str) -> int | None:
    """Parse a user's or group's id; None for a name, and for a number that is not a valid id."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) >= _NO_ID:
        return None
    return int(text)


def stop_signal(config: ImageConfig) -> int:
    """Return the stop signal by CRI's number; SIGNAL_RUNTIME_DEFAULT if the image names none.

    Raises ConfigInvalid for a signal that this machine does not have.
    """
    text = config.stop_signal.upper()
    if not text:
        return api_pb2.SIGNAL_RUNTIME_DEFAULT
    if text.isdecimal():
        text = _name_of(int(text))
    text = text if text.startswith("SIG") else f"SIG{text}"
    name = f"SIGNAL_{text}".replace("+", "PLUS").replace("-", "MINUS")
    if name not in api_pb2.Signal.keys():  # noqa: SIM118 - an enum of protobuf is not a dict
        raise ConfigInvalid(f'config.StopSignal: there is no signal "{config.stop_signal}"')
    return api_pb2.Signal.Value(name)


def _check_user(config: ImageConfig) -> None:
    for part, kind in zip(config.user.partition(":")[::2], ("user", "group"), strict=True):
        if part.isdecimal() and as_id(part) is None:
            raise ConfigInvalid(f"config.User: {part:.40} is not a {kind}'s id: these are below {_NO_ID}")


def _name_of(number: int) -> str:
    """Return a signal's name, given its number on this machine."""
    first, last = signal.SIGRTMIN, signal.SIGRTMAX
    if first <= number <= last:
        return f"SIGRTMIN+{number - first}" if number - first <= _NEAR_THE_FIRST else f"SIGRTMAX-{last - number}"
    try:
        return signal.Signals(number).name
    except ValueError:
        raise ConfigInvalid(f"config.StopSignal: there is no signal {number}") from None


def _string(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name) or ""
    if not isinstance(value, str) or "\0" in value:
        raise ConfigInvalid(f"config.{name}: must be a string")
    return value


def _strings(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) and "\0" not in each for each in value):
        raise ConfigInvalid(f"config.{name}: must be a list of strings")
    return tuple(value)
