"""A worker's log lines about a collector that does not accept its spans or metrics."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import pytest

from syncpod.agent.server_outage import ServerOutage
from syncpod.collector_outage import CAUSES, LOGGER, REPEAT_SECONDS, CollectorLog, CollectorOutage
from tests.worker.collector import Collector
from tests.worker.node_process import ROOT

SDK = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
REFUSED = (
    "Transient error %s encountered while exporting %s batch, retrying in %.2fs.",
    (ConnectionRefusedError(111, "Connection refused"), "spans", 1.1),
)
GIVEN_UP = ("Failed to export %s batch due to timeout, max retries or shutdown.", ("spans",))
AWAY = (
    "WARNING the OpenTelemetry collector at c:4318 does not take spans: Connection refused; they are lost, and pods "
    "are not affected"
)

Line = tuple[str, tuple[object, ...]]


class Exported(Enum):
    """The result of an exporter of the SDK."""

    SUCCESS = 0
    FAILURE = 1


@dataclass
class Log:
    """A worker's log with a collector's outages, and a clock that a test sets."""

    now: float = 1000.0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outage = CollectorOutage("spans", "c:4318", lambda: self.now)

    def fail(self, *lines: Line) -> None:
        """Export a batch that is lost, for which the exporter logs these lines."""

        def export() -> Exported:
            for text, arguments in lines:
                SDK.warning(text, *arguments)
            return Exported.FAILURE

        assert self.outage.export(export, Exported.SUCCESS) is Exported.FAILURE

    def succeed(self) -> None:
        assert self.outage.export(lambda: Exported.SUCCESS, Exported.SUCCESS) is Exported.SUCCESS


@pytest.fixture
def log() -> Iterator[Log]:
    """A log whose handler has the worker's filters, in order."""
    kept, handler, root = Log(), logging.Handler(), logging.getLogger()
    handler.emit = lambda record: kept.said.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    handler.addFilter(CollectorLog(lambda: kept.now))
    handler.addFilter(ServerOutage(lambda: kept.now))
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    root.addHandler(handler)
    yield kept
    root.removeHandler(handler)
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)


def test_a_long_outage_is_logged_when_it_begins_every_ten_minutes_and_when_it_is_over(log: Log) -> None:
    log.succeed()
    for _ in range(300):
        log.fail(REFUSED, REFUSED, GIVEN_UP)
        log.now += 5
    log.succeed()
    log.succeed()
    assert log.said == [
        AWAY,
        *(
            f"WARNING the OpenTelemetry collector at c:4318 has not taken {batches} batches of spans in {seconds} s; "
            "the latest: Connection refused"
            for batches, seconds in ((121, 600), (241, 1200))
        ),
        "INFO the OpenTelemetry collector at c:4318 takes spans again, after 1500 s; 300 batches are lost",
    ]


def test_another_cause_has_a_line_of_its_own_but_not_each_of_many(log: Log) -> None:
    for number in range(20):
        log.fail(("Failed to export %s batch code: %s, reason: %s", ("spans", 400 + number, "No")))
    assert [line.rpartition(": ")[2] for line in log.said[1:]] == [f"{400 + number} No" for number in range(1, CAUSES)]
    assert ": 400 No; they are lost" in log.said[0]


def test_a_try_that_takes_all_the_time_is_the_cause(log: Log) -> None:
    log.fail(GIVEN_UP)
    assert "does not take spans: no success within the exporter's time limit; " in log.said[0]


def test_a_collector_that_comes_and_goes_does_not_fill_the_log_and_all_that_it_loses_is_counted(log: Log) -> None:
    for _ in range(100):
        log.fail(REFUSED, GIVEN_UP)
        log.succeed()
    assert log.said == [
        AWAY,
        "INFO the OpenTelemetry collector at c:4318 takes spans again, after 0 s; 1 batch is lost",
    ]
    log.now += REPEAT_SECONDS
    log.succeed()
    assert log.said[2:] == [
        "INFO the OpenTelemetry collector at c:4318 takes spans again, after 600 s; 99 batches are lost"
    ]


