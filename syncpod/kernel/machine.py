"""The machine's architecture, and its present boot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final


def boot_id() -> str:
    """Return the kernel's random id of this boot of the machine; "" if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


_BY_MACHINE: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture() -> str:
    """Return the machine's architecture by Go's name for it, which a v1 Node and an OCI image use."""
    machine = os.uname().machine
    return _BY_MACHINE.get(machine, machine)
