"""`python -m qa.conformance`: Kubernetes' own tests of a node, with a node of ours or with a kubelet."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from qa.conformance import page, suite
from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import network_namespace
from qa.conformance.nodes import NODES, runtime
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.require import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all tests pass that pass with the kubelet, 1 if one does not, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.conformance", description=__doc__)
    parser.add_argument("--node", choices=sorted(NODES), default="syncpod", help="(default: %(default)s)")
    parser.add_argument("--runtime", choices=VERSIONS, default="2.4", help="containerd (default: %(default)s)")
    parser.add_argument("--labels", default=suite.BOTH, help="Ginkgo's label filter (default: %(default)s)")
    parser.add_argument("--focus", action="append", default=[], help="a regular expression; may be given again")
    parser.add_argument("--processes", type=int, default=6, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, help="where logs and the report stay (default: a new directory)")
    parser.add_argument(
        "--record", action="store_true", help="keep the results in qa/conformance/syncpod.tsv, and make the page"
    )
    parser.add_argument("--hold", action="store_true", help="run no test: keep cluster and node until interrupted")
    chosen = parser.parse_args(arguments)
    if chosen.out is not None and chosen.out.exists() and any(chosen.out.iterdir()):
        parser.error(f"--out: {chosen.out} has the files of an earlier run")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended then too
    out = (chosen.out or Path(tempfile.mkdtemp(prefix="syncpod-conformance-"))).resolve()
    try:
        with (
            network_namespace(),
            ControlPlane(out / "cluster") as cluster,
            runtime(chosen.runtime) as containerd,
            NODES[chosen.node](cluster, containerd, out / "node"),
        ):
            if chosen.hold:
                sys.stdout.write(f"export KUBECONFIG={cluster.admin}\n")
                sys.stdout.flush()
                signal.pause()
            results = suite.run(cluster, out, labels=chosen.labels, focus=chosen.focus, processes=chosen.processes)
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    if chosen.record:
        suite.record(suite.OURS, results)
        page.write()
    return tell(results, out)


def tell(results: Sequence[suite.Result], out: Path) -> int:
    """Print the tests that did not pass, and the counts; return 1 if the kubelet passes one of them."""
    kubelets = {each.name for each in suite.kubelets() if each.passed}
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
