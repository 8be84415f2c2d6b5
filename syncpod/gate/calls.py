"""The calls that a node may make, and how each one is forwarded. Everything else is refused.

A request is never forwarded as it came. The gate builds a new one from the fields that a node needs. So a field that is
not named here, such as one of a later server, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2
from temporalio.api.enums.v1 import TaskQueueKind, TaskQueueType
from temporalio.api.namespace.v1 import NamespaceInfo
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    GetClusterInfoRequest,
    GetClusterInfoResponse,
    GetSystemInfoRequest,
    PollActivityTaskQueueRequest,
    PollActivityTaskQueueResponse,
    RecordActivityTaskHeartbeatRequest,
    RecordWorkerHeartbeatRequest,
    RespondActivityTaskCanceledRequest,
    RespondActivityTaskCompletedRequest,
    RespondActivityTaskFailedRequest,
    ShutdownWorkerRequest,
)

from syncpod.gate.tokens import TaskTokens

SERVICE: Final = "temporal.api.workflowservice.v1.WorkflowService"
POLL: Final = f"/{SERVICE}/PollActivityTaskQueue"
HEALTH: Final = "/grpc.health.v1.Health/Check"
GREETING: Final = (f"/{SERVICE}/GetSystemInfo",)
"""The first call of a client's connection. A removed node may make this call; every other is refused with the
reason."""
QUEUE_PREFIX: Final = "fleet-node/"
"""The prefix of a node's name, in the only task queue that it may poll and in its identity to the server."""
_WORKERS: Final = 8
"""Maximum number of workers in one heartbeat of a node."""
_REASON: Final = 200
"""Maximum characters of a shutdown's reason that are kept."""
_POLL_SECONDS: Final = 75.0
_CALL_SECONDS: Final = 15.0

_CAPABILITIES: Final = ("worker_heartbeats", "worker_poll_complete_on_shutdown", "poller_autoscaling")
"""The server's capabilities that a node's worker gets to know. With the others, it would try calls that the gate
refuses."""
_HEARTBEAT: Final = (
    "host_info", "sdk_name", "sdk_version", "status", "start_time", "heartbeat_time", "elapsed_since_last_heartbeat",
    "activity_task_slots_info", "activity_poller_info",
)  # fmt: skip


class CallRefused(Exception):
    """A node may not make the call; the text says so in one sentence."""


class CallUnreadable(Exception):
    """A request cannot be parsed as its method's message."""


@dataclass(frozen=True)
class Forwarded:
    """A node's call as the gate makes it to the server."""

    request: bytes
    answer: Callable[[bytes], bytes]
    """Turns the server's answer into the answer for the node."""
    seconds: float
    """Timeout of the call in seconds, unless the node's own timeout is shorter."""


class _Answering(Protocol):
    """The fields that each kind of answer to a task has."""

    task_token: bytes
    identity: str
    namespace: str


_M = TypeVar("_M", bound=Message)


