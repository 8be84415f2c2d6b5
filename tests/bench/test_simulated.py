"""The benchmark of simulated pods without its measurements: its options and its tables."""

from __future__ import annotations

import pytest

from bench.__main__ import NAMES, parse
from bench.growth import BEGIN, DOCUMENT, Growth, Mark, costs, report
from bench.performance import written
from bench.probes import ProbeCosts, Watched, lateness
from bench.simulated import Phase, Scale


def test_simulated_pods_are_measured_only_when_asked_for() -> None:
    assert "simulated" not in NAMES
    options = parse(["--only", "simulated", "--pods", "50"])
    assert (options.only, options.pods) == (("simulated",), 50)


def test_probes_are_measured_on_500_simulated_pods_by_default() -> None:
    options = parse(["--only", "probes"])
    assert (options.only, options.pods) == (("probes",), 500)


@pytest.mark.parametrize("wrong", [["--only", "simulated", "history"], ["--only", "simulated", "--pods", "0"]])
def test_simulated_with_other_measurements_or_with_zero_pods_is_refused(wrong: list[str]) -> None:
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


def test_the_cost_of_growth_is_that_between_two_marks_for_each_pod() -> None:
    marks = [
        Mark(0, {"worker": 1.0, "Temporal": 2.0}),
        Mark(10, {"worker": 1.5, "Temporal": 2.25}),
        Mark(14, {"worker": 2.0, "Temporal": 2.75}),
    ]
    assert [(pods, {part: round(ms) for part, ms in cost.items()}) for pods, cost in costs(marks)] == [
        (10, {"worker": 50, "Temporal": 25}),
        (14, {"worker": 125, "Temporal": 125}),
    ]
    told = report(Growth(marks, marks[:2]), "a machine")
    assert '    x-axis [10, 14]\n    y-axis "ms" 0 --> 260\n    bar [75, 250]\n' in told
    assert [
        [cell.strip() for cell in line.strip("|").split("|")] for line in told.splitlines() if ", up to" in line
    ] == [
        ["applied, up to 10", "50", "25", "75"],
        ["applied, up to 14", "125", "125", "250"],
        ["deleted, up to 10", "50", "25", "75"],
    ]
    assert written(DOCUMENT.read_text(), told, begin=BEGIN).count("a machine") == 1


def test_the_lateness_of_a_probe_is_measured_from_its_most_punctual_grid() -> None:
    asked = [10.2, 20.25, 30.1, 50.4]
    assert [round(late, 3) for late in lateness(asked, 10)] == [0.1, 0.15, 0.0, 0.3]
    assert lateness([1.0], 10) == ()


def test_the_table_of_probes_has_shares_of_a_core_rates_and_history() -> None:
    cpu = {"worker": 3.0, "runtime": 1.5}
    costs = ProbeCosts(
        500,
        [
            Watched(0, 30.0, {"worker": 0.3, "runtime": 0.0}, 100 << 20, 0, (), 0),
            Watched(10, 30.0, cpu, 110 << 20, 1500, (0.0, 0.002, 0.004), 0),
        ],
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in str(costs).splitlines()]
    assert cells[0][:4] == ["500 containers", "CPU %, worker", "CPU %, runtime", "probes/s"]
    assert cells[2] == ["none", "1.0", "0.0", "", "", "", "100 MiB", "0"]
    assert cells[3][:5] == ["3 each, every 10 s", "10.0", "5.0", "100", "2.0 ms"]
    assert cells[3][-1] == "0"
