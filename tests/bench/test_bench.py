"""The options, figures and table of the benchmark program, without its measurements."""

from __future__ import annotations

import pytest

from bench.__main__ import NAMES, main, parse
from bench.figures import Figure, Row, render


def test_everything_is_measured_on_containerd_16_unless_told_otherwise() -> None:
    options = parse([])
    assert (options.runtime, options.only, options.runs) == ("1.6", NAMES, 9)


def test_selected_measurements_run_in_the_order_of_the_table() -> None:
    options = parse(["--runtime", "2.4", "--only", "cli", "start-cni", "--runs", "3"])
    assert (options.runtime, options.only, options.runs) == ("2.4", ("start-cni", "cli"), 3)


@pytest.mark.parametrize("wrong", [["--runtime", "3.0"], ["--only", "start"], ["--runs", "0"], ["--runs", "some"]])
def test_wrong_options_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(wrong)
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_an_aim_applies_to_the_ratio_if_there_is_a_floor_and_else_to_the_figure() -> None:
    floor = Figure((100.0, 90.0, 110.0))
    assert Row("start", Figure((120.0, 130.0, 110.0)), floor, aim=1.25).met is True
    assert Row("start", Figure((130.0,)), floor, aim=1.25).met is False
    assert Row("history", Figure((18.0,), "events"), aim=17).met is False
    assert Row("no-op", Figure((0.0,), "events"), aim=0).met is True
    assert Row("shown", Figure((1.0,))).met is None


def test_the_table_has_medians_ranges_ratios_and_aims() -> None:
    rows = [
        Row("start", Figure((214.4, 201.0, 260.0)), Figure((170.0,)), aim=1.25),
        Row("history", Figure((19.0,), "events"), aim=20),
        Row("decide", Figure((62.15, 61.9), "µs")),
    ]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in render(rows).splitlines()]
    assert cells[0] == ["", "engine", "bare calls", "ratio", "aim", "met"]
    assert cells[2:] == [
        ["start", "214 ms (201–260)", "170 ms", "1.26 ×", "≤ 1.25 ×", "NO"],
        ["history", "19 events", "", "", "≤ 20 events", "yes"],
        ["decide", "62.0 µs (61.9–62.1)", "", "", "", ""],
    ]
    assert len({len(line) for line in render(rows).splitlines()}) == 1


def test_it_prints_the_machine_and_then_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "decisions", "--runs", "1"]) == 0
    environment, blank, heading, rule, *rows = capsys.readouterr().out.splitlines()
    assert environment.startswith("Linux ")
    assert "load average" in environment
    assert (blank, heading.count("|"), rule.strip("|-")) == ("", 7, "")
    assert [row.split("|")[1].strip() for row in rows] == [
        "compute_pod_actions, per call: nothing to do",
        "compute_pod_actions, per call: a container to restart",
    ]
