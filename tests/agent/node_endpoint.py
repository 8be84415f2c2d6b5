"""Makes a node's endpoint for readers, without a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from syncpod.agent.joined_cluster import JoinedCluster
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.endpoint import NodeEndpoint
from syncpod.agent.scraping.node_usage import Disks
from syncpod.agent.scraping.pod_usage import UsageOfPods
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.agent.scraping.seen_pods import SeenPods
from syncpod.agent.scraping.startups import Startups
from syncpod.agent.scraping.terminations import Terminations
from syncpod.cri.errors import Unavailable
from syncpod.cri.port import CriRuntime, ImageFsInfo, SandboxStats
from syncpod.kernel.peers import find_peer
from syncpod.lifecycle.observed import ObservedPod
from syncpod.translation.context import NodeContext


class Measuring:
    """A runtime that returns the resource usage of pods; with `stats` None it does not answer."""

    def __init__(self) -> None:
        self.stats: tuple[SandboxStats, ...] | None = ()
        self.images = ImageFsInfo(())
        self.calls = 0
        self.answers = asyncio.Event()
        """While it is cleared, calls hang."""
        self.answers.set()

    async def list_sandbox_stats(self, *, labels: Any, timeout_seconds: float) -> tuple[SandboxStats, ...]:
        self.calls += 1
        await self.answers.wait()
        if self.stats is None:
            raise Unavailable("list_podsandbox_stats", "UNAVAILABLE", "")
        return self.stats

    async def image_fs_info(self) -> ImageFsInfo:
        return self.images


def node_of(directory: Path) -> NodeContext:
    return NodeContext(name="n1", state_dir=directory, memory_dir=directory, log_dir=directory, cluster="c/n")


def node_readings(
    directory: Path,
    published: PublishedPods,
    *,
    terminations: Terminations,
    probes: ProbeCounts | None = None,
    runtime: Measuring | None = None,
    listings: Callable[[], Sequence[ObservedPod]] = tuple,
    obstacles: Callable[[], Sequence[str]] = tuple,
    cluster: JoinedCluster | None = None,
) -> NodeReadings:
    """The readings of a node whose state is in a directory."""
    node, probes, cri = node_of(directory), probes or ProbeCounts(), cast("CriRuntime", runtime or Measuring())
    startups = Startups(running=lambda _: None, total=lambda _: None, sli=lambda _: None)
    return NodeReadings(
        node=node,
        pods=SeenPods(published, cluster or JoinedCluster(), terminations, startups, probes),
        probes=probes,
        usage=UsageOfPods(cri, node.name),
        disks=Disks(cri, directory),
        listings=listings,
        obstacles=obstacles,
    )


def node_endpoint(
    host: str,
    port: int,
    directory: Path,
    published: PublishedPods,
    *,
    peer_of: Any = find_peer,
    **readings: Any,
) -> NodeEndpoint:
    """The readers' endpoint of a node whose state is in a directory."""
    return NodeEndpoint(host, port, node_readings(directory, published, **readings), peer_of=peer_of)
