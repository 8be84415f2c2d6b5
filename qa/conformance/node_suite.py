"""One run of `e2e_node.test`, Kubernetes' tests of a single node, which start the API server and the node themselves.

The tests use fixed paths: `/var/lib/kubelet` for the node's directory, and `/var/log` for logs. Directories of the run
are mounted there, in a mount namespace of the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qa.conformance import suite, units
from qa.conformance.namespace import ADDRESS, WITHIN
from qa.conformance.nodes import SYNCPOD, own_environment
from qa.conformance.programs import program
from qa.differential.kubelet import CONTAINER_LOGS, make_cgroup
from syncpod.yaml_text import yaml_text
from tests.agent.machine_bus import DAEMON
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import CGROUPS, remove_cgroup, unmount_below

ROOT: Final = Path("/var/lib/kubelet")
_PLACES: Final = {"root": ROOT, "pod-logs": Path("/var/log/pods"), "container-logs": CONTAINER_LOGS}
"""The tests' fixed paths, by the names of the run's directories that are mounted there."""
_NODE: Final = "n1"
_HOSTS: Final = Path("/etc/hosts")
_KUBELETS_CGROUP: Final = "kubelet.slice"
"""The cgroup into which the tests move the kubelet."""
_MINUTES: Final = 100
_CLONE_NEWNS: Final = 0x20000
"""os.CLONE_NEWNS of Python 3.12."""


@dataclass(frozen=True)
class Mode:
    """A selection of the tests, and how they are started."""

    labels: str
    """Ginkgo's label filter."""
    files: Sequence[str] = ()
    """The tests' source files; none = all."""
    flags: Sequence[str] = ()
    processes: int = 1


FILES: Final = (
    "container_lifecycle_test",
    "container_restart_test",
    "pod_conditions_test",
    "mirror_pod_test",
    "mirror_pod_grace_period_test",
    "node_shutdown_linux_test",
    "pods_api_test",
    "restart_test",
    "security_context_test",
    "summary_test",
)
"""The source files whose tests are about features that a node of ours has."""
_USUAL: Final = "!Feature:StandaloneMode && !Feature:CriProxy && !Flaky && !Feature:OffByDefault"
MODES: Final = {
    "standalone": Mode("Feature:StandaloneMode", flags=("--standalone-mode",)),
    "node": Mode(f"{_USUAL} && !Serial", FILES, processes=4),
    "node-serial": Mode(f"{_USUAL} && Serial", FILES),
    "criproxy": Mode("Feature:CriProxy && !Feature:OffByDefault && !Flaky", flags=("--cri-proxy-enabled",)),
}
"""The modes, by the names that `--suite` accepts."""


