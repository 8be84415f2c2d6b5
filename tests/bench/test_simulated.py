"""The bench of simulated pods, without what it measures: its options and its tables."""

from __future__ import annotations

import pytest

from bench.__main__ import NAMES, parse
from bench.simulated import Phase, Scale


def test_simulated_pods_are_measured_only_when_asked_for() -> None:
    assert "simulated" not in NAMES
    options = parse(["--only", "simulated", "--pods", "50"])
    assert (options.only, options.pods) == (("simulated",), 50)


@pytest.mark.parametrize("wrong", [["--only", "simulated", "history"], ["--only", "simulated", "--pods", "0"]])
def test_they_are_measured_alone_and_there_are_some(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(wrong)
    assert ended.value.code == 2


def test_the_tables_have_rates_cpu_and_memory_per_pod() -> None:
    scale = Scale(
        pods=200,
        phases=[
            Phase("200 applied", 200, 10.0, {"runtime": 2.0, "worker": 4.04}),
            Phase("idle", 0, 15.0, {"runtime": 0.0, "worker": 0.1}),
        ],
        memory={"runtime": (50 << 20, 52 << 20), "worker": (100 << 20, 150 << 20)},
        late=3,
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in str(scale).splitlines()]
    assert cells[0] == ["", "seconds", "pods/s", "CPU s, runtime", "CPU s, worker"]
    assert cells[2:4] == [["200 applied", "10.0", "20", "2.0", "4.0"], ["idle", "15.0", "", "0.0", "0.1"]]
    assert cells[5] == ["", "empty", "with 200 pods", "per pod"]
    assert cells[7:9] == [
        ["runtime", "50 MiB", "52 MiB", "10.2 KiB"],
        ["worker", "100 MiB", "150 MiB", "256.0 KiB"],
    ]
    assert cells[-1] == ["3 applies were answered only after 5 s"]
