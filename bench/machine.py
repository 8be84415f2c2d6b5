"""The machine of a measurement: its description in one line, and processes that keep it busy."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
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


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run this many processes that never sleep, during the block; each adds 1 to the machine's load average."""
    running = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
