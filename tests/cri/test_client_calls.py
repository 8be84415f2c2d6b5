"""The calls that the client sends to a scripted CRI server, and its records of them."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from protos.cri.containerd import containers_pb2 as containerd_records
from protos.cri.containerd import content_pb2 as content
from protos.cri.containerd import tasks_pb2 as tasks
from protos.cri.v1 import api_pb2 as cri
from syncpod.cri import calls, client, telemetry
from syncpod.cri.client import CriClient
from syncpod.cri.errors import (
    CriError,
    DeadlineExceeded,
    NotFound,
    RecordLost,
    TransportFault,
    Unavailable,
    Unimplemented,
)
from syncpod.cri.keyring import Credential
from syncpod.cri.port import CpuUsage, Ingest, InterfaceUsage, MemoryUsage
from syncpod.redaction import of_process
from tests.node.owned_pods import OwnedPod

HANDLERS = {
    f"/{service.full_name}/{method.name}": method
    for file in (cri.DESCRIPTOR, tasks.DESCRIPTOR, content.DESCRIPTOR, containerd_records.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}


class AnyCri(grpc.GenericRpcHandler):
    """Answers every call with a minimal valid answer, or with one of `answers`; records the deadlines."""

    def __init__(self) -> None:
        self.deadlines: dict[str, float | None] = {}
        self.answers: dict[str, bytes] = {}
        self.requests: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str | bytes]] = {}
        self.refusals: dict[str, grpc.StatusCode] = {}
        self.words: dict[str, str] = {}
        self.mends: dict[str, str] = {}
        """Calls, each with the call that is not refused after it."""

    def service(self, call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        name = HANDLERS[call_details.method].name

        async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            self.deadlines[name] = context.time_remaining()
            self.requests[name] = request
            self.headers[name] = dict(context.invocation_metadata() or ())
            if name in self.mends:
                del self.refusals[self.mends[name]]
            if name in self.refusals:
                await context.abort(self.refusals[name], self.words.get(name, "refused"))
            if name == "StartContainer" and name not in self.answers:
                await context.abort(grpc.StatusCode.UNKNOWN, "cannot start")
            return self.answers[name] if name in self.answers else least(name, request)

        return grpc.unary_unary_rpc_method_handler(answer)


def least(name: str, request: bytes) -> bytes:
    """The smallest answer that a client accepts: new objects have an id, and a status has the requested id."""
    match name:
        case "RunPodSandbox":
            return cri.RunPodSandboxResponse(pod_sandbox_id="s").SerializeToString()
        case "CreateContainer":
            return cri.CreateContainerResponse(container_id="c").SerializeToString()
        case "PodSandboxStatus":
            sandbox = cri.PodSandboxStatus(id=cri.PodSandboxStatusRequest.FromString(request).pod_sandbox_id)
            return cri.PodSandboxStatusResponse(status=sandbox).SerializeToString()
        case "ContainerStatus":
            container = cri.ContainerStatus(id=cri.ContainerStatusRequest.FromString(request).container_id)
            return cri.ContainerStatusResponse(status=container).SerializeToString()
    return b""


@contextlib.asynccontextmanager
async def serving(handler: AnyCri) -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="cri-") as directory:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        endpoint = f"unix://{directory}/cri.sock"
        server.add_insecure_port(endpoint)
        await server.start()
        try:
            yield endpoint
        finally:
            await server.stop(None)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[tuple[AnyCri, CriClient]]:
    handler = AnyCri()
    async with serving(handler) as endpoint, CriClient(endpoint) as client:
        yield handler, client


CALLS: list[tuple[str, float | None, Callable[[CriClient], Awaitable[object]]]] = [
    ("Version", 120, lambda client: client.version()),
    ("Status", 120, lambda client: client.status()),
    ("RunPodSandbox", 240, lambda client: client.run_pod_sandbox(cri.PodSandboxConfig())),
    ("StopPodSandbox", 120, lambda client: client.stop_pod_sandbox("s")),
    ("RemovePodSandbox", 120, lambda client: client.remove_pod_sandbox("s")),
    ("PodSandboxStatus", 120, lambda client: client.pod_sandbox_status("s")),
    ("ListPodSandbox", 120, lambda client: client.list_pod_sandboxes()),
    (
        "CreateContainer",
        120,
        lambda client: client.create_container("s", cri.ContainerConfig(), cri.PodSandboxConfig()),
    ),
    ("StopContainer", 420, lambda client: client.stop_container("c", timeout_seconds=300)),
    ("RemoveContainer", 120, lambda client: client.remove_container("c")),
    ("Kill", 120, lambda client: client.discard_task("c")),
    ("ListContainers", 120, lambda client: client.list_containers()),
    ("ContainerStatus", 120, lambda client: client.container_status("c")),
    (
        "UpdatePodSandboxResources",
        120,
        lambda client: client.update_pod_sandbox_resources(
            "s", overhead=cri.LinuxContainerResources(), resources=cri.LinuxContainerResources()
        ),
    ),
    (
        "UpdateContainerResources",
        120,
        lambda client: client.update_container_resources("c", cri.LinuxContainerResources()),
    ),
    ("ListContainerStats", 2, lambda client: client.list_container_stats(sandbox_id="s", timeout_seconds=2)),
    ("ListPodSandboxStats", 5, lambda client: client.list_sandbox_stats(labels={}, timeout_seconds=5)),
    ("ReopenContainerLog", 120, lambda client: client.reopen_container_log("c")),
    ("ExecSync", 180, lambda client: client.exec_sync("c", ("true",), timeout_seconds=60)),
    ("ExecSync", None, lambda client: client.exec_sync("c", ("true",), timeout_seconds=0)),
    ("Exec", 120, lambda client: client.exec("c", ("true",), tty=False, stdin=False, stdout=True, stderr=True)),
    ("Attach", 120, lambda client: client.attach("c", tty=False, stdin=False, stdout=True, stderr=True)),
    ("ImageStatus", 120, lambda client: client.image_status("i")),
    ("PullImage", None, lambda client: client.pull_image("i")),
    ("ListImages", 120, lambda client: client.list_images()),
    ("RemoveImage", 120, lambda client: client.remove_image("i")),
    ("ImageFsInfo", 120, lambda client: client.image_fs_info()),
]


@pytest.mark.parametrize(("method", "seconds", "call"), CALLS, ids=[f"{name}-{limit}" for name, limit, _ in CALLS])
async def test_each_call_has_the_kubelets_deadline(
    server: tuple[AnyCri, CriClient],
    method: str,
    seconds: float | None,
    call: Callable[[CriClient], Awaitable[object]],
) -> None:
    handler, client = server
    await call(client)
    remaining = handler.deadlines[method]
    if seconds is None:
        assert remaining is None or remaining > 10**6
    else:
        assert remaining == pytest.approx(seconds, abs=min(seconds, 10))


async def test_each_call_is_counted_by_a_type_that_begins_at_zero(
    server: tuple[AnyCri, CriClient], recorded: Recorded
) -> None:
    _, client = server
    for _, _, call in CALLS:
        await call(client)
    counted = {label for name, label in recorded.counts() if name == "kubelet_runtime_operations_total"}
    assert len(counted) >= 25
    assert counted <= {call.operation for call in calls.CALLS.values()}


def test_each_request_of_the_client_has_a_row_in_the_table_of_calls() -> None:
    """A call without a row would have no series, and no worker would be killed beside it in tests."""
    attributes = (each for each in ast.walk(ast.parse(inspect.getsource(client))) if isinstance(each, ast.Attribute))
    requests = {each.attr.removesuffix("Request") for each in attributes if each.attr.endswith("Request")}
    assert requests - {"GetEvents"} == {*calls.CALLS}, "GetEvents is a stream, which is not counted"


def test_each_row_of_the_table_of_calls_is_a_call_of_a_runtime() -> None:
    requests = {method.input_type.name.removesuffix("Request") for method in HANDLERS.values()}
    assert {*calls.CALLS} <= requests
    operations = [call.operation for call in calls.CALLS.values()]
    assert len(operations) == len({*operations})


async def test_start_container_has_the_default_deadline(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    handler.answers["StartContainer"] = b""
    await client.start_container("c")
    assert handler.deadlines["StartContainer"] == pytest.approx(120, abs=10)


async def test_grace_is_sent_to_the_runtime_in_whole_seconds(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    await client.stop_container("c", timeout_seconds=7)
    assert cri.StopContainerRequest.FromString(handler.requests["StopContainer"]).timeout == 7


@pytest.mark.parametrize("seconds", [2**31 - 1, 10**10, 2**63 - 1])
async def test_an_infinite_grace_becomes_the_longest_that_a_runtime_can_count(
    server: tuple[AnyCri, CriClient], seconds: int
) -> None:
    handler, client = server
    await client.stop_container("c", timeout_seconds=seconds)
    await client.exec_sync("c", ("true",), timeout_seconds=seconds)
    assert cri.StopContainerRequest.FromString(handler.requests["StopContainer"]).timeout == 2**31 - 1
    assert cri.ExecSyncRequest.FromString(handler.requests["ExecSync"]).timeout == 2**31 - 1
    for call in ("StopContainer", "ExecSync"):
        remaining = handler.deadlines[call]
        assert remaining is None or remaining > 10**7, "gRPC itself writes down three years at the most"


async def test_an_unreported_writable_layer_is_distinguished_from_an_empty_one(
    server: tuple[AnyCri, CriClient],
) -> None:
    handler, client = server
    stats = [cri.ContainerStats(attributes=cri.ContainerAttributes(id=id)) for id in ("silent", "empty")]
    stats[1].writable_layer.used_bytes.value = 0
    handler.answers["ListContainerStats"] = cri.ListContainerStatsResponse(stats=stats).SerializeToString()
    silent, empty = await client.list_container_stats(sandbox_id="s", timeout_seconds=2)
    assert silent.writable_layer is None
    assert empty.writable_layer is not None
    assert empty.writable_layer.used_bytes == 0
    asked = cri.ListContainerStatsRequest.FromString(handler.requests["ListContainerStats"])
    assert asked.filter.pod_sandbox_id == "s"


async def test_measured_usage_is_distinguished_from_unmeasured_usage(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    stats = [cri.ContainerStats(attributes=cri.ContainerAttributes(id=id)) for id in ("measured", "ended")]
    stats[0].cpu.timestamp = 5
    stats[0].cpu.usage_core_nano_seconds.value = 7
    stats[0].memory.working_set_bytes.value = 0
    handler.answers["ListContainerStats"] = cri.ListContainerStatsResponse(stats=stats).SerializeToString()
    measured, ended = await client.list_container_stats(sandbox_id="s", timeout_seconds=2)
    assert (measured.cpu, measured.working_set_bytes) == (CpuUsage(5, 7, nano_cores=None), 0)
    assert (ended.cpu, ended.working_set_bytes) == (None, None)


async def test_a_pod_is_measured_with_its_containers_and_its_network(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    stats = cri.PodSandboxStats(attributes=cri.PodSandboxAttributes(id="s"))
    stats.attributes.metadata.uid, stats.attributes.metadata.name = "u", "web"
    stats.linux.memory.timestamp = 9
    stats.linux.memory.rss_bytes.value = 0
    stats.linux.network.default_interface.name = "eth0"
    stats.linux.network.default_interface.rx_bytes.value = 7
    stats.linux.network.interfaces.add(name="eth1")
    stats.linux.process.process_count.value = 3
    stats.linux.containers.add(attributes=cri.ContainerAttributes(id="c"))
    silent = cri.PodSandboxStats(attributes=cri.PodSandboxAttributes(id="silent"))
    handler.answers["ListPodSandboxStats"] = cri.ListPodSandboxStatsResponse(stats=[stats, silent]).SerializeToString()
    pod, unmeasured = await client.list_sandbox_stats(labels={"a": "b"}, timeout_seconds=5)
    asked = cri.ListPodSandboxStatsRequest.FromString(handler.requests["ListPodSandboxStats"])
    assert asked.filter.label_selector == {"a": "b"}
    assert (pod.id, pod.uid, pod.name, pod.cpu, pod.memory) == ("s", "u", "web", None, MemoryUsage(9, rss_bytes=0))
    assert [each.id for each in pod.containers] == ["c"] and pod.processes == 3
    nothing = (None, None, None)
    assert pod.interfaces == (InterfaceUsage("eth0", 7, *nothing), InterfaceUsage("eth1", None, *nothing))
    assert (unmeasured.memory, unmeasured.interfaces, unmeasured.processes) == (None, (), None)


async def test_a_pull_sends_the_password_and_never_shows_it(
    server: tuple[AnyCri, CriClient], recorded: Recorded
) -> None:
    handler, client = server
    credential = Credential("jo", "hunter2")
    echo = f"401: no such user jo:hunter2, authorization {credential.secrets[1]}"
    handler.refusals["PullImage"] = grpc.StatusCode.UNKNOWN
    handler.words["PullImage"] = echo
    with pytest.raises(CriError) as caught:
        await client.pull_image("i", credential=credential)
    asked = cri.PullImageRequest.FromString(handler.requests["PullImage"])
    assert (asked.auth.username, asked.auth.password) == ("jo", "hunter2")
    assert of_process.redact(caught.value.message) == "401: no such user jo:***, authorization ***"
    with pytest.raises(CriError):
        await client.pull_image("i")
    assert not cri.PullImageRequest.FromString(handler.requests["PullImage"]).HasField("auth")


async def test_download_progress_is_read_from_containerds_cri_namespace(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    statuses = [content.Status(ref="layer-sha256:a", offset=3, total=10), content.Status(ref="x", total=-1)]
    handler.answers["ListStatuses"] = content.ListStatusesResponse(statuses=statuses).SerializeToString()
    assert await client.ingests() == (Ingest("layer-sha256:a", 3, 10), Ingest("x", 0, 0))
    assert handler.headers["ListStatuses"]["containerd-namespace"] == "k8s.io"


async def test_a_runtime_without_download_progress_is_not_an_error(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    handler.refusals["ListStatuses"] = grpc.StatusCode.UNIMPLEMENTED
    assert await client.ingests() is None


async def test_a_task_is_killed_awaited_and_deleted_in_containerds_cri_namespace(
    server: tuple[AnyCri, CriClient],
) -> None:
    handler, client = server
    await client.discard_task("c")
    assert list(handler.requests) == ["Kill", "Wait", "Delete"]
    killed = tasks.KillRequest.FromString(handler.requests["Kill"])
    assert (killed.container_id, killed.signal, killed.all) == ("c", 9, True)
    assert tasks.WaitRequest.FromString(handler.requests["Wait"]).container_id == "c"
    assert tasks.DeleteTaskRequest.FromString(handler.requests["Delete"]).container_id == "c"
    assert {handler.headers[name]["containerd-namespace"] for name in handler.requests} == {"k8s.io"}


async def test_an_ended_task_is_deleted_and_a_missing_one_reported(
    server: tuple[AnyCri, CriClient],
) -> None:
    handler, client = server
    handler.refusals["Kill"] = grpc.StatusCode.NOT_FOUND
    await client.discard_task("c")
    assert list(handler.requests) == ["Kill", "Wait", "Delete"]
    handler.refusals["Wait"] = grpc.StatusCode.NOT_FOUND
    with pytest.raises(NotFound):
        await client.discard_task("c")
    handler.refusals["Kill"] = grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(Unimplemented):
        await client.discard_task("c")


async def test_list_larger_than_grpcs_default_limit_is_received(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    containers = [cri.Container(id=str(number), annotations={"note": "x" * 1000}) for number in range(8000)]
    handler.answers["ListContainers"] = cri.ListContainersResponse(containers=containers).SerializeToString()
    assert len(handler.answers["ListContainers"]) > 4 * 1024 * 1024
    assert len(await client.list_containers()) == 8000


async def test_absent_network_status_is_distinguished_from_one_without_address(
    server: tuple[AnyCri, CriClient],
) -> None:
    handler, client = server
    status = cri.PodSandboxStatus(id="s")
    handler.answers["PodSandboxStatus"] = cri.PodSandboxStatusResponse(status=status).SerializeToString()
    assert (await client.pod_sandbox_status("s")).ip is None
    status.network.SetInParent()
    handler.answers["PodSandboxStatus"] = cri.PodSandboxStatusResponse(status=status).SerializeToString()
    assert (await client.pod_sandbox_status("s")).ip == ""
    status.network.ip = "10.1.2.3"
    status.network.additional_ips.add(ip="fd00::3")
    handler.answers["PodSandboxStatus"] = cri.PodSandboxStatusResponse(status=status).SerializeToString()
    both = await client.pod_sandbox_status("s")
    assert (both.ip, both.additional_ips) == ("10.1.2.3", ("fd00::3",))


async def test_runtime_without_readiness_conditions_is_not_ready(server: tuple[AnyCri, CriClient]) -> None:
    _, client = server
    status = await client.status()
    assert (status.runtime_ready, status.network_ready) == (False, False)
    assert status.network_message == "the runtime reports no condition NetworkReady"


async def test_unready_runtime_says_why(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    conditions = [
        cri.RuntimeCondition(type="RuntimeReady", status=True),
        cri.RuntimeCondition(type="NetworkReady", reason="NetworkPluginNotReady", message="cni plugin not initialized"),
    ]
    answer = cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions))
    handler.answers["Status"] = answer.SerializeToString()
    status = await client.status()
    assert (status.runtime_ready, status.network_ready) == (True, False)
    assert status.network_message == "NetworkPluginNotReady: cni plugin not initialized"


@pytest.mark.parametrize(
    ("config", "driver"),
    [
        (
            '{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}',
            "systemd",
        ),
        ('{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":null}}}}', "cgroupfs"),
        ('{"containerd":{"defaultRuntimeName":"r","runtimes":{"r":{"options":{}}}},"systemdCgroup":true}', "systemd"),
        ('{"containerd":{"defaultRuntimeName":"gone","runtimes":{}}}', "default"),
        ("not JSON", "default"),
        ("null", "default"),
    ],
)
async def test_cgroup_driver_is_read_from_the_config_if_the_runtime_does_not_report_it(
    server: tuple[AnyCri, CriClient], config: str, driver: str
) -> None:
    handler, client = server
    handler.answers["Status"] = cri.StatusResponse(info={"config": config}).SerializeToString()
    for default in ("systemd", "cgroupfs"):
        assert await client.runtime_config(default=default) == (default if driver == "default" else driver)


async def test_cgroup_driver_is_the_one_that_runtime_config_reports(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    answer = cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.SYSTEMD))
    handler.answers["RuntimeConfig"] = answer.SerializeToString()
    assert await client.runtime_config() == "systemd"


async def test_a_runtime_without_runtime_config_is_told_under_the_kubelets_name(
    server: tuple[AnyCri, CriClient], recorded: Recorded
) -> None:
    handler, client = server
    await client.runtime_config()
    assert ("kubelet_cri_losing_support", "1.37.0") not in recorded.counts()
    handler.refusals["RuntimeConfig"] = grpc.StatusCode.UNIMPLEMENTED
    await client.runtime_config()
    assert recorded.counts()["kubelet_cri_losing_support", "1.37.0"] == 1


async def test_the_addresses_of_pods_reach_the_runtime(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    await client.update_runtime_config(pod_cidr="10.1.0.0/24,fd00::/64")
    request = cri.UpdateRuntimeConfigRequest.FromString(handler.requests["UpdateRuntimeConfig"])
    assert request.runtime_config.network_config.pod_cidr == "10.1.0.0/24,fd00::/64"


@contextlib.asynccontextmanager
async def silent_socket() -> AsyncIterator[str]:
    """A socket that accepts connections and never answers."""
    with tempfile.TemporaryDirectory(prefix="cri-") as directory:

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(4096):
                pass
            writer.close()

        server = await asyncio.start_unix_server(hold, f"{directory}/cri.sock")
        try:
            yield f"unix://{directory}/cri.sock"
        finally:
            server.close()


async def test_call_to_a_hung_runtime_fails_as_a_transport_fault_at_its_deadline() -> None:
    async with silent_socket() as endpoint, CriClient(endpoint, timeout_seconds=0.2) as client:
        with pytest.raises(DeadlineExceeded) as caught:
            await client.version()
    assert isinstance(caught.value, TransportFault)
    assert caught.value.operation == "version"


async def test_call_to_a_missing_runtime_fails_as_unavailable(tmp_path: Path) -> None:
    async with CriClient(str(tmp_path / "none.sock")) as client:
        with pytest.raises(Unavailable) as caught:
            await client.version()
    assert caught.value.code == "UNAVAILABLE"


class Recorded:
    """Spans and metrics of this test alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans = InMemorySpanExporter()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.spans))
        monkeypatch.setattr(telemetry, "_TRACER", traces.get_tracer("test"))
        self._metrics = InMemoryMetricReader()
        meter = MeterProvider(metric_readers=[self._metrics]).get_meter("test")
        for attribute in ("_OPERATIONS", "_ERRORS", "_SANDBOX_ERRORS"):
            name = getattr(telemetry, attribute)._name
            monkeypatch.setattr(telemetry, attribute, meter.create_counter(name))
        monkeypatch.setattr(telemetry, "_LOSING_SUPPORT", meter.create_gauge("kubelet_cri_losing_support"))
        for attribute in ("_DURATION", "_SANDBOX_DURATION"):
            name = getattr(telemetry, attribute)._name
            monkeypatch.setattr(telemetry, attribute, meter.create_histogram(name))

    def counts(self) -> dict[tuple[str, str], int]:
        """By metric and label, the sum of additions or the count of observations."""
        data = self._metrics.get_metrics_data()
        found: dict[tuple[str, str], int] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        (label,) = (point.attributes or {}).values()
                        number = point.value if isinstance(point, NumberDataPoint) else point.count
                        found[metric.name, str(label)] = int(number)
        return found


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(monkeypatch)


