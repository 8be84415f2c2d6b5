"""The directories of tests' servers."""

import os
from pathlib import Path

from tests.runtimes import claim
from tests.runtimes.in_memory import MEMORY, available_memory, has_room


def test_only_what_makes_many_small_files_lies_in_memory_and_only_where_there_is_room() -> None:
    assert claim.home("containerd") == claim.HOME
    assert claim.home("embedded") == claim.home("temporal")
    assert claim.home("embedded").is_relative_to(MEMORY) == has_room()


def test_a_directory_that_is_no_mount_of_its_own_has_no_room(tmp_path: Path) -> None:
    assert not has_room(tmp_path)


def test_available_memory_is_read_in_bytes(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       24684084 kB\nMemFree:              12 kB\nMemAvailable:          3 kB\n")
    assert available_memory(told) == 3072
    assert available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
