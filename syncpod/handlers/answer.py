"""The target and the outcome of a handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncpod.redaction import OVERLAP, of_process

BODY_LIMIT = 10 * 1024
"""Maximum bytes of a response or of a command's output that are read."""


@dataclass(frozen=True)
class Target:
    """The container that a handler is for."""

    uid: str
    """UID of the pod; the handlers' threads count towards its share."""
    container_id: str
    ip: str
    """The pod's address, used unless the probe or hook names a host."""
    ports: dict[str, int]
    """The container's named ports."""


@dataclass(frozen=True)
class ProbeAnswer:
    """The outcome of one probe."""

    result: Literal["success", "warning", "failure"]
    """A warning counts as success and is reported once."""
    text: str = ""


def shortened(data: bytes, limit: int, *, encoding: str = "utf-8", errors: str = "replace") -> str:
    """Return the text of the first `limit` bytes. Secrets' values are hidden, even a value that the cut divides."""
    seen = data[: limit + 4 * OVERLAP]
    stop = len(seen[:limit].decode(encoding, errors=errors))
    return of_process.part(seen.decode(encoding, errors=errors), 0, stop)


def written(*streams: bytes) -> str:
    """Return the first `BODY_LIMIT` bytes of a command's output as text, with Secrets' values hidden."""
    return shortened(b"".join(each[: BODY_LIMIT + 4 * OVERLAP] for each in streams), BODY_LIMIT)


class NoAnswer(Exception):
    """The handler could not be run at all: the caller retries it, and counts neither success nor failure."""


class NoAddress(NoAnswer):
    """The pod has no address at the moment: its sandbox is being created, or has just ended."""


class NoSuchPort(NoAnswer):
    """The probe names a port that the container does not have."""


def port_number(port: int | str, target: Target) -> int:
    """Return the number of a port given by number or by name. Raises :class:`NoSuchPort`.

    Mirrors pkg/probe/util.go, v1.36, ResolveContainerPort.
    """
    number = port if isinstance(port, int) else target.ports.get(port, int(port) if port.isdecimal() else 0)
    if not 0 < number < 65536:
        raise NoSuchPort(f"invalid port number: {port}" if isinstance(port, int) else f"couldn't find port: {port}")
    return number
