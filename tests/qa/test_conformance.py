"""Kubernetes' own tests of a node: their results are read rightly, and the fastest of each group pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qa.conformance import page, suite
from qa.conformance.__main__ import tell
from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import network_namespace
from qa.conformance.nodes import runtime, syncpod
from tests.runtimes.require import Missing, do_without

FASTEST = 36


def test_a_report_gives_the_tests_that_ran_with_the_first_line_of_a_failure() -> None:
    spec = {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "RunTime": 2_500_000_000}
    report = {
        "SpecReports": [
            spec | {"LeafNodeText": "should run", "State": "passed"},
            spec | {"LeafNodeText": "should end", "State": "failed", "Failure": {"Message": "it did not\nat all"}},
            spec | {"LeafNodeText": "should wait", "State": "skipped"},
            {"ContainerHierarchyTexts": None, "LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
        ]
    }
    assert suite.results([report]) == [
        suite.Result("[sig-node] Pods should end", "failed", 2.5, "it did not"),
        suite.Result("[sig-node] Pods should run", "passed", 2.5),
    ]


def test_a_test_that_the_kubelet_passes_and_we_do_not_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    passed = next(each.name for each in suite.kubelets() if each.passed)
    failed = next(each.name for each in suite.kubelets() if not each.passed)
    assert tell([suite.Result(failed, "failed", 1.0, "no")], Path("/out")) == 0
    assert tell([suite.Result(passed, "failed", 1.0, "no"), suite.Result(failed, "passed", 1.0)], Path("/out")) == 1
    assert "1 of 2 passed; 1 that the kubelet passes did not" in capsys.readouterr().out


def test_the_fastest_tests_are_of_different_groups_and_pass_with_the_kubelet() -> None:
    chosen = suite.fastest(FASTEST)
    assert len({" ".join(each.name.split()[:4]) for each in chosen}) == FASTEST
    assert all(each.passed and "[Serial]" not in each.name and "[Slow]" not in each.name for each in chosen)


@pytest.mark.timeout(900)
def test_a_node_of_ours_passes_the_fastest_test_of_each_group(tmp_path: Path) -> None:
    wanted = suite.fastest(FASTEST)
    focus = [f"{re.escape(each.name)}$" for each in wanted]
    try:
        with (
            network_namespace(),
            ControlPlane(tmp_path / "cluster") as cluster,
            runtime("2.4") as containerd,
            syncpod(cluster, containerd, tmp_path / "node"),
        ):
            results = suite.run(cluster, tmp_path, labels=suite.NODE_CONFORMANCE, focus=focus)
    except Missing as missing:
        do_without("kubernetes", str(missing))
    assert [(each.name, each.message) for each in results if not each.passed] == []
    assert {each.name for each in results} == {each.name for each in wanted}


def test_the_page_says_what_was_recorded() -> None:
    assert page.DOCUMENT.read_text() == page.rendered()


def test_a_recorded_result_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "results.tsv"
    suite.record(path, [suite.Result("a", "failed", 1.0), suite.Result("b [Conformance]", "passed", 2.0)])
    suite.record(path, [suite.Result("a", "passed", 3.0)])
    assert suite.recorded(path) == [suite.Result("a", "passed", 3.0), suite.Result("b [Conformance]", "passed", 2.0)]
