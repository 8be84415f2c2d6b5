"""Comparisons of two observations, and a few scenarios on a real kubelet if one is configured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qa.differential import explained
from qa.differential.compare import Seen, Verdict, judge, keep, kept
from qa.differential.families import SCENARIOS
from qa.differential.observation import RULES
from qa.differential.run import run
from qa.differential.sentence import Facts, Reason, Sentence
from qa.differential.sides import stage
from qa.differential.table import write_table
from tests.runtimes.require import Missing, do_without

_FEW = ("exit/Never-0", "exit/Always-1", "init/second-try", "env/metadata-name", "hook/poststart", "refused/two-names")


def test_a_difference_without_a_matching_sentence_is_unexplained() -> None:
    assert judge("exit/a", Seen({"status.phase": "Failed"}, {"status.phase": "Running"})).kind == "unexplained"
    assert judge("exit/a", Seen({"x": 1}, {"x": 1})).kind == "equal"


def test_a_sentence_explains_only_the_differences_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    intended = Sentence(
        "meant", Reason.BETTER, ("status.phase",), ("exit/*",), holds=lambda kubelet, ours: ours == "Running"
    )
    known = Sentence("a defect", Reason.DEFECT, ("status.reason",), holds=lambda kubelet, ours: True)
    monkeypatch.setattr("qa.differential.compare.EXPLAINED", (intended,))
    monkeypatch.setattr("qa.differential.compare.DEFECTS", (known,))

    def kind(title: str, path: str, ours: str) -> str:
        return judge(title, Seen({path: "Failed"}, {path: ours})).kind

    assert kind("exit/a", "status.phase", "Running") == "explained"
    assert kind("exit/a", "status.phase", "Pending") == "unexplained"
    assert kind("probe/a", "status.phase", "Running") == "unexplained"
    assert kind("probe/a", "status.reason", "Running") == "defect"


def test_generated_names_are_replaced_by_placeholders() -> None:
    said = f"containerd://{'a1' * 32} at 2026-01-31T12:00:01.5Z from 10.64.3.7"
    for rule in RULES:
        said = rule.pattern.sub(rule.word, said)
    assert said == "containerd://<id> at <time> from <ip>"


def test_results_are_kept_from_run_to_run_and_make_the_page(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    found = judge("exit/a", Seen({"status.phase": "Failed"}, {"status.phase": "Running"}))
    keep(results, [found, Verdict("exit/b", "equal")])
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


def test_each_explanation_is_listed_once_and_checked() -> None:
    sentences = (*explained.EXPLAINED, *explained.DEFECTS)
    assert len({each.text for each in sentences}) == len(sentences)
    assert [each.text for each in sentences if each.holds is None and each.turned is None] == []


def _ended(*, code: int = 3, last: int = 3, restarts: int = 2) -> dict[str, object]:
    """A container's status in a kubelet that shows it as terminated during its back-off."""
    at = "status.containerStatuses.main"
    return {
        f"{at}.restartCount": restarts,
        f"{at}.state.terminated.exitCode": code,
        f"{at}.state.terminated.reason": "Error",
        f"{at}.lastState.terminated.exitCode": last,
        f"{at}.lastState.terminated.reason": "Error",
    }


def _waits(*, code: int = 3, restarts: int = 2, delay: str = "20s", name: str = "main") -> dict[str, object]:
    """The container's status in a node of ours at that time."""
    at = "status.containerStatuses.main"
    return {
        f"{at}.restartCount": restarts,
        f"{at}.state.waiting.reason": "CrashLoopBackOff",
        f"{at}.state.waiting.message": f"back-off {delay} restarting failed container={name} pod=a_default(<uid>)",
        f"{at}.lastState.terminated.exitCode": code,
        f"{at}.lastState.terminated.reason": "Error",
    }


