"""The nodes of the cluster: a kubelet, a node of ours, or two of either. Nothing else differs between two runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from qa.conformance import cluster_dns
from qa.conformance.control_plane import CLUSTER_DNS, DOMAIN, ControlPlane
from qa.conformance.images import cluster_images, test_images
from qa.conformance.namespace import FIRST, SECOND, WITHIN, Host, join_pod_networks, second_namespace
from qa.conformance.programs import program
from qa.conformance.registry import registry
from qa.differential.kubelet import CONTAINER_LOGS, make_cgroup
from syncpod.yaml_text import yaml_text
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import write_archive
from tests.runtimes.leftovers import remove_cgroup, unmount_below

SYNCPOD: Final = Path(sys.executable).with_name("syncpod")
"""The `syncpod` command of this environment."""
_TEMPORAL_PORTS: Final = ("--port", "17233", "--ui-port", "18233")
_MOST_PODS: Final = 110
_EVICTION_HARD: Final = {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"}
_IMAGE_GC_HIGH: Final = 100
"""This and the thresholds above turn off evictions and image GC on all nodes: other programs fill the disk too."""


@contextmanager
def runtime(version: str, within: Sequence[str] = WITHIN, archive: Path | None = None) -> Iterator[Containerd]:
    """Run a containerd in the namespace, with the images of an archive; None = the images of a node's tests.

    It can also pull these images. Raises `Missing`.
    """
    with Containerd.launch(version, gates=False, within=within) as containerd:
        own = containerd.directory / "images.tar"
        if archive is None:
            write_archive(own, test_images(), compressed=False)
        containerd.ctr("images", "import", archive or own)
        with registry(containerd, archive or own, within):
            own.unlink(missing_ok=True)
            yield containerd


def kubelet(
    cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host = FIRST
) -> AbstractContextManager[None]:
    """Run a kubelet that has joined the cluster. Raises `Missing`, RuntimeError."""
    return _started(cluster, containerd, directory, host, [str(program("kubelet"))])


def syncpod_kubelet(
    cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host = FIRST
) -> AbstractContextManager[None]:
    """Run a node of ours as `syncpod-kubelet`, with a kubelet's flags and configuration. Raises RuntimeError."""
    return _started(cluster, containerd, directory, host, [sys.executable, "-m", "syncpod.cli.kubelet.program"])


@contextmanager
def _started(
    cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host, program: Sequence[str]
) -> Iterator[None]:
    directory.mkdir(parents=True)
    config = directory / "config.yaml"
    config.write_text(yaml_text(_kubelet_configuration(cluster, containerd, directory, host)))
    command = [*host.within, *program, f"--config={config}", f"--kubeconfig={_kubeconfig(cluster, host)}"]
    command += [f"--root-dir={directory / 'root'}", f"--cert-dir={directory / 'pki'}"]
    command += [f"--hostname-override={host.node}", f"--node-ip={host.address}", "-v=2"]
    make_cgroup(containerd.cgroup_parent)
    with (directory / "kubelet.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_environment(directory),
            start_new_session=True,
        )
    try:
        cluster.wait_for_node(host.node)
        yield
    finally:
        process.kill()
        process.wait()
        remove_cgroup(containerd.cgroup_parent)
        unmount_below(directory)
        for link in CONTAINER_LOGS.iterdir() if CONTAINER_LOGS.is_dir() else ():
            if link.is_symlink() and link.readlink().is_relative_to(directory):
                link.unlink()


@contextmanager
def syncpod(cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host = FIRST) -> Iterator[None]:
    """Run a node of ours that `syncpod up` starts and `down` ends. Raises RuntimeError."""
    directory.mkdir(parents=True)
    own = ["--state-dir", str(directory / "state")]
    start = ["up", *own, "--node", host.node, "--kubeconfig", str(_kubeconfig(cluster, host))]
    start += ["--runtime-endpoint", containerd.endpoint, *_TEMPORAL_PORTS]
    environment = own_environment(directory) | {
        "SYNCPOD_CGROUP_PARENT": containerd.cgroup_parent,
        "SYNCPOD_LOG_DIR": str(directory / "logs"),
        "SYNCPOD_EVICTION_HARD": ",".join(f"{signal}<{limit}" for signal, limit in _EVICTION_HARD.items()),
        "SYNCPOD_IMAGE_GC_HIGH": f"{_IMAGE_GC_HIGH}",
        "SYNCPOD_CLUSTER_DNS": CLUSTER_DNS,
        "SYNCPOD_CLUSTER_DOMAIN": DOMAIN,
    }
    with (directory / "commands.log").open("ab") as log:

        def run(*arguments: str, timeout: float) -> int:
            command = [*host.within, str(SYNCPOD), *arguments]
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, timeout=timeout, check=False
            ).returncode

        try:
            if run(*start, timeout=180):
                raise RuntimeError(f"syncpod up failed: {(directory / 'commands.log').read_text()}")
            cluster.wait_for_node(host.node)
            yield
        finally:
            with suppress(subprocess.TimeoutExpired):
                run("down", *own, timeout=120)
            unmount_below(directory)


def own_environment(directory: Path) -> dict[str, str]:
    """This process's environment, without settings of Temporal, syncpod and OpenTelemetry, with a memory directory."""
    ours = ("TEMPORAL_", "SYNCPOD_", "OTEL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"SYNCPOD_MEMORY_DIR": str(directory / "memory")}


class Node(Protocol):
    """Returns a context manager of a node: the node has joined the cluster on entry, and is removed on exit."""

    def __call__(
        self, cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host = FIRST
    ) -> AbstractContextManager[None]:
        """Run the node. The context manager raises `Missing`, and RuntimeError if the node does not become Ready."""


NODES: Final[Mapping[str, Node]] = {
    "syncpod": syncpod,
    "syncpod-kubelet": syncpod_kubelet,
    "kubelet": kubelet,
}
"""The kinds of nodes, by the names that `--node` accepts."""


def _kubeconfig(cluster: ControlPlane, host: Host) -> Path:
    return cluster.node if host == FIRST else cluster.node_kubeconfig(host.node)


def _kubelet_configuration(
    cluster: ControlPlane, containerd: Containerd, directory: Path, host: Host
) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "podLogsDir": str(directory / "logs"),
        "containerRuntimeEndpoint": containerd.endpoint,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": containerd.cgroup_parent,
        "address": host.address,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(cluster.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": DOMAIN,
        "failSwapOn": False,
        "failCgroupV1": False,
        "oomScoreAdj": 0,
        "maxPods": _MOST_PODS,
        "evictionHard": _EVICTION_HARD,
        "imageGCHighThresholdPercent": _IMAGE_GC_HIGH,
    }


@contextmanager
def two_nodes(node: Node, cluster: ControlPlane, containerd: str, out: Path) -> Iterator[None]:
    """Run two nodes, each with its own containerd of that version and a kube-proxy, and CoreDNS on them.

    All pods can reach each other, and Services work on both. Raises `Missing`, RuntimeError, CalledProcessError.
    """
    archive = out / "images.tar"
    with second_namespace(), ExitStack() as parts:
        write_archive(archive, cluster_images(), compressed=False)
        runtimes = [parts.enter_context(runtime(containerd, host.within, archive)) for host in (FIRST, SECOND)]
        archive.unlink()
        join_pod_networks(*(each.subnet for each in runtimes))
        for host, own in zip((FIRST, SECOND), runtimes, strict=True):
            parts.enter_context(node(cluster, own, out / host.node, host))
        cluster.start_proxy(SECOND)
        cluster_dns.start(cluster)
        yield