async def test_each_call_is_counted_and_timed_with_the_kubelets_metric_names(
    server: tuple[AnyCri, CriClient], recorded: Recorded
) -> None:
    _, client = server
    await client.run_pod_sandbox(cri.PodSandboxConfig(), runtime_handler="runc")
    await client.container_status("c")
    await client.container_status("c")
    with pytest.raises(CriError):
        await client.start_container("c")
    assert recorded.counts() == {
        ("kubelet_runtime_operations_total", "run_podsandbox"): 1,
        ("kubelet_runtime_operations_total", "container_status"): 2,
        ("kubelet_runtime_operations_total", "start_container"): 1,
        ("kubelet_runtime_operations_errors_total", "start_container"): 1,
        ("kubelet_runtime_operations_duration_seconds", "run_podsandbox"): 1,
        ("kubelet_runtime_operations_duration_seconds", "container_status"): 2,
        ("kubelet_runtime_operations_duration_seconds", "start_container"): 1,
        ("kubelet_run_podsandbox_duration_seconds", "runc"): 1,
    }


async def test_span_names_call_and_container_and_shows_no_environment(
    server: tuple[AnyCri, CriClient], recorded: Recorded
) -> None:
    _, client = server
    pod = OwnedPod(client, cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", uid="u1", namespace="ns")))
    config = pod.container("main", ("serve", "--token=hunter2"), restart=4, env=(("PASSWORD", "hunter2"),))
    await client.create_container("s1", config, pod.sandbox)
    await client.exec_sync("c1", ("login", "hunter2"), timeout_seconds=1)

    create, execute = recorded.spans.get_finished_spans()
    assert (create.name, create.kind) == ("cri.create_container", SpanKind.CLIENT)
    assert dict(create.attributes or {}) == {
        "rpc.system": "grpc",
        "rpc.service": "runtime.v1.RuntimeService",
        "rpc.method": "CreateContainer",
        "k8s.namespace.name": "ns",
        "k8s.pod.name": "web",
        "k8s.pod.uid": "u1",
        "syncpod.sandbox.id": "s1",
        "k8s.container.name": "main",
        "k8s.container.restart_count": 4,
        "container.image.name": "docker.io/library/busybox:1",
    }
    assert execute.name == "cri.exec_sync"
    assert "hunter2" not in create.to_json() + execute.to_json()


async def test_span_of_a_failed_call_says_what_failed(server: tuple[AnyCri, CriClient], recorded: Recorded) -> None:
    _, client = server
    with pytest.raises(CriError):
        await client.start_container("c")
    (span,) = recorded.spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "start_container: cannot start"
    assert (span.attributes or {})["error.type"] == "RuntimeFailure"


async def test_cancelled_call_is_counted_as_failed(recorded: Recorded) -> None:
    async with silent_socket() as endpoint, CriClient(endpoint) as client:
        call = asyncio.create_task(client.version())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert recorded.counts()["kubelet_runtime_operations_errors_total", "version"] == 1


# --- removals ---------------------------------------------------------------------------------------------------------


def without_record(container_id: str) -> str:
    """What containerd 1.6.20 answers about a container whose record somebody has removed."""
    return f'get container info: container "{container_id}" in namespace "k8s.io": not found'


@pytest.mark.parametrize(
    ("call", "name", "words"),
    [
        (lambda client: client.remove_container("c"), "RemoveContainer", without_record("c")),
        (lambda client: client.stop_container("c", timeout_seconds=1), "StopContainer", without_record("c")),
        (
            lambda client: client.remove_pod_sandbox("s"),
            "RemovePodSandbox",
            f'failed to remove container "c": {without_record("c")}',
        ),
    ],
    ids=["container", "stop", "sandbox"],
)
async def test_a_container_that_containerd_has_no_record_of_gets_one_and_is_removed(
    server: tuple[AnyCri, CriClient], call: Callable[[CriClient], Awaitable[object]], name: str, words: str
) -> None:
    handler, client = server
    handler.refusals[name], handler.words[name] = grpc.StatusCode.NOT_FOUND, words
    handler.mends["Create"] = name
    await call(client)
    assert list(handler.requests) == [name, "Create"]
    assert handler.headers["Create"]["containerd-namespace"] == "k8s.io"
    made = containerd_records.CreateRecordRequest.FromString(handler.requests["Create"]).container
    assert (made.id, made.runtime.name, bool(made.spec.type_url)) == ("c", "io.containerd.runc.v2", True)


async def test_a_record_that_does_not_help_is_made_once(server: tuple[AnyCri, CriClient]) -> None:
    handler, client = server
    handler.refusals["RemoveContainer"] = grpc.StatusCode.NOT_FOUND
    handler.words["RemoveContainer"] = without_record("c")
    for refusal in (None, grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.UNIMPLEMENTED):
        if refusal is not None:
            handler.refusals["Create"] = refusal
        with pytest.raises(RecordLost) as lost:
            await client.remove_container("c")
        assert lost.value.container_id == "c"


async def test_a_removal_answered_with_not_found_has_succeeded_if_the_thing_is_not_listed(
    server: tuple[AnyCri, CriClient],
) -> None:
    handler, client = server
    handler.refusals |= dict.fromkeys(("RemoveContainer", "RemovePodSandbox"), grpc.StatusCode.NOT_FOUND)
    await client.remove_container("c")
    await client.remove_pod_sandbox("s")
    listed = cri.ListContainersResponse(containers=[cri.Container(id="c")])
    handler.answers["ListContainers"] = listed.SerializeToString()
    sandboxes = cri.ListPodSandboxResponse(items=[cri.PodSandbox(id="s")])
    handler.answers["ListPodSandbox"] = sandboxes.SerializeToString()
    with pytest.raises(NotFound):
        await client.remove_container("c")
    with pytest.raises(NotFound):
        await client.remove_pod_sandbox("s")
