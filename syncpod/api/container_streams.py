"""``/exec``, ``/attach`` and ``/portForward``: from a request to the streaming URL of the runtime.

Mirrors getExec, getAttach and getPortForward (pkg/kubelet/server/server.go, v1.36), and GetExec, GetAttach and
GetPortForward (kubelet_pods.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syncpod.api.messages import Request
from syncpod.api.pods import named_pod
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.api.wanted_log import require_container
from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.translation.names import POD_UID_LABEL

_NO_POD = "pod does not exist"


@dataclass(frozen=True)
class _Streams:
    """The streams of a command that a client requests."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class ContainerStreams:
    """The streams into one node's pods."""

    def __init__(self, source: PodSource, cri: CriRuntime) -> None:
        """Find pods in `source`, and their running containers in `cri`."""
        self._source, self._cri = source, cri

    async def exec_url(self, asked: Request, namespace: str, name: str, *uid_and_container: str) -> str:
        """Return the URL for running a command in a container. Raises ApiError."""
        *uid, container = uid_and_container
        streams = _streams(asked)
        pod = await named_pod(self._source, namespace, name, _NO_POD, *uid)
        running = await self._running(pod, container, f'container not found ("{container}")')
        return await _from_runtime(
            self._cri.exec(
                running,
                tuple(asked.query.get("command", ())),
                tty=streams.tty,
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
            )
        )

    async def attach_url(self, asked: Request, namespace: str, name: str, *uid_and_container: str) -> str:
        """Return the URL for the streams of a container's main process.

        The container's spec decides about the terminal, not the request. Raises ApiError, also if the runtime refuses
        the streams: a terminal has no stderr of its own.
        """
        *uid, container = uid_and_container
        streams = _streams(asked)
        pod = await named_pod(self._source, namespace, name, _NO_POD, *uid)
        missing = f"container {container} not found in pod {name}_{namespace}"
        running = await self._running(pod, container, missing)
        tty = require_container(pod, container).get("tty") is True
        return await _from_runtime(
            self._cri.attach(running, tty=tty, stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr)
        )

    async def forward_url(self, asked: Request, namespace: str, name: str, *uid: str) -> str:
        """Return the URL for connections to ports of a pod. Raises ApiError."""
        ports = _ports(asked)
        pod = await named_pod(self._source, namespace, name, _NO_POD, *uid)
        try:
            sandboxes = await self._cri.list_pod_sandboxes(labels={POD_UID_LABEL: pod["metadata"]["uid"]})
        except CriError as error:
            raise _failed(error) from None
        ready = [each for each in sandboxes if each.state == "SANDBOX_READY"]
        if not ready:
            raise ApiError(500, f'pod not found ("{name}_{namespace}")')
        newest = max(ready, key=lambda each: each.attempt)
        return await _from_runtime(self._cri.port_forward(newest.id, ports))

    async def _running(self, pod: dict[str, Any], container: str, missing: str) -> str:
        """Return the id of a container's running instance. Raises ApiError, with the text `missing` if none runs."""
        try:
            found = await self._cri.list_containers(labels={POD_UID_LABEL: pod["metadata"]["uid"]})
        except CriError as error:
            raise _failed(error) from None
        running = [each for each in found if each.name == container and each.state == "running"]
        if not running:
            raise ApiError(500, missing)
        return max(running, key=lambda each: each.attempt).id


def _streams(asked: Request) -> _Streams:
    """Return the streams that a request names (remotecommand.NewOptions). Raises ApiError."""
    tty = asked.one("tty") == "1"
    stdin, stdout, stderr = (asked.one(name) == "1" for name in ("input", "output", "error"))
    stderr = stderr and not tty
    if not (stdin or stdout or stderr):
        raise ApiError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return _Streams(stdin, stdout, stderr, tty)


def _ports(asked: Request) -> Sequence[int]:
    """Return the ports in the query, which only requests over WebSocket have. Raises ApiError."""
    ports = []
    for text in ",".join(asked.query.get("port", ())).split(","):
        if not text:
            continue
        if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
            raise ApiError(400, f'unable to parse "{text}" as a port: must be a number from 1 to 65535')
        ports.append(int(text))
    return ports


async def _from_runtime(asking: Any) -> str:
    """Return the runtime's URL. Raises ApiError."""
    try:
        return str(await asking)
    except CriError as error:
        raise _failed(error) from None


def _failed(error: CriError) -> ApiError:
    """Return a failure of the runtime (streaming.WriteError)."""
    code = {"NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429}.get(error.code, 500)
    return ApiError(code, error.message or error.code)
