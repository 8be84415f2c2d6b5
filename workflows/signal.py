"""One signal to a workflow, as it came."""

from __future__ import annotations

from typing import Any, NamedTuple


class Signal(NamedTuple):
    """A signal's name and its payloads."""

    name: str
    args: tuple[Any, ...]
