"""Prints where the time of a run went: by directory, by process, the slowest tests, and how busy the processors were.

`make test` loads this plugin.

On two cores, CPU time determines how long a run takes, however many tests wait at the same time. So CPU time is counted
too: that of the process that runs the test, and of child processes for which it waited. It excludes servers that
another process ends.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pluggy
import pytest

SLOWEST = 50
"""The number of tests in the list of the slowest."""

WIDTH = 150
"""The largest number of shown characters of a test's id; some ids have kilobytes of parameters."""


@dataclass(frozen=True)
class Timed:
    """One phase of one test (its setup, call or teardown)."""

    test: str
    process: str
    seconds: float
    cpu: float = 0.0
    """CPU time in seconds, of this process and its awaited children."""

    @property
    def folder(self) -> str:
        """The directory below `tests`."""
        return "/".join(PurePosixPath(self.test.partition("::")[0]).parts[:2])


@dataclass(frozen=True)
class Processors:
    """What the machine's processors have done since its boot, in ticks of any process, and the time of this count."""

    at: float
    """Seconds of a monotonic clock."""
    ticks: tuple[int, ...]
    """The columns of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal."""

    @classmethod
    def now(cls) -> Processors:
        """Read the counters."""
        counters = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        return cls(time.monotonic(), tuple(map(int, counters)))

    def since(self, earlier: Processors) -> str:
        """How busy the processors were since an earlier count, and how much of them the hypervisor gave to others.

        A run that takes far longer than usual was either stolen from, or waited: for a test that hangs.
        """
        spent = [now - then for now, then in zip(self.ticks, earlier.ticks, strict=True)]
        whole = sum(spent) or 1
        idle, stolen = (spent[3] + spent[4]) / whole, spent[7] / whole
        return f"{1 - idle - stolen:.0%} busy, {stolen:.0%} stolen, {idle:.0%} idle in {self.at - earlier.at:.0f} s"


_began = Processors.now()
_counted = 0.0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, pluggy.Result[pytest.TestReport]]:
    """Add the CPU time since the previous phase to a phase's report, which xdist sends to its controller."""
    global _counted
    made = yield
    now = _used()
    made.get_result().cpu, _counted = now - _counted, now  # type: ignore[attr-defined]


def _used() -> float:
    """Return the CPU seconds of this process and of the child processes for which it has waited."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the tables, for any result of the tests."""
    grouped = config.getoption("dist", "no") == "loadgroup"
    phases = [
        Timed(
            _without_group(report.nodeid) if grouped else report.nodeid,
            _process(report),
            report.duration,
            getattr(report, "cpu", 0.0),
        )
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    if not phases:
        return
    terminalreporter.section("seconds by folder")
    for line in by_folder(phases):
        terminalreporter.write_line(line)
    terminalreporter.section("seconds by process")
    for process, seconds in sorted(_summed((phase.process, phase.seconds) for phase in phases).items()):
        terminalreporter.write_line(f"{process:<24}{seconds:>17.1f}")
    terminalreporter.write_line(f"the processors: {Processors.now().since(_began)}")
    terminalreporter.section(f"the {SLOWEST} slowest tests")
    for line in slowest(phases):
        terminalreporter.write_line(line)
    terminalreporter.section(f"the {SLOWEST} tests with the most CPU")
    for line in slowest([replace(phase, seconds=phase.cpu) for phase in phases]):
        terminalreporter.write_line(line)


def by_folder(phases: Iterable[Timed]) -> list[str]:
    """One line for each directory, the slowest first: number of tests, seconds, share of all seconds, and CPU time."""
    phases = list(phases)
    seconds = _summed((phase.folder, phase.seconds) for phase in phases)
    cpu = _summed((phase.folder, phase.cpu) for phase in phases)
    tests = _summed((folder, 1) for folder, _ in {(phase.folder, phase.test) for phase in phases})
    whole = sum(seconds.values()) or 1.0
    row = "{:<24}{:>7.0f}{:>10.1f}{:>7}{:>8.1f}"
    return [
        f"{'folder':<24}{'tests':>7}{'seconds':>10}{'share':>7}{'CPU':>8}",
        *(
            row.format(folder, tests[folder], seconds[folder], f"{seconds[folder] / whole:.1%}", cpu[folder])
            for folder in sorted(seconds, key=lambda folder: -seconds[folder])
        ),
        row.format("all", sum(tests.values()), sum(seconds.values()), "", sum(cpu.values())),
    ]


def slowest(phases: Iterable[Timed], count: int = SLOWEST) -> list[str]:
    """One line for each of the slowest tests, with the fixtures that it set up first."""
    return slowest_of(_summed((phase.test, phase.seconds) for phase in phases), count)


def slowest_of(seconds: Mapping[str, float], count: int) -> list[str]:
    """One line for each of the tests that took longest, of these with their seconds."""
    return [
        f"{seconds[test]:>7.1f}  {test[:WIDTH]}" for test in sorted(seconds, key=lambda test: -seconds[test])[:count]
    ]


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, number in pairs:
        sums[name] = sums.get(name, 0) + number
    return sums


def _without_group(test: str) -> str:
    """A test's id without the group that xdist appends with `--dist=loadgroup`."""
    return test.rpartition("@")[0] or test


def _process(report: pytest.TestReport) -> str:
    """The xdist worker that ran a test."""
    return str(getattr(report, "worker_id", "") or "this one")
