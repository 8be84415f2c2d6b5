from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import activity
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.node import NODE_WORKFLOW
from syncpod.messages.steps import CreateSandbox, Fault, StepResult
from syncpod.temporal import plugin, sync_spans, tracing
from syncpod.temporal.plugin import DEFAULT_ADDRESS, NoServer, connect, connection_settings, syncpod_plugin
from tests.replay.record import HISTORIES, TODAY
from tests.runtimes.temporal import DevServer, temporal_program
from tests.worker.node_process import ROOT
from tests.worker.one_step import OneStep, OneStepOfANode
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner

NO_FILE = {"TEMPORAL_CONFIG_FILE": os.devnull}


# --- connecting -------------------------------------------------------------------------------------------------------


def test_without_configuration_it_connects_to_the_temporal_clis_default() -> None:
    settings = connection_settings(NO_FILE)
    assert (settings["target_host"], settings["namespace"]) == ("127.0.0.1:7233", "default")


def test_the_environment_overrides_the_config_file_and_a_profile_is_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        '[profile.default]\naddress = "file:7233"\nnamespace = "filed"\n'
        '[profile.lab]\naddress = "lab:7233"\nnamespace = "bench"\n'
    )
    environment = {"TEMPORAL_CONFIG_FILE": str(file)}
    assert connection_settings(environment)["target_host"] == "file:7233"
    empty = connection_settings({**NO_FILE, "TEMPORAL_NAMESPACE": "", "TEMPORAL_ADDRESS": ""})
    assert (empty["namespace"], empty["target_host"]) == ("default", DEFAULT_ADDRESS)
    over = connection_settings({**environment, "TEMPORAL_ADDRESS": "env:7233"})
    assert (over["target_host"], over["namespace"]) == ("env:7233", "filed")
    lab = connection_settings({**environment, "TEMPORAL_PROFILE": "lab"})
    assert (lab["target_host"], lab["namespace"]) == ("lab:7233", "bench")


def test_an_unreadable_config_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text("profile = [")
    with pytest.raises(NoServer, match="the Temporal connection settings cannot be read: "):
        connection_settings({"TEMPORAL_CONFIG_FILE": str(file)})


@pytest.mark.parametrize(
    ("address", "cause"),
    [("127.0.0.1:1", "connection refused"), ("no-such-host.invalid:7233", "the name cannot be resolved")],
)
async def test_a_missing_server_is_reported_in_one_sentence_with_the_remedy(address: str, cause: str) -> None:
    with pytest.raises(NoServer) as refused:
        await connect(settings=connection_settings({**NO_FILE, "TEMPORAL_ADDRESS": address}))
    assert str(refused.value) == (
        f"no Temporal server at {address} ({cause}): start one with `syncpod up`, or name one in TEMPORAL_ADDRESS"
    )


async def test_a_server_that_accepts_connections_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "ANSWER_TIMEOUT", timedelta(seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoServer) as refused:
            await connect(settings=connection_settings({**NO_FILE, "TEMPORAL_ADDRESS": address}))
    assert str(refused.value) == (
        f"no Temporal server at {address} (no answer in 1 s): "
        "start one with `syncpod up`, or name one in TEMPORAL_ADDRESS"
    )


