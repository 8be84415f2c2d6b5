"""CPU and memory usage from /proc, and disk usage of directories."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.kernel.procfs import ProcessStat, parse_process_stat
from syncpod.runtime.cgroups.usage import (
    CpuReading,
    DirectoryUsage,
    ProcessTable,
    directory_usage,
    nano_cores,
    usage_below,
    usage_of,
)
from syncpod.runtime.port import Usage

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def process(pid: int, parent: int, *, state: str = "S", own: int = 0, waited: int = 0, start: int = 0) -> ProcessStat:
    return ProcessStat(pid, parent, 0, state, own, waited, start_ticks=start or pid, resident_bytes=1000 * pid)


TREE = (
    process(1, 0, own=900),
    process(10, 1, own=1, waited=2),
    process(11, 10, own=4),
    process(12, 11, own=8, state="Z"),
    process(20, 1, own=700),
)


def test_usage_sums_a_process_and_its_descendants_without_counting_zombies() -> None:
    assert ProcessTable(TREE).usage(10) == Usage(cpu_nanoseconds=15 * TICK, memory_bytes=33_000, processes=2)


def test_usage_below_a_supervisor_excludes_its_own_but_includes_reaped_children() -> None:
    assert ProcessTable(TREE).usage_below(10) == Usage(cpu_nanoseconds=14 * TICK, memory_bytes=23_000, processes=1)


@pytest.mark.parametrize("pid", [12, 99])
def test_an_ended_process_has_no_usage(pid: int) -> None:
    assert ProcessTable(TREE).usage(pid) is None
    assert ProcessTable(TREE).usage_below(pid) is None


def test_a_parent_younger_than_its_child_is_a_reused_pid() -> None:
    reused = (process(10, 1, start=500), process(11, 10, own=4, start=400), process(12, 10, own=8, start=600))
    assert ProcessTable(reused).usage(10) == Usage(cpu_nanoseconds=8 * TICK, memory_bytes=22_000, processes=2)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(0, 3)), max_size=12))
def test_any_inconsistent_process_table_is_summed_without_loops_or_duplicates(rows: list[tuple[int, int, int]]) -> None:
    processes = {pid: replace(process(pid, parent, own=1), start_ticks=start) for pid, parent, start in rows}
    for pid in processes:
        usage = ProcessTable(processes.values()).usage(pid)
        assert usage is not None and 1 <= usage.processes <= len(processes)


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=15))
def test_a_process_name_may_contain_any_characters(name: str) -> None:
    fields = ["R", "7", *map(str, range(5, 14)), "1", "2", "3", "4", *map(str, range(18, 22)), "99", "23", "24", "25"]
    read = parse_process_stat(f"42 ({name}) {' '.join(fields)}".encode())
    assert (read.pid, read.parent, read.session, read.state) == (42, 7, 6, "R")
    assert (read.own_ticks, read.waited_ticks) == (3, 7)
    assert (read.start_ticks, read.resident_bytes) == (99, 24 * os.sysconf("SC_PAGE_SIZE"))


FAMILY = """
import subprocess, sys
grown_up = "hoard = b'x' * (32 << 20); print('.', flush=True); input()"
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", grown_up], start_new_session=True)
child.wait()
"""


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_usage_includes_children_in_other_sessions() -> None:
    command = [sys.executable, "-I", "-S", "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout and parent.stdout.readline() == ".\n"
        whole, below, table = usage_of(parent.pid), usage_below(parent.pid), ProcessTable.read()
        assert whole and below
        assert (whole.processes, below.processes) == (2, 1)
        assert whole.memory_bytes > below.memory_bytes > 32 * MIB
        assert table.usage(parent.pid) is not None
        parent.communicate("\n")
    assert usage_of(parent.pid) is None


def test_cpu_time_of_ended_children_is_kept() -> None:
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(6_000_000))'], check=True); input()"
    )
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, text=True) as parent:
        eventually(lambda: (now := usage_below(parent.pid)) is not None and now.cpu_nanoseconds > 0)
        highest = 0

        def alone_and_never_less() -> bool:
            nonlocal highest
            now = usage_below(parent.pid)
            assert now and now.cpu_nanoseconds >= highest
            highest = now.cpu_nanoseconds
            return now.processes == 0

        eventually(alone_and_never_less)
        assert highest > 0
        parent.communicate("\n")


def test_an_unreaped_process_counts_as_ended() -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        assert usage_of(sleeper.pid) is not None
        os.kill(sleeper.pid, signal.SIGKILL)
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
        assert usage_of(sleeper.pid) is None


RATES = {
    "half a core": ((0, 0), (2_000_000_000, 1_000_000_000), 500_000_000),
    "two cores": ((10, 10), (1_000_000_010, 2_000_000_010), 2_000_000_000),
    "idle": ((0, 7), (5, 7), 0),
    "no time between": ((5, 0), (5, 9), None),
    "started anew": ((0, 9), (5, 1), None),
}


@pytest.mark.parametrize(("earlier", "later", "rate"), RATES.values(), ids=RATES.keys())
def test_the_cpu_rate_between_two_readings(earlier: tuple[int, int], later: tuple[int, int], rate: int | None) -> None:
    assert nano_cores(CpuReading(*earlier), CpuReading(*later)) == rate


def test_directory_usage_equals_that_of_du(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    (tmp_path / "below" / "deeper").mkdir(parents=True)
    (tmp_path / "below" / "deeper" / "small").write_text("x")
    os.link(tmp_path / "large", tmp_path / "below" / "second-name")
    (tmp_path / "elsewhere").symlink_to("/usr")
    os.mkfifo(tmp_path / "pipe")
    used = directory_usage(tmp_path)

    def du(*options: str) -> int:
        done = subprocess.run(["du", "-s", *options, str(tmp_path)], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0])

    assert used == DirectoryUsage(bytes=du("--block-size=1"), inodes=du("--inodes"))
    assert used.inodes == 8
    assert directory_usage(*tmp_path.iterdir(), tmp_path / "gone") == directory_usage(tmp_path / "below")
    (tmp_path / "other").mkdir()
    os.link(tmp_path / "large", tmp_path / "other" / "third-name")
    both = directory_usage(tmp_path / "below", tmp_path / "other")
    assert both is not None and both.inodes == 5, "the file that is in both counts once"
    assert 100_000 <= used.bytes < MIB


def test_a_directory_with_too_many_files_is_not_measured_in_part(tmp_path: Path) -> None:
    for name in range(5):
        (tmp_path / str(name)).touch()
    assert directory_usage(tmp_path, at_most=5) is not None
    assert directory_usage(tmp_path, at_most=4) is None


def test_a_directory_that_is_gone_is_not_measured(tmp_path: Path) -> None:
    assert directory_usage(tmp_path / "gone") is None
