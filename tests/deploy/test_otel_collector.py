"""A real OpenTelemetry collector accepts a worker's exports, with the settings that docker-compose.yml mounts.

The tests need the collector's program, built from tests/deploy/collector-manifest.yaml, in a variable.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.runtimes.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "deploy" / "otel-collector.yml"
VARIABLE = "SYNCPOD_OTEL_COLLECTOR"
PATIENCE = 60.0
EXPORTS = """
import os
from opentelemetry import metrics, trace
from syncpod.telemetry import configure
telemetry = configure(os.environ, service="syncpod-worker", instance="n1")
with trace.get_tracer("test").start_as_current_span("decide"):
    metrics.get_meter("test").create_counter("syncpod_step_attempts").add(1)
telemetry.flush()
"""
"""Exports telemetry like a worker, in a process of its own, since providers are set once per process."""


@pytest.fixture
def program() -> Path:
    """The collector."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no OpenTelemetry collector")
    return Path(named)


@contextmanager
def collector(program: Path, log: Path, ports: dict[str, int]) -> Iterator[None]:
    """Run the collector with the mounted settings, but on these loopback ports, for the `with` block."""
    path = "receivers::otlp::protocols::{}::endpoint=127.0.0.1:{}"
    at = [f"--set={path.format(protocol, port)}" for protocol, port in ports.items()]
    with log.open("wb") as said:
        process = subprocess.Popen([program, f"--config={SETTINGS}", *at], stdout=said, stderr=said)
    try:
        until(log, "Everything is ready")
        yield
    finally:
        process.terminate()
        process.wait()


def until(log: Path, pattern: str) -> str:
    """Wait until the log matches a pattern, and return the match."""
    deadline = time.monotonic() + PATIENCE
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found.group()


def test_the_collector_to_build_is_of_the_version_of_the_compose_files_image() -> None:
    built = yaml.safe_load((Path(__file__).parent / "collector-manifest.yaml").read_text())
    image = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["otel-collector"]["image"]
    assert image.startswith(f"otel/opentelemetry-collector-contrib:{built['dist']['version']}@")
    parts = {each["gomod"] for kind in ("receivers", "processors", "exporters") for each in built[kind]}
    assert {each.partition(" v")[2] for each in parts} == {built["dist"]["version"]}


@pytest.mark.parametrize(("protocol", "of_worker"), [("http", "http/protobuf"), ("grpc", "grpc")])
def test_spans_and_metrics_of_a_worker_arrive(program: Path, tmp_path: Path, protocol: str, of_worker: str) -> None:
    named = yaml.safe_load(SETTINGS.read_text())["receivers"]["otlp"]["protocols"]
    ports, log = {each: free_port() for each in named}, tmp_path / "log"
    environ = {
        "PATH": os.environ["PATH"],
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{ports[protocol]}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": of_worker,
    }
    with collector(program, log, ports):
        subprocess.run([sys.executable, "-c", EXPORTS], env=environ, cwd=ROOT, check=True, timeout=PATIENCE)
        until(log, r"\tTraces\t.*\"spans\": 1\}")
        until(log, r"\tMetrics\t.*\"metrics\": 1, \"data points\": 1\}")
