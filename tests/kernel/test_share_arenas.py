"""Threads share a few of libc's memory arenas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from syncpod.kernel import libc

PROGRAM = """
import ctypes, sys, threading
from syncpod.kernel.libc import share_arenas

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.open_memstream.restype = ctypes.c_void_p
if sys.argv[1] == "shared":
    share_arenas(2)
together = threading.Barrier(6)

def work():
    together.wait()
    held.append([libc.malloc(ctypes.c_size_t(5_000)) for _ in range(50)])
    together.wait()

held = []
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
text, size = ctypes.c_char_p(), ctypes.c_size_t()
stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(text.value.count(b"<heap nr="))
"""


@pytest.mark.skipif(not hasattr(libc._libc, "mallopt"), reason="only glibc has mallopt")
def test_threads_share_the_arenas() -> None:
    def arenas(how: str) -> int:
        command = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True, timeout=60)
        return int(done.stdout)

    assert arenas("shared") == 2 < arenas("as glibc does")
