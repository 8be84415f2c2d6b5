from __future__ import annotations

import subprocess
import sys
import urllib.request
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client.parser import text_string_to_metric_families
from temporalio.client import Client, WorkflowHandle

from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.settings.values import SettingsInvalid
from syncpod.telemetry import TelemetryRequest, requested
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until, until_asked
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX
from tests.runtimes.ports import free_port
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.collector import Collector, attributes
from tests.worker.node_process import ROOT, NodeProcess

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SECRET = "hunter2-which-nobody-may-see"


@pytest.mark.parametrize(
    ("environment", "wish"),
    [
        pytest.param({}, TelemetryRequest(), id="nothing asked for"),
        pytest.param({ENDPOINT: "http://c:4318"}, TelemetryRequest("otlp", "otlp"), id="an endpoint"),
        pytest.param(
            {ENDPOINT: "http://c:4317"}, TelemetryRequest("otlp", "otlp", "grpc", "grpc"), id="gRPC by its port"
        ),
        pytest.param(
            {ENDPOINT: "c:4317"}, TelemetryRequest("otlp", "otlp", "grpc", "grpc"), id="an endpoint without a scheme"
        ),
        pytest.param(
            {ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            TelemetryRequest("otlp", "otlp"),
            id="a protocol that is said",
        ),
        pytest.param(
            {ENDPOINT: "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            TelemetryRequest("otlp", "otlp", "grpc"),
            id="a protocol for one signal",
        ),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"},
            TelemetryRequest("otlp"),
            id="one signal's endpoint",
        ),
        pytest.param(
            {ENDPOINT: "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"},
            TelemetryRequest("otlp", "otlp", "grpc"),
            id="one signal's endpoint beside that of all",
        ),
        pytest.param({"OTEL_TRACES_EXPORTER": "console"}, TelemetryRequest("console"), id="the console"),
        pytest.param({"OTEL_METRICS_EXPORTER": "otlp"}, TelemetryRequest(metrics="otlp"), id="an exporter"),
        pytest.param(
            {ENDPOINT: "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, TelemetryRequest("otlp"), id="none of one"
        ),
        pytest.param({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "true"}, TelemetryRequest(), id="disabled"),
    ],
)
def test_exporters_are_selected_by_the_environment(environment: dict[str, str], wish: TelemetryRequest) -> None:
    assert requested(environment) == wish


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin: must be otlp, console or none"),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/json: must be grpc or http/protobuf",
        ),
        ({ENDPOINT: "http://c:4318x"}, "OTEL_EXPORTER_OTLP_ENDPOINT: the port must be a number of at most 65535"),
    ],
)
def test_an_unsupported_exporter_protocol_or_port_is_refused_by_name(
    environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingsInvalid, match=sentence):
        requested(environment)


def test_a_worker_imports_neither_the_sdk_without_telemetry_settings_nor_cryptography() -> None:
    """Both take memory of every node: the keys of a fleet and of signed commands are rarely there."""
    program = """
import sys
import worker
from syncpod import telemetry
telemetry.configure({}, service="syncpod-worker").flush()
unwanted = ("opentelemetry.sdk", "opentelemetry.exporter", "cryptography")
print([name for name in sys.modules if name.startswith(unwanted)])
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


async def test_a_pod_start_has_one_trace_per_sync_with_the_runtime_calls_and_no_secret(
    containerd: Containerd, temporal_server: DevServer, tmp_path: Path
) -> None:
    node, name = f"n-{uuid.uuid4()}", f"p-{uuid.uuid4()}"
    client = await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    address = f"127.0.0.1:{free_port()}"
    with (
        Collector() as collector,
        NodeProcess(
            tmp_path,
            *("--metrics-address", address),
            runtime=containerd.endpoint,
            temporal=temporal_server.address,
            node=node,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test",
        ) as worker,
    ):
        await worker.ready()
        handle = await _start(client, node, name)
        _assert_scraped(address, name)
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        await handle.result()
        assert await worker.stop() == 0  # which exports what is left

    _assert_one_trace_per_sync(collector, name)
    assert not [span for span in collector.spans if SECRET in str(span)]
    assert collector.metrics >= {
        "kubelet_started_pods_total",
        "kubelet_started_containers_total",
        "kubelet_pleg_relist_duration_seconds",
        "kubelet_pleg_relist_interval_seconds",
        "kubelet_pleg_last_seen_seconds",
        "kubelet_pod_in_progress_resizes",
        "kubelet_runtime_operations_total",
        "kubelet_runtime_operations_duration_seconds",
        "kubelet_run_podsandbox_duration_seconds",
    }
    for resource in collector.resources:
        assert resource["service.name"] == "syncpod-worker"
        assert resource["service.instance.id"].startswith(f"{node}/")
        assert resource["deployment.environment"] == "test"


def _assert_scraped(address: str, pod: str) -> None:
    """Assert that the node's own counts and the pod's series are served, and no secret."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    started = (each for each in samples if each.name.startswith("kubelet_started_"))
    counted = {each.name: each.value for each in started if each.value}  # the others begin at zero
    assert counted == {"kubelet_started_pods_total": 1, "kubelet_started_containers_total": 1}
    running = [sample for sample in samples if sample.name == "kube_pod_status_phase" and sample.value]
    assert [(sample.labels["pod"], sample.labels["phase"]) for sample in running] == [(pod, "Running")]
    assert SECRET not in text


