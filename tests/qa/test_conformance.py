"""Kubernetes' node conformance tests: their results are parsed correctly, and the fastest of each group pass."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import pytest

from qa.conformance import page, suite
from qa.conformance.__main__ import tell
from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import FIRST, SECOND, Host, join_pod_networks, network_namespace, second_namespace
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


_ASK: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).status)"


@contextmanager
def _serving(host: Host, address: str) -> Iterator[None]:
    """A web server on this machine, at a pod's address there."""
    subprocess.run([*host.within, "ip", "address", "replace", address, "dev", "lo"], check=True)
    command = [*host.within, sys.executable, "-u", "-m", "http.server", "--bind", address, "8000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        assert serving.stdout is not None
        assert address in serving.stdout.readline()
        try:
            yield
        finally:
            serving.kill()


def _status(host: Host, server: str) -> str:
    command = [*host.within, sys.executable, "-c", _ASK, f"http://{server}/"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_two_machines_reach_each_other_and_each_others_pods_and_leave_nothing() -> None:
    pods = ip_network("10.64.1.0/24"), ip_network("10.64.2.0/24")
    nat = [*FIRST.within, "iptables", "-t", "nat", "-A"]
    try:
        with network_namespace(), second_namespace():
            join_pod_networks(*pods)
            for server, client, network in ((FIRST, SECOND, pods[0]), (SECOND, FIRST, pods[1])):
                address = str(network[1])  # as the bridge of a node's pods has it
                with _serving(server, address):
                    assert _status(client, f"{address}:8000") == "200"
            # A port of the first machine, whose server is on the second one, as kube-proxy makes it.
            pod, port = f"{pods[1][1]}:8000", ["-p", "tcp", "--dport", "8001"]
            subprocess.run([*nat, "PREROUTING", *port, "-j", "DNAT", "--to-destination", pod], check=True)
            subprocess.run([*nat, "POSTROUTING", "-j", "MASQUERADE"], check=True)
            with _serving(SECOND, str(pods[1][1])):
                assert _status(SECOND, f"{FIRST.address}:8001") == "200"
            assert {FIRST.namespace, SECOND.namespace} <= _namespaces()
    except Missing as missing:
        do_without("kubernetes", str(missing))
    assert not {FIRST.namespace, SECOND.namespace} & _namespaces()


def test_both_machines_of_a_run_that_was_killed_are_removed_by_the_next() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    machines = {f"syncpod-conf-{gone.pid}", f"syncpod-second-{gone.pid}"}
    try:
        with network_namespace():
            for name in machines:
                subprocess.run(["ip", "netns", "add", name], check=True)
        assert machines <= _namespaces()
        with network_namespace():
            assert not machines & _namespaces()
    except Missing as missing:
        do_without("kubernetes", str(missing))


def test_networks_of_pods_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="both nodes"):
        join_pod_networks(ip_network("10.64.1.0/24"), ip_network("10.64.0.0/16"))


def test_the_page_says_what_was_recorded() -> None:
    assert page.DOCUMENT.read_text() == page.rendered()


def test_a_recorded_result_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "results.tsv"
    suite.record(path, [suite.Result("a", "failed", 1.0), suite.Result("b [Conformance]", "passed", 2.0)])
    suite.record(path, [suite.Result("a", "passed", 3.0)])
    assert suite.recorded(path) == [suite.Result("a", "passed", 3.0), suite.Result("b [Conformance]", "passed", 2.0)]


def _namespaces() -> set[str]:
    directory = Path("/run/netns")
    return {each.name for each in directory.iterdir()} if directory.is_dir() else set()
