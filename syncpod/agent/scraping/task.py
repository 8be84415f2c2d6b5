"""Adds the metrics endpoint to a node's agent."""

from __future__ import annotations

from syncpod.agent.agent import Agent
from syncpod.agent.metrics import terminated
from syncpod.agent.scraping.endpoint import MetricsEndpoint
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.terminations import Terminations


def add_metrics_endpoint(agent: Agent, address: str) -> None:
    """Serve the node's metrics at `address`, ``host:port``, as long as the agent runs."""
    host, _, port = address.rpartition(":")
    probes = ProbeCounts()
    agent.prober.tell_probes(probes.count)
    endpoint = MetricsEndpoint(
        host.removeprefix("[").removesuffix("]"),
        int(port),
        agent.published_pods,
        obstacles=agent.obstacles,
        terminations=Terminations(terminated),
        probes=probes,
    )
    agent.add_background_task("metrics endpoint", endpoint.run)
