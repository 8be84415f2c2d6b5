"""Sets up the answers for monitoring, and the endpoint for metrics, as background tasks of a node's agent."""

from __future__ import annotations

from syncpod.agent import metrics
from syncpod.agent.agent import Agent
from syncpod.agent.scraping.endpoint import NodeEndpoint
from syncpod.agent.scraping.node_usage import Disks
from syncpod.agent.scraping.pod_usage import UsageOfPods
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.agent.scraping.seen_pods import SeenPods
from syncpod.agent.scraping.startups import Startups
from syncpod.agent.scraping.terminations import Terminations
from syncpod.cri.port import CriRuntime
from syncpod.translation.context import NodeContext


def add_node_readings(agent: Agent, node: NodeContext, cri: CriRuntime) -> NodeReadings:
    """Return the node's readings, and count its pods as long as the agent runs. Call it once."""
    probes = ProbeCounts()
    agent.prober.count_probes(probes.count)
    startups = Startups(
        running=metrics.pod_start_duration.record,
        total=metrics.pod_start_total_duration.record,
        sli=metrics.pod_start_sli_duration.record,
    )
    readings = NodeReadings(
        node=node,
        pods=SeenPods(agent.published_pods, agent.cluster, Terminations(metrics.terminated), startups, probes),
        probes=probes,
        usage=UsageOfPods(cri, node.name),
        disks=Disks(cri, node.state_dir),
        listings=agent.pleg.listings,
        obstacles=agent.obstacles,
    )
    agent.add_background_task("counts of pods", readings.count)
    return readings


def add_node_endpoint(agent: Agent, address: str, readings: NodeReadings) -> None:
    """Serve the node's metrics and pods at `address`, ``host:port``, for as long as the agent runs. Blocks.

    Raises OSError if the readers' token cannot be created.
    """
    host, _, port = address.rpartition(":")
    endpoint = NodeEndpoint(host.removeprefix("[").removesuffix("]"), int(port), readings)
    agent.add_background_task("metrics endpoint", endpoint.run)
