"""The kubelet's paths for a node's readings, for the endpoint for metrics and for the kubelet's port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from syncpod.agent.scraping.readings import CONTENT_TYPE, NodeReadings
from syncpod.api.messages import JSON, Answer, Request, in_one_part
from syncpod.api.routes import Route
from syncpod.http_server import PLAIN


def reading_routes(readings: NodeReadings) -> Sequence[Route[Answer]]:
    """Return the routes whose answers are made from these readings, and those of ``/healthz``."""

    async def summary(asked: Request) -> Answer:
        is_short = asked.one("only_cpu_and_memory").lower() in ("true", "1")
        return in_one_part(await readings.summary(only_cpu_and_memory=is_short), JSON)

    return (
        Route("GET", "/pods", _made(readings.pods, JSON), "PodList"),
        Route("GET", "/runningpods", _made(readings.running_pods, JSON), "PodList"),
        Route("GET", "/stats/summary", summary, "Summary"),
        Route("GET", "/metrics", _made(readings.metrics, CONTENT_TYPE), "series"),
        Route("GET", "/metrics/cadvisor", _made(readings.container_metrics, CONTENT_TYPE), "series"),
        Route("GET", "/metrics/resource", _made(readings.resource_metrics, CONTENT_TYPE), "series"),
        Route("GET", "/metrics/probes", _made(readings.probe_metrics, CONTENT_TYPE), "series"),
        Route("GET", "/healthz", _healthy, "ok"),
        Route("GET", "/healthz/ping", _healthy, "ok"),
    )


def _made(make: Callable[[], Awaitable[bytes]], kind: str) -> Callable[[Request], Awaitable[Answer]]:
    """Return a handler whose answers are made by `make`."""

    async def handle(_: Request) -> Answer:
        return in_one_part(await make(), kind)

    return handle


async def _healthy(_: Request) -> Answer:
    return in_one_part(b"ok", PLAIN)
