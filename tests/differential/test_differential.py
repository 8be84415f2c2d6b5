"""What the comparison makes of two observations; and a few scenarios on a real kubelet, where one is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.differential import explained
from tests.differential.compare import Verdict, differences, judge
from tests.differential.explained import Sentence
from tests.differential.families import SCENARIOS
from tests.differential.observation import RULES, Observation
from tests.differential.results import keep, kept
from tests.differential.run import run
from tests.differential.sides import stage
from tests.differential.table import write_table
from tests.runtimes.require import Missing, do_without

_FEW = ("exit/Never-0", "exit/Always-1", "init/second-try", "env/metadata-name", "hook/poststart", "refused/two-names")


def test_a_difference_that_no_sentence_fits_is_unexplained() -> None:
    found = differences("exit/a", Observation({"status.phase": "Failed"}), Observation({"status.phase": "Running"}))
    assert judge("exit/a", found).kind == "unexplained"
    assert judge("exit/a", differences("exit/a", Observation({"x": 1}), Observation({"x": 1}))).kind == "equal"


def test_a_sentence_explains_only_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    intended = Sentence("meant", ("status.phase",), ("exit/*",), holds=lambda kubelet, ours: ours == "Running")
    known = Sentence("a defect", ("status.reason",))
    monkeypatch.setattr("tests.differential.compare.EXPLAINED", (intended,))
    monkeypatch.setattr("tests.differential.compare.DEFECTS", (known,))

    def kind(title: str, path: str, ours: str) -> str:
        return judge(title, differences(title, Observation({path: "Failed"}), Observation({path: ours}))).kind

    assert kind("exit/a", "status.phase", "Running") == "explained"
    assert kind("exit/a", "status.phase", "Pending") == "unexplained"
    assert kind("probe/a", "status.phase", "Running") == "unexplained"
    assert kind("probe/a", "status.reason", "Running") == "defect"


def test_what_is_drawn_gets_a_word() -> None:
    said = f"containerd://{'a1' * 32} at 2026-01-31T12:00:01.5Z from 10.64.3.7"
    for rule in RULES:
        said = rule.pattern.sub(rule.word, said)
    assert said == "containerd://<id> at <time> from <ip>"


def test_results_are_kept_from_run_to_run_and_make_the_page(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    found = differences("exit/a", Observation({"status.phase": "Failed"}), Observation({"status.phase": "Running"}))
    keep(results, [judge("exit/a", found), Verdict("exit/b", "equal")])
    keep(results, [Verdict("exit/b", "undecided", why="the kubelet was slow")])
    verdicts = kept(results, ["exit/a", "exit/b", "exit/c"])
    assert [each.kind for each in verdicts] == ["unexplained", "undecided", "undecided"]
    page.write_text("# A page\n<!-- scenarios: begin -->\nold\n<!-- scenarios: end -->\nthe end\n")
    write_table(page, verdicts)
    written = page.read_text()
    assert "old" not in written
    assert written.endswith("<!-- scenarios: end -->\nthe end\n")
    assert "| exit/a | `status.phase` | `Failed` | `Running` |" in written
    assert "Not tried in these runs: 1 of exit." in written
    assert "3 scenarios: 1 with a difference that nothing explains, 2 undecided." in written


def test_each_sentence_is_said_once() -> None:
    texts = [each.text for each in (*explained.EXPLAINED, *explained.DEFECTS)]
    assert len(texts) == len(set(texts))


async def test_a_few_scenarios_on_a_kubelet() -> None:
    if not os.environ.get("SYNCPOD_DIFFERENTIAL"):
        pytest.skip("by hand only: SYNCPOD_DIFFERENTIAL=1, or make differential for all of it")
    try:
        async with stage("2.4") as both:
            verdicts = await run(both, [each for each in SCENARIOS if each.title in _FEW], lambda verdict: None)
    except Missing as missing:
        do_without("kubelet", str(missing))
    assert [each for each in verdicts if each.kind in ("unexplained", "undecided")] == []
