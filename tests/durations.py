"""Prints where the time of a run went: by directory, by process, and the slowest tests. `make test` loads this plugin.

On two cores, CPU time determines how long a run takes, however many tests wait at the same time. So CPU time is counted
too: that of the process that runs the test, and of child processes for which it waited. It excludes servers that
another process ends.
"""

from __future__ import annotations

import resource
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import pluggy
import pytest

SLOWEST = 50
"""How many tests are named."""

WIDTH = 150
"""Characters of a test's id that are shown: some have kilobytes of parameters."""


@dataclass(frozen=True)
class Timed:
    """One phase of one test (its setup, call or teardown)."""

    test: str
    process: str
    seconds: float
    cpu: float = 0.0
    """Seconds of CPU, as far as this process knows of them."""

    @property
    def folder(self) -> str:
        """The folder below `tests`."""
        return "/".join(PurePosixPath(self.test.partition("::")[0]).parts[:2])


_counted = 0.0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, pluggy.Result[pytest.TestReport]]:
    """Note in a phase's report the CPU time since the one before. A report keeps it on its way to the first process."""
    global _counted
    made = yield
    now = _used()
    made.get_result().cpu, _counted = now - _counted, now  # type: ignore[attr-defined]


def _used() -> float:
    """Return the seconds of CPU that this process and its children have taken; a child's, once it was waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the three tables, whatever became of the tests."""
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
    terminalreporter.section(f"the {SLOWEST} slowest tests")
    for line in slowest(phases):
        terminalreporter.write_line(line)
    terminalreporter.section(f"the {SLOWEST} tests with the most CPU")
    for line in slowest([replace(phase, seconds=phase.cpu) for phase in phases]):
        terminalreporter.write_line(line)


def by_folder(phases: Iterable[Timed]) -> list[str]:
    """One line for each folder, the slowest first: its tests, their seconds and their share of all, and their CPU."""
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
    """One line for each of the slowest tests, with the fixtures that it was the first to ask for."""
    seconds = _summed((phase.test, phase.seconds) for phase in phases)
    return [
        f"{seconds[test]:>7.1f}  {test[:WIDTH]}" for test in sorted(seconds, key=lambda test: -seconds[test])[:count]
    ]


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, number in pairs:
        sums[name] = sums.get(name, 0) + number
    return sums


def _without_group(test: str) -> str:
    """What xdist calls a test under `--dist=loadgroup`, without the group that it appends."""
    return test.rpartition("@")[0] or test


def _process(report: pytest.TestReport) -> str:
    """Which of xdist's processes ran a test."""
    return str(getattr(report, "worker_id", "") or "this one")
