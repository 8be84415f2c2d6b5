"""`python -m qa.cluster_outages.starts`: times from a pod's creation to Running at the API server, beside a kubelet's.

A kubelet and a node of ours take turns in the same cluster, each with its own containerd of the same version. Only the
ratio of their times counts, since the times depend on the machine. Its load is recorded with them.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from qa.cluster_outages import record
from qa.cluster_outages.room import Ask, proxied
from qa.conformance.control_plane import NODE, ControlPlane
from qa.conformance.namespace import network_namespace
from qa.conformance.nodes import NODES, runtime
from tests.runtimes.require import Missing

CROWDS: Final = (1, 30, 100)
BOTH: Final = ("kubelet", "syncpod")
FILE: Final = Path(__file__).with_name("starts.tsv")
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_PATIENCE: Final = 600.0
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_PODS: Final = "/api/v1/namespaces/default/pods?labelSelector=app%3Dcrowd"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print and keep the medians, and their ratios; return 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.cluster_outages.starts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the results, and make docs/cluster.md")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = Path(tempfile.mkdtemp(prefix="syncpod-starts-"))
    sys.stdout.write(f"logs in {out}\n")
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    try:
        with network_namespace(), ControlPlane(out / "cluster") as cluster:
            for turn in range(chosen.rounds):
                for name in BOTH:
                    # A new runtime each time: neither node accepts one that has had the other's pods.
                    with (
                        runtime("2.4") as containerd,
                        NODES[name](cluster, containerd, out / f"{name}-{turn}"),
                        proxied(cluster) as ask,
                    ):
                        _started(ask, 1)  # a node's first start includes work that it does once
                        for crowd in CROWDS:
                            found[name, crowd].append(_started(ask, crowd))
                            sys.stdout.write(f"{name} {crowd}: {found[name, crowd][-1]:.2f} s\n")
                            sys.stdout.flush()
                    cluster.kubectl("delete", "node", NODE, "--ignore-not-found")
    except (Missing, subprocess.CalledProcessError, RuntimeError) as error:
        sys.stderr.write(f"starts: {error}\n")
        return 2
    rows = [
        (str(crowd), *(f"{statistics.median(found[name, crowd]):.2f}" for name in BOTH), f"{os.getloadavg()[0]:.0f}")
        for crowd in CROWDS
    ]
    for count, kubelet, ours, _ in rows:
        sys.stdout.write(f"{count} pods: kubelet {kubelet} s, syncpod {ours} s, {float(ours) / float(kubelet):.2f}\n")
    if chosen.record:
        from qa.cluster_outages import page

        FILE.write_text("".join("\t".join(row) + "\n" for row in rows))
        page.write()
    return 0


def read(path: Path = FILE) -> list[record.Start]:
    """Return the recorded medians."""
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return [record.Start(int(crowd), float(kubelet), float(ours), load) for crowd, kubelet, ours, load in rows]


def _started(ask: Ask, crowd: int) -> float:
    """Create a Deployment; return the seconds until all its pods are Running. Then delete it, and wait for its end."""
    begun = since = time.monotonic()
    while (code := ask("POST", _DEPLOYMENTS, _deployment(crowd))[0]) == 409:  # the one before is not quite gone
        _wait(since, "the end of the Deployment before")
        begun = time.monotonic()
    if code != 201:
        raise RuntimeError(f"the Deployment was not created: {code}")
    while sum(_runs(each) for each in _listed(ask)) < crowd:
        _wait(begun, f"{crowd} pods")
    seconds = time.monotonic() - begun
    ask("DELETE", f"{_DEPLOYMENTS}/crowd", {"propagationPolicy": "Foreground"})
    begun = time.monotonic()
    while _listed(ask):
        _wait(begun, "the end of all pods")
    return seconds


def _wait(begun: float, what: str) -> None:
    if time.monotonic() - begun > _PATIENCE:
        raise RuntimeError(f"not in {_PATIENCE:.0f} s: {what}")
    time.sleep(0.02)


def _listed(ask: Ask) -> Sequence[Any]:
    code, answer = ask("GET", _PODS, None)
    if code != 200:
        raise RuntimeError(f"pods cannot be listed: {code}")
    found: Sequence[Any] = answer["items"]
    return found


def _runs(pod: Any) -> bool:
    statuses = pod["status"].get("containerStatuses", ())
    return bool(statuses) and all("running" in each["state"] for each in statuses)


def _deployment(crowd: int) -> dict[str, Any]:
    labels = {"app": "crowd"}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": _IMAGE, "imagePullPolicy": "IfNotPresent"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "crowd", "namespace": "default"},
        "spec": {
            "replicas": crowd,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


if __name__ == "__main__":
    sys.exit(main())
