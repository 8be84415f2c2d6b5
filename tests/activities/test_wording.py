"""Durations and gRPC errors as Go prints them in the kubelet's events."""

from __future__ import annotations

import pytest

from activities.verbs.pull_image import elapsed
from syncpod.cri.errors import CriError, go_error


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.0004, "0s"),
        (0.001, "1ms"),
        (0.5329, "532ms"),
        (1.0, "1s"),
        (1.2, "1.2s"),
        (12.345, "12.345s"),
        (60.0, "1m0s"),
        (123.5, "2m3.5s"),
        (3600.5, "1h0m0.5s"),
        (90061.001, "25h1m1.001s"),
    ],
)
def test_a_duration_is_truncated_to_milliseconds_and_formatted_as_by_go(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("code", "name"),
    [("UNKNOWN", "Unknown"), ("FAILED_PRECONDITION", "FailedPrecondition"), ("NOT_FOUND", "NotFound")],
)
def test_a_grpc_error_is_formatted_with_its_code_as_by_go(code: str, name: str) -> None:
    assert go_error(CriError("run_podsandbox", code, "no room")) == f"rpc error: code = {name} desc = no room"
