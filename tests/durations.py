"""Where the time of a run went, told at its end: by folder, by process, and the slowest tests. `make test` loads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

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

    @property
    def folder(self) -> str:
        """The folder below `tests`."""
        return "/".join(PurePosixPath(self.test.partition("::")[0]).parts[:2])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the three tables, whatever became of the tests."""
    grouped = config.getoption("dist", "no") == "loadgroup"
    phases = [
        Timed(_without_group(report.nodeid) if grouped else report.nodeid, _process(report), report.duration)
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


def by_folder(phases: Iterable[Timed]) -> list[str]:
    """One line for each folder, the slowest first: its tests, their seconds, and its share of all seconds."""
    phases = list(phases)
    seconds = _summed((phase.folder, phase.seconds) for phase in phases)
    tests = _summed((folder, 1) for folder, _ in {(phase.folder, phase.test) for phase in phases})
    whole = sum(seconds.values()) or 1.0
    return [
        f"{'folder':<24}{'tests':>7}{'seconds':>10}{'share':>7}",
        *(
            f"{folder:<24}{tests[folder]:>7.0f}{seconds[folder]:>10.1f}{seconds[folder] / whole:>7.1%}"
            for folder in sorted(seconds, key=lambda folder: -seconds[folder])
        ),
        f"{'all':<24}{sum(tests.values()):>7.0f}{sum(seconds.values()):>10.1f}",
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
