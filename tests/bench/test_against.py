"""The tables of the comparison with a kubelet, without measurements."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from bench import performance
from bench.__main__ import main, parse
from bench.against import BARE, CROWD, DURABLE, KUBELET, NODE_SIDE, Contest, Samples, Side, hindrance, rows
from bench.figures import Figure, Row
from bench.performance import BEGIN, DOCUMENT, END, report, written

SAMPLES = {
    quantity: {KUBELET: [0.2, 0.4, 0.3], NODE_SIDE: [0.24, 0.15, 0.12], BARE: [0.1], DURABLE: [0.12]}
    for quantity in (
        *("start", "report", "inits", "chain", "long-chain", "containers", "restart"),
        *("start-crowd", "start-large", "stop", "stop-crowd", "stop-large"),
    )
} | {quantity: {KUBELET: [0.08], NODE_SIDE: [0.1], DURABLE: [0.05]} for quantity in ("cpu-start", "cpu-stop", "memory")}


def test_each_row_has_all_sides_and_what_the_node_is_to_the_others() -> None:
    heading, *found = rows(SAMPLES)
    sides = ("kubelet", "syncpod", "bare calls", "durable floor")
    assert heading == ("", *sides, "to the kubelet", "to the bare calls", "to the durable floor")
    by_work = {what.partition(",")[0]: cells for what, *cells in found}
    times = ["300 ms (200–400)", "150 ms (120–240)", "100 ms", "120 ms"]
    assert by_work["one pod (CNI)"] == [*times, "0.50 ×", "1.50 ×", "1.25 ×"]
    assert rows(SAMPLES | {"report": {KUBELET: [-0.001], NODE_SIDE: [0.018]}})[2][1:] == (
        *("-1 ms", "18 ms", "", ""),
        *("", "", ""),
    )
    assert by_work["memory (PSS) with 30 pods"] == ["0.08 MiB", "0.10 MiB", "", "0.05 MiB", "1.25 ×", "", "2.00 ×"]
    assert by_work["CPU of each pod of a crowd"] == ["80 ms", "100 ms", "", "50 ms", "1.25 ×", "", "2.00 ×"]


def test_only_what_was_measured_before_is_replaced() -> None:
    events = (Row("history of a start", Figure((19.0,), "events")),)
    text = report("| a |", events, "Linux, load average 0.1", is_busy=False)
    assert ("mislead" in text, "mislead" in report("| a |", events, "Linux", is_busy=True)) == (False, True)
    assert "| history of a start | 19     |" in text
    page = f"# Performance\n\n{BEGIN}\nold\n{END}\n\nWhat limits it.\n"
    new = written(page, text)
    assert new == f"# Performance\n\n{BEGIN}\n{text}{END}\n\nWhat limits it.\n"
    assert written(new, text) == new
    with pytest.raises(ValueError, match="one place between"):
        written("# Performance\n", text)


def test_the_page_has_a_place_for_what_is_measured() -> None:
    assert "measured anew" in written(DOCUMENT.read_text(), "measured anew\n")


def test_a_comparison_with_a_kubelet_is_measured_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--against", "kubelet", "--runtime", "2.4"]).against == "kubelet"
    for wrong in (["--against", "nothing"], ["--against", "kubelet", "--only", "cli"]):
        with pytest.raises(SystemExit) as ended:
            parse(wrong)
        assert ended.value.code == 2
        assert "--against" in capsys.readouterr().err


def test_a_kubelet_whose_loop_stood_still_within_a_crowd_is_not_compared() -> None:
    taken_up = {f"crowd-7-{number}-bench": 100 + number / 50 for number in range(CROWD)}
    apart = {f"one-{number}-bench": 10.0 * number for number in range(10)}
    assert hindrance(taken_up | apart) == ""
    late = {name: at + 5 * (at > 100.3) for name, at in taken_up.items()}
    assert hindrance(late | apart) == "crowd-7: the kubelet's loop stood for 5.0 s, so its times say nothing"


@pytest.mark.parametrize("why", ["", "crowd-7: the kubelet's loop stood for 5.0 s, so its times say nothing"])
def test_what_was_measured_is_printed_even_if_the_kubelet_was_hindered(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took eighteen minutes. The page keeps the figures of a whole run."""
    page, side = tmp_path / "performance.md", cast(Side, None)
    page.write_text(before := f"# Performance\n\n{BEGIN}\nold\n{END}\n")

    @contextlib.asynccontextmanager
    async def contest(version: str) -> AsyncIterator[Contest]:
        yield Contest(side, side, side, side, f"kubelet, containerd {version}", lambda: why)

    @contextlib.asynccontextmanager
    async def stage(version: str) -> AsyncIterator[None]:
        yield

    async def measure(*_: object) -> Samples:
        return SAMPLES

    async def histories(_: object) -> tuple[Row, ...]:
        return (Row("history of a start", Figure((19.0,), "events")),)

    for name, fake in (("contest", contest), ("stage", stage), ("measure", measure), ("histories", histories)):
        monkeypatch.setattr(performance, name, fake)
    monkeypatch.setattr(performance, "DOCUMENT", page)
    code, shown = main(["--against", "kubelet"]), capsys.readouterr()
    assert code == (1 if why else 0)
    assert "memory (PSS) with 30 pods" in shown.out and "history of a start" in shown.out
    assert shown.out.startswith(f"Void: {why}\n") is bool(why)
    assert (f"bench: {why}: docs/performance.md stays as it is\n" in shown.err) is bool(why)
    assert (page.read_text() == before) is bool(why)