def run(
    mode: Mode,
    node: str,
    containerd: Containerd,
    out: Path,
    *,
    labels: str = "",
    focus: Sequence[str] = (),
    processes: int = 0,
) -> list[suite.Result]:
    """Run the tests of a mode with `kubelet` or `syncpod` as the node; logs and the report stay in `out`.

    `labels`, `focus` and `processes` override the mode's. Raises `Missing`, RuntimeError without a report.
    """
    out.mkdir(parents=True, exist_ok=True)
    programs = units.install(out / "machine")
    _write_node(out / "programs", node)
    configuration = out / "kubelet-base.yaml"
    configuration.write_text(yaml_text(_configuration(containerd)))
    command = [*WITHIN, str(program("ginkgo")), f"--procs={processes or mode.processes}", "--no-color"]
    command += [f"--timeout={_MINUTES}m", f"--label-filter={labels or mode.labels}", f"--output-dir={out}"]
    command += [*(f"--focus-file={each}" for each in mode.files), *(f"--focus={each}" for each in focus)]
    command += ["--json-report=report.json", "--silence-skips", str(_tests(out)), "--", *mode.flags]
    command += [f"--k8s-bin-dir={out / 'programs'}", f"--report-dir={out}", f"--node-name={_NODE}"]
    command += [f"--container-runtime-endpoint={containerd.endpoint}", "--prepull-images=false"]
    command += [f"--kubelet-config-file={configuration}", "--dns-domain=cluster.local"]
    environment = own_environment(out)
    environment["PATH"] = f"{programs}{os.pathsep}{environment.get('PATH', os.defpath)}"
    with _places(out, containerd), _system_bus(out) as bus, (out / "log").open("wb") as log:
        environment |= bus
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, cwd=out, env=environment)
    report = out / "report.json"
    if not report.exists():
        end = "\n".join((out / "log").read_text(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"the tests ended without a report; the end of {out / 'log'}:\n{end}")
    document: Sequence[dict[str, Any]] = json.loads(report.read_text())
    _require_start(document, out)
    return suite.results(document)


def _tests(out: Path) -> Path:
    """The tests' program, linked into a directory of the run: Ginkgo starts it there, and it writes files there."""
    directory = out / "tests"
    directory.mkdir()
    (directory / "e2e_node.test").symlink_to(program("e2e_node.test"))
    return directory / "e2e_node.test"


def _require_start(report: Sequence[dict[str, Any]], out: Path) -> None:
    """Raise RuntimeError if the tests could not start the node, so that they have no results."""
    for spec in (spec for each in report for spec in each["SpecReports"] or ()):
        if spec["LeafNodeType"] == "SynchronizedBeforeSuite" and spec["State"] == "failed":
            why = (spec.get("Failure") or {}).get("Message", "")
            raise RuntimeError(f"the node was not started ({out / 'kubelet.log'}): {why}")


def _write_node(directory: Path, node: str) -> None:
    """Write the program that the tests start as `kubelet` into a new directory."""
    directory.mkdir()
    own = [sys.executable, "-m", "syncpod.cli.kubelet.program"]
    command = shlex.join([str(program("kubelet"))] if node == "kubelet" else own)
    path = directory / "kubelet"
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def private_mounts() -> None:
    """Give this process and its children their own mounts, since other runs use the same fixed paths."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@contextlib.contextmanager
def _places(out: Path, containerd: Containerd) -> Iterator[None]:
    """Mount the run's directories at the fixed paths during the block; at its end, end all processes of the node."""
    for name, place in _PLACES.items():
        (out / name).mkdir(mode=0o755)
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", out / name, place], check=True)
    # Otherwise a kubelet waits for look-ups of its name, which nothing answers here, before it registers.
    hosts = out / "hosts"
    hosts.write_text(f"{_HOSTS.read_text()}\n{ADDRESS} {_NODE}\n")
    subprocess.run(["mount", "--bind", hosts, _HOSTS], check=True)
    make_cgroup(containerd.cgroup_parent)
    try:
        yield
    finally:
        units.end(out / "machine")
        _end_server(out)
        remove_cgroup(containerd.cgroup_parent)
        for hierarchy in CGROUPS.iterdir():
            with contextlib.suppress(OSError):  # another run's kubelet may be in it
                (hierarchy / _KUBELETS_CGROUP).rmdir()
        unmount_below(ROOT)


@contextlib.contextmanager
def _system_bus(out: Path) -> Iterator[dict[str, str]]:
    """Run a system bus with a stand-in for logind; yield the environment variable with its address.

    Without a D-Bus daemon on this machine, yield {}: the tests of a machine's shutdown are then skipped.
    """
    if DAEMON is None:
        yield {}
        return
    address = f"unix:path={out / 'bus'}"
    with contextlib.ExitStack() as ended, (out / "bus.log").open("wb") as log:
        for command in (
            [DAEMON, "--session", "--nofork", "--print-address", f"--address={address}"],
            [sys.executable, "-m", "tests.agent.machine_bus", address],
        ):
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
            ended.callback(process.wait)
            ended.callback(process.terminate)
            if process.stdout is None or not process.stdout.readline():  # the line says that it serves
                raise RuntimeError(f"{command[0]} does not serve the system bus: see {out / 'bus.log'}")
        yield {"DBUS_SYSTEM_BUS_ADDRESS": address}


def _end_server(out: Path) -> None:
    """End the Temporal server that a node of ours has left running, as `syncpod down` would."""
    state = ROOT / "syncpod"
    if not state.is_dir():
        return
    command = [*WITHIN, str(SYNCPOD), "down", "--state-dir", str(state)]
    with (out / "down.log").open("wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_environment(out),
            timeout=120,
            check=False,
        )


def _configuration(containerd: Containerd) -> dict[str, Any]:
    """The kubelet configuration that the tests start from: upstream's, with this run's cgroups and no evictions."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": containerd.cgroup_parent,
        "failSwapOn": False,
        "failCgroupV1": False,
        "volumeStatsAggPeriod": "10s",
        "fileCheckFrequency": "10s",
        "serializeImagePulls": False,
        "evictionPressureTransitionPeriod": "30s",
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    }