def test_what_the_collector_says_is_no_outage_of_the_temporal_server(log: Log) -> None:
    log.fail(("Failed to export %s batch code: %s, reason: %s", ("spans", 502, "transport error")))
    assert "does not take spans: 502 transport error; " in log.said[0]


def test_a_full_queue_is_logged_once_in_ten_minutes_and_other_lines_always(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = logging.getLogger("opentelemetry.sdk._shared_internal")
    monkeypatch.setattr(queue, "filters", [])  # the SDK's own one drops repetitions within a minute, by the real clock
    for _ in range(3):
        queue.warning("Queue full, dropping %s.", "Span")
        logging.getLogger("syncpod.worker").warning("Queue full, dropping %s.", "x")
    full = "WARNING spans are recorded faster than the OpenTelemetry collector takes them; some are lost"
    assert log.said == [full, *["WARNING Queue full, dropping x."] * 3]
    log.now += REPEAT_SECONDS
    queue.warning("Queue full, dropping %s.", "Span")
    assert log.said[-1] == full


PROGRAM = """
import sys
from opentelemetry import metrics, trace
from syncpod import telemetry
from syncpod.worker.log import log_to_stderr
log_to_stderr("INFO", is_json=False)
telemetry.configure(service="syncpod-worker")
metrics.get_meter("m").create_counter("counted").add(1)
for line in sys.stdin:
    with trace.get_tracer("t").start_as_current_span("s"):
        pass
    trace.get_tracer_provider().force_flush()
    metrics.get_meter_provider().force_flush()
    print("exported", flush=True)
"""
"""A program that exports once for each input line, and logs as a worker does."""


def exporting(endpoint: str, protocol: str) -> subprocess.Popen[str]:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2.5",  # a second try begins after at most 1.2 s: the first one's cause is logged
        "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
        "OTEL_BSP_SCHEDULE_DELAY": "3600000",
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environ,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def export(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    assert program.stdout.readline() == "exported\n"


def lines(program: subprocess.Popen[str]) -> list[str]:
    """End the program; return its log without the times."""
    _, logged = program.communicate()
    assert program.returncode == 0, logged
    return [line.split(" ", 2)[2] for line in logged.splitlines()]


def test_the_sdks_exporters_log_a_refused_connection_in_one_line_for_each_signal_and_one_when_it_is_over() -> None:
    with Collector() as collector:
        endpoint = collector.endpoint
    where = endpoint.removeprefix("http://")
    with exporting(endpoint.replace("//", "//me:secret@"), "http/protobuf") as program:
        export(program)
        with Collector(port=int(where.rpartition(":")[2])) as collector:
            export(program)
            assert collector.named("s")
            assert "counted" in collector.metrics
        logged = lines(program)
    lost = "they are lost, and pods are not affected"
    assert [line.replace(line.partition(" s; ")[0].rpartition(" ")[2] + " s", "N s") for line in logged[2:]] == [
        f"INFO {LOGGER}: the OpenTelemetry collector at {where} takes {what} again, after N s; 1 batch is lost"
        for what in ("spans", "metrics")
    ]
    assert logged[:2] == [
        f"WARNING {LOGGER}: the OpenTelemetry collector at {where} does not take {what}: Connection refused; {lost}"
        for what in ("spans", "metrics")
    ]


def test_the_grpc_exporters_log_the_cause_for_each_signal() -> None:
    with exporting("http://127.0.0.1:1", "grpc") as program:
        export(program)
        logged = lines(program)
    for line, what in zip(logged, ("spans", "metrics"), strict=True):
        assert line.startswith(f"WARNING {LOGGER}: the OpenTelemetry collector at 127.0.0.1:1 does not take {what}: ")
        assert "UNAVAILABLE" in line and "Connection refused" in line
