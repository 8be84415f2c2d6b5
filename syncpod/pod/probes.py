"""Probes and lifecycle hooks, and the handlers both are made of."""

from typing import Annotated

from syncpod.pod.enums import URIScheme
from syncpod.pod.wire import EMPTY_IS_UNSET, Int32, Int64, IntOrString, Model


class ExecAction(Model):
    """A command to run in the container; success is exit code 0."""

    command: tuple[str, ...] = ()


class HTTPHeader(Model):
    """One header of a request."""

    name: str = ""
    value: str = ""


class HTTPGetAction(Model):
    """An HTTP GET; success is a status from 200 to 399."""

    path: str = ""
    port: IntOrString = 0
    host: str = ""
    scheme: Annotated[URIScheme | None, EMPTY_IS_UNSET] = None
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Model):
    """A TCP connection; success is that it opens."""

    port: IntOrString = 0
    host: str = ""


class GRPCAction(Model):
    """A call of the gRPC health service."""

    port: Int32 = 0
    service: str | None = None


class SleepAction(Model):
    """A pause, in seconds."""

    seconds: Int64 = 0


class Probe(Model):
    """A periodic check of a container; times are in seconds."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 | None = None
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: Int64 | None = None


class LifecycleHandler(Model):
    """The action of a hook: exactly one of these is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Model):
    """Hooks right after a container's start and right before its end."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None
