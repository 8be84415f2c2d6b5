"""A CRI proxy that passes every call on, and records the requests to the runtime for each pod."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict

from protos.cri.v1 import api_pb2 as cri
from tests.e2e.faults_proxy import CriProxy

_NOTED: Final = {
    "RunPodSandbox": (cri.RunPodSandboxRequest, cri.RunPodSandboxResponse),
    "CreateContainer": (cri.CreateContainerRequest, cri.CreateContainerResponse),
    "StopContainer": (cri.StopContainerRequest, None),
    "StopPodSandbox": (cri.StopPodSandboxRequest, None),
}


@dataclass
class Asked:
    """The requests to a runtime for one pod."""

    sandbox: dict[str, Any] = field(default_factory=dict)
    """The configuration of its first sandbox."""
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The configuration of each container's first instance."""
    attempts: dict[str, int] = field(default_factory=dict)
    """The highest attempt of each container."""
    stops: list[tuple[str, int]] = field(default_factory=list)
    """Container and timeout of each StopContainer, in the order of the calls."""
    sandbox_stopped: bool = False


class Recording(CriProxy):
    """The proxy's socket; `asked` has the recorded requests, by the pod's name."""

    def __init__(self, socket: Path, target: str) -> None:
        super().__init__(socket, target)
        self.asked: dict[str, Asked] = defaultdict(Asked)
        self._sandboxes: dict[str, str] = {}
        self._containers: dict[str, tuple[str, str]] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Pass a call on, and record it if it creates or stops a sandbox or container."""
        handler = super().service(handler_call_details)
        method = handler_call_details.method.rpartition("/")[2]
        if method not in _NOTED:
            return handler
        forward = handler.unary_unary

        async def noting(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            self._asked(method, request)
            answer: bytes = await forward(request, context)
            self._answered(method, request, answer)
            return answer

        return grpc.unary_unary_rpc_method_handler(noting)

    def _asked(self, method: str, request: bytes) -> None:
        """Record a request before it is passed on, so that refused requests are recorded too."""
        if method == "RunPodSandbox":
            config = cri.RunPodSandboxRequest.FromString(request).config
            asked = self.asked[config.metadata.name]
            asked.sandbox = asked.sandbox or MessageToDict(config)
        elif method == "CreateContainer":
            message = cri.CreateContainerRequest.FromString(request)
            asked, name = self.asked[message.sandbox_config.metadata.name], message.config.metadata.name
            asked.containers.setdefault(name, MessageToDict(message.config))
            asked.attempts[name] = max(asked.attempts.get(name, 0), message.config.metadata.attempt)
        elif method == "StopContainer":
            stop = cri.StopContainerRequest.FromString(request)
            pod, name = self._containers.get(stop.container_id, ("", ""))
            self.asked[pod].stops.append((name, stop.timeout))

    def _answered(self, method: str, request: bytes, answer: bytes) -> None:
        if method == "RunPodSandbox":
            id = cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id
            self._sandboxes[id] = cri.RunPodSandboxRequest.FromString(request).config.metadata.name
        elif method == "CreateContainer":
            message = cri.CreateContainerRequest.FromString(request)
            made = cri.CreateContainerResponse.FromString(answer).container_id
            self._containers[made] = (message.sandbox_config.metadata.name, message.config.metadata.name)
        elif method == "StopPodSandbox":
            id = cri.StopPodSandboxRequest.FromString(request).pod_sandbox_id
            self.asked[self._sandboxes.get(id, "")].sandbox_stopped = True
