"""Two nodes of one kind in one cluster, each on a machine of its own as far as the network goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from qa.conformance import cluster_dns
from qa.conformance.control_plane import ControlPlane
from qa.conformance.images import cluster_images
from qa.conformance.namespace import FIRST, SECOND, join_pod_networks, second_namespace
from qa.conformance.nodes import Node, runtime
from tests.runtimes.images import write_archive


@contextmanager
def two_nodes(node: Node, cluster: ControlPlane, containerd: str, out: Path) -> Iterator[None]:
    """Have two nodes Ready, each with a containerd of that version and a kube-proxy, and CoreDNS on them.

    A pod reaches every other, and a Service from either machine. Raises `Missing`, RuntimeError, CalledProcessError.
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
