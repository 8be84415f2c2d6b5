"""The values of Secrets are hidden in everything that a process sends to Temporal and logs, and nowhere else in it."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from temporalio import workflow
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from syncpod import telemetry
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.messages.fleet import IntentTaken, PodReport
from syncpod.messages.node import NodeCondition, NodeView, PodWorkflowResult, StaticPods
from syncpod.messages.signals import Evict, Pleg, ProbeChanged
from syncpod.messages.steps import Allocation, Rejection, StepEvent, StepResult
from syncpod.redaction import of_process
from syncpod.temporal.failures import EncodedFailureConverter
from syncpod.temporal.hiding import HiddenInLog
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.signing import SignablePayloadConverter
from syncpod.worker.log import JsonFormatter
from tests.journal.records import event

TOKEN = "s3cret-token"
SAID = f"cannot use {TOKEN}"


@pytest.fixture(autouse=True)
def known() -> None:
    of_process.add([TOKEN])


def sent(value: Any) -> str:
    [payload] = DATA_CONVERTER.payload_converter.to_payloads([value])
    return payload.data.decode()


@pytest.mark.parametrize(
    "message",
    [
        StepResult(message=SAID),
        StepResult(events=(StepEvent(message=SAID),)),
        StepResult(rejection=Rejection(message=SAID)),
        StepResult(allocation=Allocation(message=SAID)),
        StepResult(stopped=(Exit(message=SAID),)),
        StepResult(status=ObservedPod(containers=(ObservedContainer(message=SAID),))),
        Pleg(status=ObservedPod(containers=(ObservedContainer(message=SAID),))),
        ProbeChanged(message=SAID),
        ProbeChanged(failure=SAID),
        Evict(message=SAID),
        NodeCondition(message=SAID),
        PodWorkflowResult(refused=SAID),
        StaticPods(problems=(SAID,)),
        NodeView(events=(event(message=SAID),)),
        PodReport(message=SAID),
        IntentTaken(refused={"default/web": SAID}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_value_is_hidden_in_each_text_of_others_that_is_sent(message: Any) -> None:
    assert TOKEN not in sent(message) and "cannot use ***" in sent(message)
    assert TOKEN in message.model_dump_json(), "in the process itself nothing has changed"


def test_names_and_ids_are_sent_as_they_are() -> None:
    """A value may be a word such as `web`; objects with that name must still be found."""
    observed = ObservedContainer(id=TOKEN, name=TOKEN, image=TOKEN, message=TOKEN)
    said = sent(
        StepResult(
            id=TOKEN, status=ObservedPod(uid=TOKEN, containers=(observed,)), events=(StepEvent(container=TOKEN),)
        )
    )
    assert said.count(TOKEN) == 6 and said.count('"message":"***"') == 1


def test_what_a_workflow_writes_depends_on_its_history_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "in_workflow", lambda: True)
    assert SAID in sent(StepResult(message=SAID))
    assert SAID in str(failure_of(ApplicationError(SAID)))


def failure_of(error: BaseException, converter: DataConverter = DATA_CONVERTER) -> Failure:
    failure = Failure()
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    return failure


def raised() -> ApplicationError:
    """An error as a step's, with a cause, a detail and a traceback that name the value."""
    try:
        try:
            raise ValueError(SAID)
        except ValueError as cause:
            raise ApplicationError(SAID, StepResult(message=SAID), type="InternalError") from cause
    except ApplicationError as error:
        return error


def test_a_value_is_hidden_in_a_failure_its_causes_and_its_details() -> None:
    failure = failure_of(raised())
    assert (failure.message, failure.cause.message) == ("cannot use ***", "cannot use ***")
    [detail] = failure.application_failure_info.details.payloads
    assert TOKEN not in str(failure) and b"cannot use ***" in detail.data


def test_a_value_is_hidden_in_a_failure_whose_text_is_encoded() -> None:
    converter = DataConverter(
        payload_converter_class=SignablePayloadConverter, failure_converter_class=EncodedFailureConverter
    )
    failure = failure_of(raised(), converter)
    assert failure.message == failure.cause.message == "Encoded failure"
    assert TOKEN not in str(failure) and b"cannot use ***" in failure.cause.encoded_attributes.data
    read = converter.failure_converter.from_failure(failure, converter.payload_converter)
    assert "cannot use ***" in str(read) and "cannot use ***" in str(read.__cause__)


@pytest.mark.parametrize("formatter", [logging.Formatter("%(message)s"), JsonFormatter()], ids=["text", "json"])
def test_a_value_is_hidden_in_a_line_of_the_log_and_its_traceback(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(out := io.StringIO())
    handler.setFormatter(formatter)
    handler.addFilter(HiddenInLog())
    logger = logging.Logger("here")
    logger.addHandler(handler)
    try:
        raise ValueError(SAID)
    except ValueError as error:
        logger.exception("%s has failed: %s", "web", error)
    assert TOKEN not in out.getvalue() and "web has failed: cannot use ***" in out.getvalue()
    assert "ValueError: cannot use ***" in out.getvalue() and "Traceback" in out.getvalue()


def test_a_value_is_hidden_in_the_error_of_a_span() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(telemetry._hiding(exporter)))
    with provider.get_tracer("here").start_as_current_span(
        "cri.start_container", attributes={"k8s.pod.name": TOKEN}
    ) as span:
        span.set_status(Status(StatusCode.ERROR, SAID))
    [told] = exporter.get_finished_spans()
    assert told.status.description == "cannot use ***"
    assert told.attributes == {"k8s.pod.name": TOKEN}, "a name is none of others' texts"
    assert (told.name, told.context, told.end_time) == ("cri.start_container", span.get_span_context(), told.end_time)
