"""Which boot of the machine this is."""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """Return the kernel's random id of this boot of the machine; "" if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
