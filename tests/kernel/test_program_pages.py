"""Memory pages that only a program's start needed are freed, and the program continues."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from syncpod.kernel.libc import malloc_trim
from syncpod.kernel.program_pages import free_own_pages, free_program_pages


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may advise on the memory of another process")
def test_a_process_goes_on_without_the_pages_of_its_program(tmp_path: Path) -> None:
    program = Path(shutil.copy(os.path.realpath(shutil.which("cat") or ""), tmp_path / "own"))
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"one\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"one\n"
        assert 0 < free_program_pages(child.pid) <= program.stat().st_size + 4 * os.sysconf("SC_PAGE_SIZE")
        assert child.communicate(b"two\n")[0] == b"two\n"
    assert child.returncode == 0


def test_a_process_goes_on_without_those_of_its_own_program_and_libraries() -> None:
    malloc_trim()
    assert free_own_pages() > Path("/proc/self/exe").stat().st_size / 2
    assert [word.upper() for word in ("goes", "on")] == ["GOES", "ON"]


def test_a_process_that_has_ended_has_none() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    with pytest.raises(OSError, match="No such"):
        free_program_pages(child.pid)