def test_a_client_does_not_import_what_only_workers_need() -> None:
    program = (
        "import sys, syncpod.temporal.plugin; print('temporalio.worker' in sys.modules, 'opentelemetry' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


# --- what workflows and steps are given -------------------------------------------------------------------------------


class Heard:
    """Records the back-offs that workflows arm."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def arm_backoff(self, workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
        self.told.append((workflow_id, subject, restart, delay_seconds))


@activity.defn(name=StepName.CREATE_SANDBOX.value)
async def create_sandbox(request: CreateSandbox) -> StepResult:
    if request.attempt:
        raise ApplicationError("cni", type=Fault.NETWORK_NOT_READY.value, non_retryable=True)
    return StepResult(id="made")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The recorded spans, in a provider of the test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for module in (tracing, sync_spans):
        monkeypatch.setattr(module, "_tracer", provider.get_tracer("test"))
    return exporter


async def test_the_node_is_told_of_back_offs(temporal_server: DevServer) -> None:
    heard = Heard()
    given = syncpod_plugin(
        workflows=[OneStep], activities=[create_sandbox], runner=workflow_runner(), arm_backoff=heard.arm_backoff
    )
    client = await connect(settings=_settings(temporal_server))
    task_queue = f"node/{uuid.uuid4()}"
    async with Worker(client, task_queue=task_queue, plugins=[given]):
        for attempt in (0, 1):
            await client.execute_workflow(
                POD_WORKFLOW, attempt, id=f"one-step/{task_queue}/{attempt}", task_queue=task_queue
            )
    assert heard.told == [(f"one-step/{task_queue}/{attempt}", "main", 1, 10.0) for attempt in (0, 1)]


async def test_a_sync_and_its_step_share_a_trace_that_shows_a_fault(
    temporal_server: DevServer, spans: InMemorySpanExporter
) -> None:
    given = syncpod_plugin(workflows=[OneStep], activities=[create_sandbox], runner=workflow_runner())
    client = await connect(settings=_settings(temporal_server))
    task_queue = f"node/{uuid.uuid4()}"
    async with Worker(client, task_queue=task_queue, plugins=[given]):
        await client.execute_workflow(POD_WORKFLOW, 1, id=f"one-step/{task_queue}", task_queue=task_queue)

    made = spans.get_finished_spans()
    assert [span.name for span in made] == [
        "await_workflow_task",
        "decide",
        "await_step",
        "create_sandbox",
        "sync_pod",
    ]
    *parts, sync = made
    assert (sync.parent, dict(sync.attributes or {})) == (
        None,
        {"syncpod.triggers": ("start",), "syncpod.phase": "Pending"},
    )
    assert sync.context is not None
    for part in parts:
        assert part.parent is not None
        assert part.context is not None
        assert (part.parent.span_id, part.context.trace_id) == (sync.context.span_id, sync.context.trace_id)
    waited, decision, _, step = parts
    assert (waited.start_time, waited.end_time) == (sync.start_time, decision.start_time)
    assert dict(decision.attributes or {}) == {"syncpod.step": "create_sandbox"}
    assert step.attributes is not None
    assert step.attributes["error.type"] == "NetworkNotReady"
    assert step.attributes["syncpod.sandbox.attempt"] == 1


async def test_a_nodes_step_has_no_sync_span(temporal_server: DevServer, spans: InMemorySpanExporter) -> None:
    """Nobody would end the span: only a pod's workflow reports the end of a sync."""
    given = syncpod_plugin(workflows=[OneStepOfANode], activities=[create_sandbox], runner=workflow_runner())
    client = await connect(settings=_settings(temporal_server))
    task_queue = f"node/{uuid.uuid4()}"
    async with Worker(client, task_queue=task_queue, plugins=[given]):
        await client.execute_workflow(NODE_WORKFLOW, 0, id=f"one-step/{task_queue}", task_queue=task_queue)
    (step,) = spans.get_finished_spans()
    assert (step.name, step.parent) == ("create_sandbox", None)


async def test_replays_create_no_spans_and_arm_no_back_offs(spans: InMemorySpanExporter) -> None:
    heard = Heard()
    given = syncpod_plugin(workflows=[PodWorkflow], runner=workflow_runner(), arm_backoff=heard.arm_backoff)
    for recorded in ("brought_up", "crash_loop"):
        history = WorkflowHistory.from_json("recorded", (HISTORIES / TODAY / f"{recorded}.json").read_text())
        started = history.events[0].workflow_execution_started_event_attributes
        replayer = Replayer(workflows=[], plugins=[given])
        await replayer.replay_workflow(WorkflowHistory(started.workflow_id, history.events))
    assert spans.get_finished_spans() == ()
    assert heard.told == []


async def test_hand_written_json_payloads_are_decoded(temporal_server: DevServer) -> None:
    given = syncpod_plugin(workflows=[OneStep], activities=[create_sandbox], runner=workflow_runner())
    client = await connect(settings=_settings(temporal_server))
    task_queue = f"node/{uuid.uuid4()}"
    async with Worker(client, task_queue=task_queue, plugins=[given]):
        command = [
            str(temporal_program()),
            "workflow",
            "execute",
            "--address",
            temporal_server.address,
            "--type",
            POD_WORKFLOW,
        ]
        command += [
            "--workflow-id",
            f"typed/{task_queue}",
            "--task-queue",
            task_queue,
            "--input",
            "0",
            "--output",
            "json",
        ]
        typed = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await typed.communicate()
    assert typed.returncode == 0
    assert b'"made"' in output


def _settings(server: DevServer) -> Any:
    return connection_settings({**NO_FILE, "TEMPORAL_ADDRESS": server.address})


def test_all_clients_and_workers_share_one_data_converter() -> None:
    assert syncpod_plugin().data_converter is plugin.DATA_CONVERTER