async def _start(client: Client, node: str, name: str) -> WorkflowHandle[Any, Any]:
    """Start a pod's workflow, and wait until the pod is Running."""
    handle = await client.start_workflow(
        "PodWorkflow",
        {"pod": _pod(name)},
        id=pod_workflow_id("default", name),
        task_queue=node_task_queue(node),
        task_timeout=timedelta(seconds=3),
    )

    async def running() -> bool:
        pod: dict[str, Any] = await handle.query("pod")
        return bool(pod["status"].get("phase") == "Running")

    await until_asked(running)
    return handle


def _assert_one_trace_per_sync(collector: Collector, name: str) -> None:
    (create,) = collector.named("create_sandbox")
    (start,) = collector.named("start_container")
    assert attributes(start)["k8s.pod.name"] == name
    assert attributes(start)["k8s.container.name"] == "main"
    for step in (create, start):
        (sync,) = _parent(collector, step)
        assert (sync.name, sync.parent_span_id, sync.trace_id) == ("sync_pod", b"", step.trace_id)
        assert sync.start_time_unix_nano <= step.start_time_unix_nano
        assert step.end_time_unix_nano <= sync.end_time_unix_nano
    assert create.trace_id == start.trace_id
    (run,) = collector.named("cri.run_podsandbox")
    assert _parent(collector, run) == [create]
    traced = [span for span in collector.spans if span.trace_id == create.trace_id]
    (sync,) = [span for span in traced if span.name == "sync_pod"]
    assert [attributes(span).get("syncpod.step") for span in traced if span.name == "decide"] == [
        "create_sandbox",
        None,
    ]
    assert start.start_time_unix_nano < create.end_time_unix_nano, "both have begun together"
    assert attributes(sync)["syncpod.phase"] == "Running"
    assert [span for span in traced if span.end_time_unix_nano > sync.end_time_unix_nano] == [], "nothing hangs on"
    (deletion,) = [span for span in collector.named("sync_pod") if "delete_pod" in attributes(span)["syncpod.triggers"]]
    assert deletion.trace_id != sync.trace_id
    assert not [span for span in traced if span.status.code == Status.STATUS_CODE_ERROR]
    relists = {span.span_id for span in collector.named("relist")}
    assert {span.parent_span_id for span in collector.named("cri.list_podsandbox")} & relists


async def test_a_worker_serves_and_ends_without_its_collector(
    containerd: Containerd, temporal_server: DevServer, tmp_path: Path
) -> None:
    with NodeProcess(
        tmp_path,
        runtime=containerd.endpoint,
        temporal=temporal_server.address,
        node=f"n-{uuid.uuid4()}",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        OTEL_EXPORTER_OTLP_TIMEOUT="2.5",
        OTEL_BSP_SCHEDULE_DELAY="100",
    ) as worker:
        await worker.ready()
        await until(lambda: "does not take spans: Connection refused; " in worker.log.read_text())
        assert await worker.stop() == 0
        said = worker.log.read_text()
    assert said.count("does not take spans") == 1
    assert "opentelemetry.exporter" not in said


def _parent(collector: Collector, span: Span) -> list[Span]:
    return [other for other in collector.spans if other.span_id == span.parent_span_id]


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sleep", "1000"],
        "env": [{"name": "PASSWORD", "value": SECRET}],
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"hostNetwork": True, "containers": [container]},
    }
