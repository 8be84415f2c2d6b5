"""Serves the kubelet's port: maps its paths to handlers, after authentication and authorization.

Pods come from the same source as in the node's API, readings from the same object as at the address for metrics, logs
from the same reader as for `syncpod logs`, and streams from the runtime. Paths, texts and codes are the kubelet's
(pkg/kubelet/server/server.go, v1.36).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from syncpod.agent.http_answers import asked as asked_of
from syncpod.agent.http_answers import given_up, sent
from syncpod.agent.kubelet_port.access import Guard
from syncpod.agent.kubelet_port.listener import Listener
from syncpod.agent.kubelet_port.plugin_answers import PodCommands
from syncpod.agent.kubelet_port.relay import is_upgrade, relay
from syncpod.agent.scraping.reading_routes import reading_routes
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.api.container_logs import ContainerLogs
from syncpod.api.container_streams import ContainerStreams
from syncpod.api.lists import as_json
from syncpod.api.messages import JSON, Answer, Request, in_one_part
from syncpod.api.routes import Route, matching
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.cri.port import CriRuntime
from syncpod.http_server import PLAIN
from syncpod.kubernetes.plugin_commands import PREFIX
from syncpod.kubernetes.reviews import access_of
from syncpod.node.pod_threads import PodThreads

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 30.0
"""Seconds until an answer has to begin."""
_READ_SECONDS: Final = 30.0
"""Seconds that a client may take to read a part of an answer."""
_FOLLOWER_SECONDS: Final = 4 * 3600.0
"""Seconds that the follower of a log may take to read a part, since its terminal may be stopped: the kubelet's write
timeout."""
_LOGS_DISABLED: Final = "logs endpoint is disabled."
_NO_CHECKPOINTS: Final = "containers are not checkpointed on this node"


@dataclass(frozen=True)
class PortPlace:
    """Addresses, port and TLS of the kubelet's port."""

    addresses: Sequence[str]
    port: int
    tls: ssl.SSLContext


_READABLE: Final = ("/healthz", "/healthz/ping", "/pods", "/stats/summary")
"""Paths that any client may read at the read-only port. ``/metrics`` and all paths below it may be read too."""


