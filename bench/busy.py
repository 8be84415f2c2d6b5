"""Load during a measurement: processes that only use the processor."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator


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
