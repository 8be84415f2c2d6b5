"""`python -m qa.conformance`: Kubernetes' own tests of a node, with a node of ours or with a kubelet."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from qa.conformance import node_suite, page, suite
from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import network_namespace
from qa.conformance.nodes import NODES, runtime, two_nodes
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.require import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all tests pass that pass with the kubelet, 1 if one does not, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.conformance", description=__doc__)
    parser.add_argument(
        "--suite",
        choices=("cluster", *node_suite.MODES),
        default="cluster",
        help="e2e.test against a cluster, or a way to run e2e_node.test, which starts its own API server and the "
        "node, kubelet or syncpod-kubelet (default: %(default)s)",
    )
    parser.add_argument("--node", choices=sorted(NODES), default="syncpod", help="(default: %(default)s)")
    parser.add_argument(
        "--nodes",
        type=int,
        choices=(1, 2),
        default=1,
        help=f"of a cluster; with two it has CoreDNS, and the labels are {suite.CONFORMANCE} (default: %(default)s)",
    )
    parser.add_argument("--runtime", choices=VERSIONS, default="2.4", help="containerd (default: %(default)s)")
    parser.add_argument("--labels", help=f"Ginkgo's label filter (default: the suite's; of a cluster {suite.BOTH})")
    parser.add_argument("--focus", action="append", default=[], help="a regular expression; may be given again")
    parser.add_argument("--processes", type=int, help="(default: the suite's; of a cluster 6)")
    parser.add_argument("--out", type=Path, help="where logs and the report stay (default: a new directory)")
    parser.add_argument("--record", action="store_true", help="keep the results in qa/conformance, and make the page")
    parser.add_argument(
        "--report", type=Path, action="append", default=[], help="run nothing: take the results of these report.json"
    )
    parser.add_argument("--hold", action="store_true", help="run no test: keep cluster and node until interrupted")
    chosen = parser.parse_args(arguments)
    if chosen.out is not None and chosen.out.exists() and any(chosen.out.iterdir()):
        parser.error(f"--out: {chosen.out} has the files of an earlier run")
    if chosen.nodes != 1 and chosen.suite != "cluster":
        parser.error(f"--nodes: the suite {chosen.suite} judges one node")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all started processes are then ended too
    out = (chosen.out or Path(tempfile.mkdtemp(prefix="syncpod-conformance-"))).resolve()
    try:
        results = _results(chosen, out)
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    files = _files(chosen)
    if chosen.record:
        suite.record(files.kubelet if chosen.node == "kubelet" else files.ours, results)
        page.write()
    return tell(results, out, files)


def _results(chosen: argparse.Namespace, out: Path) -> list[suite.Result]:
    """Return the results of a run, or of the given reports; a later report overrides an earlier one."""
    if chosen.report:
        read = [each for path in chosen.report for each in suite.results(json.loads(path.read_text()))]
        return list({each.name: each for each in read}.values())
    return _in_cluster(chosen, out) if chosen.suite == "cluster" else _alone(chosen, out)


def _files(chosen: argparse.Namespace) -> suite.Files:
    if chosen.suite != "cluster":
        return suite.NODE
    return suite.TWO_NODES if chosen.nodes == 2 else suite.CLUSTER


def _in_cluster(chosen: argparse.Namespace, out: Path) -> list[suite.Result]:
    """Run e2e.test against a cluster with one or two of the chosen nodes. With --hold, only keep them running."""
    with network_namespace(), ControlPlane(out / "cluster") as cluster, ExitStack() as nodes:
        if chosen.nodes == 1:
            containerd = nodes.enter_context(runtime(chosen.runtime))
            nodes.enter_context(NODES[chosen.node](cluster, containerd, out / "node"))
        else:
            nodes.enter_context(two_nodes(NODES[chosen.node], cluster, chosen.runtime, out))
        if chosen.hold:
            sys.stdout.write(f"export KUBECONFIG={cluster.admin}\n")
            sys.stdout.flush()
            signal.pause()
        labels = chosen.labels or (suite.CONFORMANCE if chosen.nodes == 2 else suite.BOTH)
        processes = chosen.processes or 6
        return suite.run(cluster, out, labels=labels, focus=chosen.focus, processes=processes)


def _alone(chosen: argparse.Namespace, out: Path) -> list[suite.Result]:
    """Run e2e_node.test with the chosen node's program."""
    with network_namespace():
        node_suite.private_mounts()
        with runtime(chosen.runtime) as containerd:
            return node_suite.run(
                node_suite.MODES[chosen.suite],
                "kubelet" if chosen.node == "kubelet" else "syncpod",
                containerd,
                out,
                labels=chosen.labels or "",
                focus=chosen.focus,
                processes=chosen.processes or 0,
            )


def tell(results: Sequence[suite.Result], out: Path, files: suite.Files = suite.CLUSTER) -> int:
    """Print the tests that did not pass, and the counts; return 1 if the kubelet passes one of them."""
    kubelets = {each.name for each in suite.recorded(files.kubelet) if each.passed}
    worse = 0
    for each in results:
        if not each.passed:
            worse += each.name in kubelets
            also = "" if each.name in kubelets else " (the kubelet does not pass it either)"
            sys.stdout.write(f"{each.state} {each.name}{also}\n    {each.message}\n")
    passed = sum(each.passed for each in results)
    sys.stdout.write(f"{passed} of {len(results)} passed; {worse} that the kubelet passes did not; log in {out}\n")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
