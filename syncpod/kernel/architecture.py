"""The machine's architecture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_BY_MACHINE: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture() -> str:
    """Return the machine's architecture by Go's name for it, which a v1 Node and an OCI image use."""
    machine = os.uname().machine
    return _BY_MACHINE.get(machine, machine)
