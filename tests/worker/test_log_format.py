"""The worker's log as JSON: each line is an object with its pod, step and trace."""

import json
import logging
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from temporalio.testing import ActivityEnvironment

import worker
from syncpod.settings.command_line import parse_arguments
from syncpod.worker.log import JsonFormatter


def line_of(record: logging.LogRecord) -> dict[str, object]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    said: dict[str, object] = json.loads(line)
    return said


def record(message: str, **more: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "syncpod.worker", "levelname": "INFO", "levelno": 20, "msg": message})
    made.__dict__.update(created=0.5, **more)
    return made


def test_a_line_outside_of_a_step_has_what_every_line_has() -> None:
    assert line_of(record("two\nlines, é")) == {
        "time": "1970-01-01T00:00:00.500000+00:00",
        "level": "info",
        "logger": "syncpod.worker",
        "message": "two\nlines, é",
    }


def test_a_traceback_is_part_of_the_line() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        said = line_of(record("it failed", exc_info=sys.exc_info()))
    assert str(said["error"]).splitlines()[-1] == "ValueError: why"


def test_a_steps_line_names_the_pod_the_step_and_the_trace() -> None:
    environment = ActivityEnvironment()
    environment.info = environment.default_info().__class__(
        **{**environment.default_info().__dict__, "workflow_id": "pod/shop/web", "activity_type": "kill_pod"}
    )

    def step() -> dict[str, object]:
        with TracerProvider().get_tracer("test").start_as_current_span("kill_pod") as span:
            said = line_of(record("stopping"))
        assert said["trace_id"] == f"{span.get_span_context().trace_id:032x}"
        assert said["span_id"] == f"{span.get_span_context().span_id:016x}"
        return said

    said = environment.run(step)
    assert (said["pod"], said["step"], said["try"]) == ("shop/web", "kill_pod", 1)


@pytest.mark.parametrize(
    ("flags", "environ", "is_json"),
    [
        ([], {}, False),
        ([], {"SYNCPOD_LOG_FORMAT": "json"}, True),
        (["--log-format", "json"], {}, True),
        (["--log-format", "text"], {"SYNCPOD_LOG_FORMAT": "json"}, False),
    ],
)
def test_the_flag_overrides_the_environment(flags: list[str], environ: dict[str, str], is_json: bool) -> None:
    assert parse_arguments(flags)[1](environ).json_log is is_json


def test_an_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SYNCPOD_LOG_FORMAT", "xml")
    assert worker.main([]) == 2
    assert capsys.readouterr().err == "syncpod worker: SYNCPOD_LOG_FORMAT='xml': must be text or json (--log-format)\n"
