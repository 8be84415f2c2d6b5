"""Describes the machine in one line: figures from two machines, or from a busy one, are not comparable."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from tests.runtimes.temporal import temporal_program


def load() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def environment(runtime: str, load_before: float) -> str:
    """Return kernel, cores, versions and the load before and now; `runtime` describes the runtime."""
    temporal = subprocess.run([temporal_program(), "--version"], capture_output=True, text=True, timeout=30, check=True)
    server = temporal.stdout.partition("Server ")[2].partition(",")[0].rstrip(")\n")
    return (
        f"Linux {platform.release()}, {os.cpu_count()} cores ({_processor()}), {runtime}, Temporal {server}, "
        f"Python {platform.python_version()}; load average {load_before:.1f} before, {load():.1f} after"
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
