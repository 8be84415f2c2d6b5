"""A failure that is written encoded has no stack trace in its encoded part, either, except for a defect.

Holds: A failure has a stack trace only if it is a defect.
"""

from __future__ import annotations

import json

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from syncpod.temporal.failures import EncodedFailureConverter
from syncpod.temporal.plugin import DATA_CONVERTER

BENIGN = ApplicationErrorCategory.BENIGN


@pytest.mark.parametrize(
    ("error", "has_trace"),
    [
        (ApplicationError("image not found", type="ErrImagePull", category=BENIGN), False),
        (ApplicationError("spec.containers: required", type="Invalid"), False),
        (ApplicationError("the kill takes too long", type="FailedKillPod", category=BENIGN), False),
        (ApplicationError("KeyError: 'x'", type="InternalError"), True),
        (KeyError("x"), True),
    ],
)
def test_an_encoded_failure_has_a_stack_trace_only_if_it_is_a_defect(error: Exception, *, has_trace: bool) -> None:
    failure = Failure()
    try:
        try:
            raise OSError("connection refused")
        except OSError as cause:
            raise error from cause
    except Exception as raised:  # noqa: BLE001  # as the SDK catches it
        EncodedFailureConverter().to_failure(raised, DATA_CONVERTER.payload_converter, failure)
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    for each in (failure, failure.cause):
        said = json.loads(each.encoded_attributes.data)
        assert said["message"]
        assert bool(said["stack_trace"]) is has_trace
