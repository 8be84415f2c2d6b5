"""Runs Kubernetes' end-to-end tests of a cluster, and reads and records the result of each test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import WITHIN
from qa.conformance.programs import VERSION, program

NODE_CONFORMANCE: Final = "NodeConformance && !Slow && !Serial && !Flaky"
"""The 236 tests of a node that can run at the same time."""
BOTH: Final = f"Conformance && {NODE_CONFORMANCE}"
"""The 141 of them that are Conformance tests too."""
CONFORMANCE: Final = "Conformance"
"""All tests of Conformance, for which a cluster needs two nodes."""
TESTS_OF_CONFORMANCE: Final = 446
_HOURS: Final = 3


@dataclass(frozen=True)
class Files:
    """The files with the recorded results of one program of tests, for either kind of node."""

    kubelet: Path
    ours: Path


_HERE: Final = Path(__file__).parent
CLUSTER: Final = Files(_HERE / f"kubelet-{VERSION}.tsv", _HERE / "syncpod.tsv")
"""The results of e2e.test with one node."""
TWO_NODES: Final = Files(_HERE / f"two-nodes-kubelet-{VERSION}.tsv", _HERE / "two-nodes-syncpod.tsv")
"""The results of e2e.test with two nodes."""
NODE: Final = Files(_HERE / f"node-kubelet-{VERSION}.tsv", _HERE / "node-syncpod.tsv")
"""The results of e2e_node.test."""


WHY_CLUSTER: Final[Mapping[str, str]] = {
    "[Serial] should be able to pull from private registry with secret": (
        "the image of agnhost that is made here has no images for its registry to serve"
    ),
}
"""Why tests do not pass, by a part of their names."""
WHY_TWO_NODES: Final[Mapping[str, str]] = {}
WHY_NODE: Final[Mapping[str, str]] = {
    "should be ready after init container is removed and kubelet restarts": (
        "the test takes for granted that the node has the pod right after its restart, and wants another start time "
        "than before, while a restart of a node of ours changes nothing"
    ),
    "Container Runtime Network should recover from ip leak": (
        "it wants one container runtime on the machine, which systemd starts again whenever the test has killed it"
    ),
    "the container runtime is temporarily down during pod termination": (
        "it stops the container runtime by way of systemd, which this machine does not have"
    ),
    "temporarily failed termination due to volume failing to unmount": (
        "it wants the image of an NFS server, which is not made here"
    ),
    "Summary API [NodeConformance] when querying /stats/summary should report": (
        "it wants the cgroups of a system that systemd has started"
    ),
}
NOT_RUN: Final[Mapping[str, str]] = {
    "podresources": (
        "nearly all need the static CPU manager, a device plugin, and eight processors; the API itself is served, as "
        "by a kubelet without them"
    ),
    "cpu_manager, memory_manager, topology_manager, device plugins, dra, swap, hugepages": "not offered",
    "Feature:OffByDefault": "features that a kubelet 1.36 has off",
}
"""Tests of e2e_node.test that are left out, with the reason."""


@dataclass(frozen=True)
class Result:
    """The result of one test: `passed`, `failed`, `timedout`, `panicked`, `interrupted` or `aborted`."""

    name: str
    state: str
    seconds: float
    message: str = ""
    """The first line of the failure; "" if it passed."""

    @property
    def passed(self) -> bool:
        return self.state == "passed"


def run(
    cluster: ControlPlane, out: Path, *, labels: str = BOTH, focus: Sequence[str] = (), processes: int = 6
) -> list[Result]:
    """Run the tests that match the label filter and one of the regular expressions. Log and report stay in `out`.

    Raises `Missing` if the tests are not built, RuntimeError if they ended without a report.
    """
    out.mkdir(parents=True, exist_ok=True)
    report = out / "report.json"
    report.unlink(missing_ok=True)
    command = [*WITHIN, str(program("ginkgo")), f"--procs={processes}", "--no-color", f"--timeout={_HOURS}h"]
    command += [f"--label-filter={labels}", *(f"--focus={each}" for each in focus), f"--output-dir={out}"]
    command += ["--json-report=report.json", "--silence-skips", str(program("e2e.test")), "--"]
    command += [f"--kubeconfig={cluster.admin}", "--provider=skeleton", "--disable-log-dump"]
    with (out / "log").open("wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, cwd=out)
    if not report.exists():
        end = "\n".join((out / "log").read_text(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"the tests ended without a report; the end of {out / 'log'}:\n{end}")
    return results(json.loads(report.read_text()))


def results(report: Sequence[dict[str, Any]]) -> list[Result]:
    """Return the results in Ginkgo's report, sorted by name, without skipped tests."""
    specs = (spec for suite in report for spec in suite["SpecReports"] or ())
    ran = [spec for spec in specs if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending")]
    return sorted((_result(spec) for spec in ran), key=lambda result: result.name)


def kubelets() -> list[Result]:
    """The recorded results of the kubelet on a machine like CI's: 250 tests."""
    return recorded(CLUSTER.kubelet)


def ours() -> list[Result]:
    """The recorded results of a node of ours on such a machine."""
    return recorded(CLUSTER.ours)


def recorded(path: Path) -> list[Result]:
    """Read results from a file; none if it is not there."""
    if not path.exists():
        return []
    rows = (line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return [Result(name, state, float(seconds)) for state, seconds, _, name in rows]


def record(path: Path, results: Sequence[Result]) -> None:
    """Write results to a file, each in place of an earlier one of the same test."""
    known = {each.name: each for each in (*recorded(path), *results)}
    lines = ["# state\tseconds\tconformance\tspec"]
    for name, each in sorted(known.items()):
        conformance = "yes" if "[Conformance]" in name else "no"
        lines.append(f"{each.state}\t{each.seconds:.1f}\t{conformance}\t{name}")
    path.write_text("\n".join(lines) + "\n")


def fastest(count: int) -> list[Result]:
    """The kubelet's quickest test of each group, at most `count` tests, the quickest first.

    A group is the tests whose names begin with the same four words. Slow and serial tests, and those that the kubelet
    does not pass, are left out.
    """
    first: dict[str, Result] = {}
    for each in sorted(kubelets(), key=lambda result: (result.seconds, result.name)):
        if each.passed and not any(label in each.name for label in ("[Slow]", "[Serial]")):
            first.setdefault(" ".join(each.name.split()[:4]), each)
    return list(first.values())[:count]


def _result(spec: dict[str, Any]) -> Result:
    name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
    message = (spec.get("Failure") or {}).get("Message", "").strip().partition("\n")[0]
    return Result(name, spec["State"], spec["RunTime"] / 1e9, message)