class NodeCalls:
    """The calls of the nodes of one fleet, to one namespace."""

    def __init__(self, namespace: str, tokens: TaskTokens) -> None:
        self._namespace, self._tokens = namespace, tokens
        self._rules: dict[str, Callable[[str, bytes], tuple[Message, Callable[[bytes], bytes]]]] = {
            HEALTH: self._health,
            _method("GetSystemInfo"): lambda _node, _said: (GetSystemInfoRequest(), _as_it_is),
            _method("GetClusterInfo"): lambda _node, _said: (GetClusterInfoRequest(), _cluster),
            _method("DescribeNamespace"): self._describe_namespace,
            POLL: self._poll,
            _method("RespondActivityTaskCompleted"): self._completed,
            _method("RespondActivityTaskFailed"): self._failed,
            _method("RespondActivityTaskCanceled"): self._canceled,
            _method("RecordActivityTaskHeartbeat"): self._heartbeat,
            _method("RecordWorkerHeartbeat"): self._worker_heartbeat,
            _method("ShutdownWorker"): self._shutdown,
        }

    def knows(self, method: str) -> bool:
        """Return whether nodes make this call at all."""
        return method in self._rules

    def forwarded(self, node: str, method: str, said: bytes) -> Forwarded:
        """Return a node's call as the gate makes it to the server. Raises CallRefused, CallUnreadable."""
        rule = self._rules.get(method)
        if rule is None:
            raise CallRefused(unknown(method))
        request, answer = rule(node, said)
        seconds = _POLL_SECONDS if isinstance(request, PollActivityTaskQueueRequest) else _CALL_SECONDS
        return Forwarded(request.SerializeToString(), answer, seconds)

    def _health(self, _node: str, _said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        return health_pb2.HealthCheckRequest(service=SERVICE), _as_it_is

    def _describe_namespace(self, _node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(DescribeNamespaceRequest, said)
        self._require_namespace(asked.namespace)
        return DescribeNamespaceRequest(namespace=self._namespace), _namespace

    def _poll(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(PollActivityTaskQueueRequest, said)
        self._require_namespace(asked.namespace)
        _require_queue(node, asked.task_queue)
        request = PollActivityTaskQueueRequest(
            namespace=self._namespace,
            task_queue=TaskQueue(name=queue_of(node), kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL),
            identity=queue_of(node),
            worker_instance_key=_instance(node, asked.worker_instance_key),
        )

        def answer(answered: bytes) -> bytes:
            task = PollActivityTaskQueueResponse.FromString(answered)
            if task.task_token:
                task.task_token = self._tokens.bind(node, task.task_token)
            task.ClearField("poller_group_infos")
            task.ClearField("poller_groups_info")
            return task.SerializeToString()

        return request, answer

    def _completed(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(RespondActivityTaskCompletedRequest, said)
        request = RespondActivityTaskCompletedRequest(result=asked.result if asked.HasField("result") else None)
        return self._answering(node, asked, request), _as_it_is

    def _failed(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(RespondActivityTaskFailedRequest, said)
        request = RespondActivityTaskFailedRequest(failure=asked.failure if asked.HasField("failure") else None)
        if asked.HasField("last_heartbeat_details"):
            request.last_heartbeat_details.CopyFrom(asked.last_heartbeat_details)
        return self._answering(node, asked, request), _as_it_is

    def _canceled(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(RespondActivityTaskCanceledRequest, said)
        request = RespondActivityTaskCanceledRequest(details=asked.details if asked.HasField("details") else None)
        return self._answering(node, asked, request), _as_it_is

    def _heartbeat(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(RecordActivityTaskHeartbeatRequest, said)
        request = RecordActivityTaskHeartbeatRequest(details=asked.details if asked.HasField("details") else None)
        return self._answering(node, asked, request), _as_it_is

    def _worker_heartbeat(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(RecordWorkerHeartbeatRequest, said)
        self._require_namespace(asked.namespace)
        if len(asked.worker_heartbeat) > _WORKERS:
            raise CallRefused(f"a heartbeat may report at most {_WORKERS} workers of a node")
        request = RecordWorkerHeartbeatRequest(namespace=self._namespace, identity=queue_of(node))
        for reported in asked.worker_heartbeat:
            _require_queue(node, TaskQueue(name=reported.task_queue))
            beat = WorkerHeartbeat(
                worker_instance_key=_instance(node, reported.worker_instance_key),
                worker_identity=queue_of(node),
                task_queue=queue_of(node),
            )
            for field, value in reported.ListFields():
                if field.name not in _HEARTBEAT:
                    continue
                if isinstance(value, Message):
                    getattr(beat, field.name).CopyFrom(value)
                else:
                    setattr(beat, field.name, value)
            request.worker_heartbeat.append(beat)
        return request, _as_it_is

    def _shutdown(self, node: str, said: bytes) -> tuple[Message, Callable[[bytes], bytes]]:
        asked = _read(ShutdownWorkerRequest, said)
        self._require_namespace(asked.namespace)
        if asked.task_queue:
            _require_queue(node, TaskQueue(name=asked.task_queue))
        return ShutdownWorkerRequest(
            namespace=self._namespace,
            identity=queue_of(node),
            reason=asked.reason[:_REASON],
            worker_instance_key=_instance(node, asked.worker_instance_key),
            task_queue=queue_of(node),
            task_queue_types=[TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY],
        ), _as_it_is

    def _answering(self, node: str, asked: _Answering, request: _M) -> _M:
        """Return a node's answer to a task as the server gets it: with the node's identity, and the server's token."""
        self._require_namespace(asked.namespace)
        token = self._tokens.unbind(node, asked.task_token)
        if token is None:
            raise CallRefused("the task was not given to this node")
        made: _Answering = request  # type: ignore[assignment]  # each of them has these three
        made.task_token, made.identity, made.namespace = token, queue_of(node), self._namespace
        return request

    def _require_namespace(self, named: str) -> None:
        if named != self._namespace:
            raise CallRefused(f"a node of this fleet may use only the namespace {self._namespace}")


def queue_of(node: str) -> str:
    """Return the task queue of a node, which is its identity too."""
    return f"{QUEUE_PREFIX}{node}"


def unknown(method: str) -> str:
    """Return the sentence that refuses a call that no node may make."""
    return (
        f"a node may only poll its own task queue and answer its own tasks, not call {method.rpartition('/')[2][:64]}"
    )


def _method(name: str) -> str:
    return f"/{SERVICE}/{name}"


def _require_queue(node: str, queue: TaskQueue) -> None:
    if queue.name != queue_of(node):
        raise CallRefused(f"node {node} may poll only task queue {queue_of(node)}")
    if queue.kind not in (TaskQueueKind.TASK_QUEUE_KIND_UNSPECIFIED, TaskQueueKind.TASK_QUEUE_KIND_NORMAL):
        raise CallRefused(f"node {node} may poll only task queue {queue_of(node)}, of the normal kind")


def _instance(node: str, key: str) -> str:
    """Return a worker's key, made unique to the node.

    A shutdown ends polls by this key, so no other node may use it.
    """
    return f"{node}/{key[:64]}" if key else ""


def _read(kind: type[_M], said: bytes) -> _M:
    try:
        return kind.FromString(said)
    except DecodeError:
        raise CallUnreadable from None


def _as_it_is(answered: bytes) -> bytes:
    return answered


def _cluster(answered: bytes) -> bytes:
    found = GetClusterInfoResponse.FromString(answered)
    return GetClusterInfoResponse(
        server_version=found.server_version, cluster_id=found.cluster_id, cluster_name=found.cluster_name
    ).SerializeToString()


def _namespace(answered: bytes) -> bytes:
    """Return a namespace's description with the fields that a worker needs: without owner, data and replication."""
    found = DescribeNamespaceResponse.FromString(answered).namespace_info
    can = {name: getattr(found.capabilities, name) for name in _CAPABILITIES}
    described = NamespaceInfo(
        name=found.name, state=found.state, id=found.id, capabilities=NamespaceInfo.Capabilities(**can)
    )
    described.limits.CopyFrom(found.limits)
    return DescribeNamespaceResponse(namespace_info=described).SerializeToString()
