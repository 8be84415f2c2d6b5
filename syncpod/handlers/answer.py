"""One answer of one container, and whom it was asked of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BODY_LIMIT = 10 * 1024
"""Bytes of a response or of a command's output that are read: the rest says nothing more to a reader."""


@dataclass(frozen=True)
class Target:
    """Whom a question is for."""

    container_id: str
    ip: str
    """The pod's address: where it is asked, unless the probe names a host."""
    ports: dict[str, int]
    """The container's named ports."""


@dataclass(frozen=True)
class Answer:
    """What came of one question."""

    result: Literal["success", "warning", "failure"]
    """A warning counts as success and is told once."""
    text: str = ""


class NoAnswer(Exception):
    """The question could not be asked at all: it is asked again, and counts as nothing."""


class NoAddress(NoAnswer):
    """The pod has no address at the moment: its sandbox is being made, or has just ended."""


class NoSuchPort(NoAnswer):
    """The probe names a port that the container has not got."""


def port_number(port: int | str, target: Target) -> int:
    """Return the number of a port given by number or by name. Raises :class:`NoSuchPort`.

    Mirrors pkg/probe/util.go, v1.36, ResolveContainerPort.
    """
    number = port if isinstance(port, int) else target.ports.get(port, int(port) if port.isdecimal() else 0)
    if not 0 < number < 65536:
        raise NoSuchPort(f"invalid port number: {port}" if isinstance(port, int) else f"couldn't find port: {port}")
    return number
