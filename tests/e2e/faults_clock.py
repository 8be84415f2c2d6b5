"""A wall clock that a test moves, for programs that were started with it."""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("faults_clock.c")
DAY, HOUR = 86_400, 3_600


@dataclass(frozen=True)
class Clock:
    """The wall clock of all programs that were started with `environment`."""

    library: Path
    file: Path

    @classmethod
    def make(cls, directory: Path) -> Clock:
        """Build the library that replaces the clock, in a directory. Skips the test if there is no compiler."""
        library, file = directory / "clock.so", directory / "clock"
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip("there is no C compiler")
        file.write_bytes(struct.pack("=q", 0))
        return cls(library, file)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a process that shall use this clock."""
        return {"LD_PRELOAD": str(self.library), "FAULTS_CLOCK": str(self.file)}

    def jump(self, ahead: int) -> None:
        """Set it this many seconds ahead of the machine's clock, or behind if negative."""
        with self.file.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("=q", ahead), 0)
