"""Reading /proc."""

from pathlib import Path

import pytest

from syncpod.kernel.procfs import (
    Memory,
    Processors,
    count_tasks,
    process_stat,
    read_memory,
    read_processors,
    read_task_limit,
)


def proc(directory: Path, **files: str) -> Path:
    """A /proc with these files; `__` in a name stands for a slash."""
    for name, text in files.items():
        path = directory / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def test_memory_is_counted_as_eviction_counts_it(tmp_path: Path) -> None:
    told = "MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 100 kB\nAnonPages: 50 kB\nHugePages_Total: 3\n"
    memory = read_memory(proc(tmp_path, meminfo=told))
    assert memory == Memory(1000 * 1024, 300 * 1024, 100 * 1024, 50 * 1024)
    assert (memory.used, memory.working_set, memory.available) == (700 * 1024, 600 * 1024, 400 * 1024)


def test_memory_without_a_total_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="meminfo names no MemTotal"):
        read_memory(proc(tmp_path, meminfo="MemFree: 300 kB\n"))


def test_a_processor_that_is_idle_waits_or_was_taken_away_is_not_busy(tmp_path: Path) -> None:
    told = "cpu  100 0 50 1000 30 0 10 5 0 0\ncpu0 1 2\ncpu1 1 2\nintr 1\nbtime 1795400000\n"
    assert read_processors(proc(tmp_path, stat=told)) == Processors(1_600_000_000, 2, 1_795_400_000)


def test_tasks_are_counted_against_the_smaller_limit_that_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_task_limit(tmp_path)
    assert read_task_limit(proc(tmp_path, sys__kernel__pid_max="400\n")) == 400
    there = proc(tmp_path, **{"sys__kernel__threads-max": "300\n"}, loadavg="0.1 0.2 0.3 2/250 4711\n")
    assert (read_task_limit(there), count_tasks(there)) == (300, 250)


def test_a_process_that_is_gone_has_no_stat() -> None:
    assert process_stat(2**22 + 1) is None
    own = process_stat("self")
    assert own is not None and own.state == "R"
