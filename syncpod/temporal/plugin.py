"""The parts that all Temporal clients of the project share: data converter, interceptors, and how to connect.

The command line needs only ``client = await connect()``. The worker, the replayer and workflow tests also use
:func:`syncpod_plugin`, with workflows, runner and interceptors, so that they cannot differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import Runtime
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from syncpod.messages.signature import Keys
from syncpod.temporal.failures import EncodedFailureConverter, FailureConverter
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.signing import SignablePayloadConverter, SigningClient, signing_converter

if TYPE_CHECKING:
    from temporalio.client import Interceptor
    from temporalio.plugin import SimplePlugin
    from temporalio.worker import WorkflowRunner

    from syncpod.temporal.interceptors import ArmBackoff
    from syncpod.temporal.workflow_watch import Begun, WorkflowWatch


DATA_CONVERTER = DataConverter(
    payload_converter_class=SignablePayloadConverter, failure_converter_class=FailureConverter
)
"""This converter writes plain JSON, so that payloads typed by hand can be decoded. All clients share it, since it
caches how each type is decoded."""

_ENCODED_FAILURES = DataConverter(
    payload_converter_class=SignablePayloadConverter, failure_converter_class=EncodedFailureConverter
)

DEFAULT_ADDRESS = "127.0.0.1:7233"
_CONNECT_TIMEOUT = timedelta(seconds=5)
ANSWER_TIMEOUT = timedelta(seconds=15)
"""How long the first call to a server may take. The SDK by itself waits half a minute for a server that accepts
connections and never answers."""


class NoServer(Exception):
    """There is no Temporal server, or it lacks this namespace; the text is one sentence with advice."""


def syncpod_plugin(
    *,
    workflows: Sequence[type] = (),
    activities: Sequence[Callable[..., Any]] = (),
    runner: WorkflowRunner | None = None,
    arm_backoff: ArmBackoff | None = None,
    watch: WorkflowWatch | None = None,
    keys: Keys | None = None,
    begun: Begun | None = None,
) -> SimplePlugin:
    """Return the plugin of a worker or replayer.

    Without `arm_backoff` (a replayer, a workflow test) the workflow's own timers end back-offs. `watch`, which needs a
    `runner`, gets reports of workflow tasks.

    With `keys`, all commands to workflows and steps must be signed, and the worker's client must be a `verifying` one.
    `begun`, which needs a `watch`, then decides which starts may begin a run.
    """
    # Imported here, so that a client that is not a worker starts faster.
    from temporalio.plugin import SimplePlugin

    from syncpod.temporal.interceptors import NodeInterceptor
    from syncpod.temporal.one_activation import OneActivation
    from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
    from syncpod.temporal.signed_steps import SigningWorker
    from syncpod.temporal.tracing import TracingInterceptor
    from syncpod.temporal.workflow_watch import WatchedRunner

    watched = WatchedRunner(runner, watch, begun) if runner is not None and watch is not None else None
    running = watched or runner
    signing = [SigningWorker()] if keys is not None else []
    return SimplePlugin(
        "syncpod",
        data_converter=DATA_CONVERTER if keys is None else verifying_converter(keys),
        interceptors=[
            NodeInterceptor(arm_backoff, watched),
            TracingInterceptor(),
            ResizeMetricsInterceptor(),
            *signing,
        ],
        workflows=workflows or None,
        activities=activities or None,
        workflow_runner=OneActivation(running) if running is not None else None,
    )


def connection_settings(
    environ: Mapping[str, str] | None = None, *, default_address: str = DEFAULT_ADDRESS
) -> ClientConnectConfig:
    """Return where and how to connect, as the ``temporal`` CLI does: temporal.toml, overridden by the environment.

    `default_address` applies if neither names one; an empty namespace is `default`. Raises NoServer if the settings
    cannot be read.
    """
    try:
        settings = ClientConfig.load_client_connect_config(
            override_env_vars=dict(environ) if environ is not None else None
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise NoServer(f"the Temporal connection settings cannot be read: {error}") from error
    settings["target_host"] = settings.get("target_host") or default_address
    settings["namespace"] = settings.get("namespace") or "default"
    return settings


async def connect(
    plugin: SimplePlugin | None = None,
    *,
    settings: ClientConnectConfig | None = None,
    runtime: Runtime | None = None,
    identity: str | None = None,
    keys: Keys | None = None,
    interceptors: Sequence[Interceptor] = (),
    converter: DataConverter | None = None,
    begun_by: str = "syncpod up",
    on_namespace: Callable[[str], None] | None = lambda _: None,
) -> Client:
    """Connect to the server and check that the namespace exists; with `keys`, all commands are signed.

    `converter` is for a fleet's server (`syncpod.temporal.sealing`). `begun_by` is the command that the error names if
    there is no server. `on_namespace` is called with the namespace's id; None = the namespace is known to exist.

    `interceptors` are called before those that every client has. Raises NoServer.
    """
    settings = settings or connection_settings()
    address, namespace = settings["target_host"], settings["namespace"]
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
            client = await Client.connect(
                **settings,
                data_converter=converter
                or (DATA_CONVERTER if keys is None else signing_converter(_base(keys), keys, verifies=False)),
                interceptors=[*interceptors, AskAgain(), *([] if keys is None else [SigningClient(keys.number)])],
                plugins=[plugin] if plugin else [],
                runtime=runtime,
                identity=identity,
                connect_timeout=_CONNECT_TIMEOUT,
                grpc_compression=GrpcCompression.NONE if _is_local(address) else GrpcCompression.GZIP,
            )
    except (RuntimeError, ValueError, TimeoutError) as error:
        raise NoServer(
            f"no Temporal server at {address} ({_cause(error)}): start one with `{begun_by}`, or name one in "
            "TEMPORAL_ADDRESS"
        ) from error
    if on_namespace is None:
        return client
    try:
        described = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), retry=True, timeout=_CONNECT_TIMEOUT
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise NoServer(
                f"the Temporal server at {address} has no namespace {namespace}: "
                f"create it (`temporal operator namespace create {namespace}`), or name another in TEMPORAL_NAMESPACE"
            ) from error
        raise NoServer(f"the Temporal server at {address} refuses namespace {namespace}: {error.message}") from error
    on_namespace(described.namespace_info.id)
    return client


def verifying(client: Client, keys: Keys) -> Client:
    """Return a worker's client on the same connection, which verifies commands to its workflows and steps."""
    config = client.config()
    config["data_converter"] = verifying_converter(keys)
    return Client(**config)


def verifying_converter(keys: Keys) -> DataConverter:
    """Return the data converter of a worker that accepts only signed payloads."""
    return signing_converter(_base(keys), keys, verifies=True)


def _base(keys: Keys) -> DataConverter:
    """Return the data converter for these keys; the caller adds the codec."""
    return _ENCODED_FAILURES if keys.encrypts else DATA_CONVERTER


def _is_local(address: str) -> bool:
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


def _cause(error: Exception) -> str:
    """Return briefly why a connection failed; the SDK wraps the cause in the names of its layers."""
    if isinstance(error, TimeoutError):
        return f"no answer in {ANSWER_TIMEOUT.total_seconds():g} s"
    text = str(error)
    for sign, meaning in (
        ("ConnectionRefused", "connection refused"),
        ("dns error", "the name cannot be resolved"),
        ("TimedOut", "no answer in time"),
        ("deadline has elapsed", "no answer in time"),
        ("InvalidCertificate", "its certificate is not accepted"),
        ("Unauthenticated", "not authenticated"),
        ("PermissionDenied", "permission denied"),
    ):
        if sign in text:
            return meaning
    return text
