"""Large blocks of memory are returned to the kernel when they are free."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from syncpod.kernel import libc

PROGRAM = """
import sys
from pathlib import Path
from syncpod.kernel.libc import map_large_blocks

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

if sys.argv[1] == "mapped":
    map_large_blocks(1 << 20)
before = resident()
for megabytes in (12, 11, 11):
    block = bytearray(megabytes << 20)
    del block
print(resident() - before)
"""


@pytest.mark.skipif(not hasattr(libc._libc, "mallopt"), reason="only glibc has mallopt")
def test_a_freed_block_does_not_stay_with_the_process() -> None:
    left = {
        how: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, how],
                cwd=Path(__file__).parents[2],
                capture_output=True,
                check=True,
                timeout=60,
            ).stdout
        )
        for how in ("mapped", "as glibc does")
    }
    assert left["mapped"] < 2 << 20 < left["as glibc does"], left