@pytest.mark.parametrize(
    ("kubelet", "ours", "kind"),
    [
        (_ended(), _waits(), "explained"),
        (_ended(last=7), _waits(), "explained"),
        (_ended(restarts=6), _waits(restarts=6, delay="5m0s"), "explained"),
        (_ended(code=7), _waits(code=3), "unexplained"),
        (_ended(), _waits(restarts=3), "unexplained"),
        (_ended(), _waits(delay="40s"), "unexplained"),
        (_ended(), _waits(name="other"), "unexplained"),
        (_waits(), _ended(), "unexplained"),
    ],
    ids=[
        "as it ended",
        "other end before",
        "longest",
        "other code",
        "other count",
        "other delay",
        "other name",
        "ours",
    ],
)
def test_only_a_kubelets_delayed_waiting_state_is_explained(kubelet: Facts, ours: Facts, kind: str) -> None:
    assert judge("exit/a", Seen(kubelet, ours)).kind == kind


@pytest.mark.parametrize(
    ("event", "kind"), [({}, "explained"), ({"event.Normal Created third: Container created": 1}, "unexplained")]
)
def test_a_container_that_only_we_had_made_ahead_may_have_left_no_event(event: dict[str, int], kind: str) -> None:
    waits = {"status.initContainerStatuses.third.state.waiting.reason": "PodInitializing"}
    made = {"container.third.logPath": "third/0.log"}
    assert judge("init/a", Seen(waits, waits | made | event)).kind == kind
    assert judge("init/a", Seen({}, made)).kind == "unexplained", "it does not wait"
    assert judge("exit/a", Seen(waits, waits | made)).kind == "unexplained"


@pytest.mark.parametrize(("requested", "kind"), [("120m", "explained"), ("100m", "unexplained")])
def test_requests_that_only_an_api_server_adds_have_to_be_the_limits(requested: str, kind: str) -> None:
    limits = {"status.resources.limits.cpu": "120m", "status.resources.limits.memory": "64Mi"}
    ours = {
        **limits,
        "status.resources.requests.cpu": requested,
        "status.resources.requests.memory": "64Mi",
        "status.allocatedResources.cpu": requested,
        "status.allocatedResources.memory": "64Mi",
        "status.qosClass": "Guaranteed",
        "sandbox.linux.cgroupParent": "<cgroup>/pod<uid>",
        "container.main.linux.resources.oomScoreAdj": "-997",
    }
    kubelet = {
        **limits,
        "status.qosClass": "Burstable",
        "sandbox.linux.cgroupParent": "<cgroup>/burstable/pod<uid>",
        "container.main.linux.resources.oomScoreAdj": "999",
    }
    assert judge("resources/pod-limits", Seen(kubelet, ours)).kind == kind
    assert judge("resources/pod-both", Seen(kubelet, ours)).kind == "unexplained"


@pytest.mark.parametrize(("code", "kind"), [(3, "explained"), (4, "unexplained")])
def test_another_container_may_have_more_restarts_but_must_end_alike(code: int, kind: str) -> None:
    kubelet = {path.replace(".main.", ".other."): value for path, value in _ended(restarts=4).items()}
    ours = {path.replace(".main.", ".other."): value for path, value in _waits(code=code, delay="10s").items()}
    assert judge("several/Always-0-3", Seen(kubelet, ours)).kind == kind
    assert judge("exit/a", Seen(kubelet, ours)).kind == "unexplained", "only beside the container of the moment"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("Warning Exited main: Container main exited with code 3 (Error)", "explained"),
        ("Warning Exited main: Container main exited with code 4 (Error)", "unexplained"),
        ("Normal Exited main: Container main exited with code 3 (Error)", "unexplained"),
        ("Normal Exited main: Container main exited with code 3 (Error): deleted", "explained"),
        ("Warning Exited other: Container other exited with code 3 (Error)", "unexplained"),
    ],
)
def test_an_exit_is_explained_only_as_the_kubelet_shows_it(event: str, kind: str) -> None:
    shown = _ended()
    assert judge("exit/a", Seen(shown, {**shown, f"event.{event}": "seen"})).kind == kind


async def test_a_few_scenarios_match_a_real_kubelet() -> None:
    if not os.environ.get("SYNCPOD_DIFFERENTIAL"):
        pytest.skip("by hand only: SYNCPOD_DIFFERENTIAL=1, or make differential for all of it")
    try:
        async with stage("2.4") as both:
            verdicts = await run(both, [each for each in SCENARIOS if each.title in _FEW], lambda verdict: None)
    except Missing as missing:
        do_without("kubelet", str(missing))
    assert [each for each in verdicts if each.kind in ("unexplained", "undecided")] == []