class KubeletPort:
    """The port of one node. All methods belong to one event loop."""

    def __init__(
        self,
        door: PortPlace,
        readings: NodeReadings,
        source: PodSource,
        cri: CriRuntime,
        threads: PodThreads,
        configuration: Mapping[str, Any],
        environment: Mapping[str, str],
    ) -> None:
        """Answer from `source`, `readings` and `cri`; `configuration` is a KubeletConfiguration.

        `threads` read the logs of the node's pods. `environment` is for ``syncpod`` commands (`command_environment`).
        """
        self._door, self._configuration = door, configuration
        logs = ContainerLogs(source, cri, readings.node, threads)
        table = self._table(readings, logs, PodCommands(environment, source))
        self._answers = tuple((each, each.pattern) for each in table)
        self._urls = tuple((each, each.pattern) for each in _streams(ContainerStreams(source, cri)))
        self.listener: Listener | None = None
        """The listener of the kubelet's port; None before `run`."""
        self.readable: Listener | None = None
        """The listener of the read-only port; None = there is none."""

    def _table(self, readings: NodeReadings, logs: ContainerLogs, commands: PodCommands) -> Sequence[Route[Answer]]:
        return (
            Route("GET", "/containerLogs/{namespace}/{pod}/{container}", logs.answer, "text"),
            *reading_routes(readings),
            Route("GET", "/configz", self._configz, "KubeletConfiguration"),
            Route("GET", f"{PREFIX}/{{command}}/{{namespace}}/{{pod}}", commands.answer, "answer"),
            Route("POST", "/checkpoint/{namespace}/{pod}/{container}", _no_checkpoint, "404"),
        )

    async def run(self, guard: Guard) -> None:
        """Serve until cancelled; `guard` authenticates and authorizes requests."""

        async def serve(request: web.BaseRequest) -> web.StreamResponse:
            return await self._serve(request, guard)

        self.listener = Listener(self._door.addresses, self._door.port, self._door.tls, serve)
        await self.listener.run()

    async def run_readable(self, addresses: Sequence[str], port: int) -> None:
        """Serve the read-only port without TLS until cancelled (ListenAndServeKubeletReadOnlyServer)."""
        listener = Listener(addresses, port, None, self._serve_reader, called="the kubelet's port for reading")
        self.readable = listener
        await listener.run()

    async def _serve_reader(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = _asked(request)
        readable = asked.path in _READABLE or asked.path == "/metrics" or asked.path.startswith("/metrics/")
        answering, allowed = matching(self._answers, asked.method, asked.path) if readable else (None, "")
        try:
            try:
                if answering is None:
                    raise _unknown(asked.path, allowed)
                route, names = answering
                answer = await self._within(route.handle(asked, *names), asked)
            except ApiError as refused:
                answer = _refusal(refused)
            return await sent(request, answer, _broken, patience=_READ_SECONDS)
        except (OSError, TimeoutError) as gone:
            return given_up(request, "the kubelet's port", gone)

    async def _serve(self, request: web.BaseRequest, guard: Guard) -> web.StreamResponse:
        """Answer one request; close the connection if its client takes too long."""
        try:
            try:
                return await self._answered(request, guard)
            except ApiError as refused:
                return await sent(request, _refusal(refused), _broken, patience=_READ_SECONDS)
        except (OSError, TimeoutError) as gone:
            return given_up(request, "the kubelet's port", gone)

    async def _answered(self, request: web.BaseRequest, guard: Guard) -> web.StreamResponse:
        """Authorize a request and answer it. Raises ApiError, OSError, TimeoutError."""
        asked = _asked(request)
        async with asyncio.timeout(_ANSWER_SECONDS):
            user = await guard.user(_certificate(request), request.headers.get("Authorization", ""))
            await guard.require(user, access_of(asked.method, asked.path))
        assert self.listener is not None
        self.listener.trust(request)
        found, allowed = matching(self._urls, asked.method, asked.path)
        if found is not None:
            return await self._streamed(request, asked, found)
        answering, others = matching(self._answers, asked.method, asked.path)
        if answering is None:
            raise _unknown(asked.path, allowed or others)
        route, names = answering
        patience = _FOLLOWER_SECONDS if route.path.startswith("/containerLogs") else _READ_SECONDS
        answer = await self._within(route.handle(asked, *names), asked)
        return await sent(request, answer, _broken, patience=patience)

    async def _streamed(
        self, request: web.BaseRequest, asked: Request, found: tuple[Route[str], tuple[str, ...]]
    ) -> web.StreamResponse:
        """Forward an upgraded connection to the runtime. Raises ApiError."""
        if not is_upgrade(request.headers):
            raise ApiError(400, "Upgrade request required")
        route, names = found
        url = await self._within(route.handle(asked, *names), asked)
        return await relay(request, url)

    async def _within(self, answering: Awaitable[Any], asked: Request) -> Any:
        """Return a handler's result, within `_ANSWER_SECONDS`. Raises ApiError, also in place of any other error."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answering
        except ApiError:
            raise
        except TimeoutError:
            raise ApiError(500, f"this node could not answer within {_ANSWER_SECONDS:g} s") from None
        except Exception:
            log.exception("the kubelet's port cannot answer %s %s", asked.method, asked.path)
            raise ApiError(500, "this node has failed to answer; its log says how") from None

    async def _configz(self, asked: Request) -> Answer:
        return in_one_part(as_json({"kubeletconfig": self._configuration}), JSON)


def _streams(streams: ContainerStreams) -> Sequence[Route[str]]:
    pod = "{namespace}/{pod}"
    paths = (
        (f"/exec/{pod}/{{container}}", streams.exec_url),
        (f"/exec/{pod}/{{uid}}/{{container}}", streams.exec_url),
        (f"/attach/{pod}/{{container}}", streams.attach_url),
        (f"/attach/{pod}/{{uid}}/{{container}}", streams.attach_url),
        (f"/portForward/{pod}", streams.forward_url),
        (f"/portForward/{pod}/{{uid}}", streams.forward_url),
    )
    return [Route(method, path, handle, "streams") for path, handle in paths for method in ("GET", "POST")]


async def _no_checkpoint(_: Request, *_names: str) -> Answer:
    raise ApiError(404, _NO_CHECKPOINTS)


def _unknown(path: str, allowed: str) -> ApiError:
    """Return the refusal of an unknown path, or of a method that the path does not have."""
    if path == "/logs" or path.startswith("/logs/"):
        return ApiError(405, _LOGS_DISABLED)
    if allowed:
        return ApiError(405, f"405: Method Not Allowed: {path} answers {allowed}")
    return ApiError(404, "404 page not found")


def _asked(request: web.BaseRequest) -> Request:
    asked = asked_of(request)
    return replace(asked, path=asked.path.rstrip("/") or "/")


def _certificate(request: web.BaseRequest) -> bytes | None:
    """Return the client's certificate (DER), which TLS has verified; None = the client has sent none."""
    shown = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    der = shown.getpeercert(binary_form=True) if shown is not None else None
    return der or None


def _refusal(refused: ApiError) -> Answer:
    headers = {"WWW_Authenticate": 'Bearer realm="kubelet"'} if refused.code == 401 else {}
    return in_one_part(refused.message.encode(), PLAIN, refused.code, **headers)


def _broken(error: Exception) -> Answer:
    if isinstance(error, ApiError):
        return _refusal(error)
    log.error("an answer of the kubelet's port cannot be made", exc_info=error)
    return _refusal(ApiError(500, "this node has failed to answer; its log says how"))
