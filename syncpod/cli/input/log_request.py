"""Which logs `logs` reads, and how it prints them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class LoggedContainers:
    """Whose logs are read."""

    namespace: str
    name: str
    """The pod; "" = all pods that the selector chooses."""
    selector: str
    container: str
    """The container; "" = the default container of each pod."""
    every_container: bool
    """Whether the logs of all containers are read."""


@dataclass(frozen=True)
class LogManner:
    """How logs are read and printed."""

    follow: bool
    previous: bool
    tail: int | None
    """How many lines at the end of each log are printed; None = all."""
    since: datetime | None
    """Lines that were written before this time are not printed; None = all lines are printed."""
    rotated: bool
    """Whether rotated files are printed first."""
    limit_bytes: int | None
    """Maximum number of bytes of each container to print; None = all."""
    timestamps: bool
    prefix: bool
    ignore_errors: bool
