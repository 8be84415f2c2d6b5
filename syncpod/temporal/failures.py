"""Converts failures to and from histories. Only defects keep their stack traces."""

from __future__ import annotations

from typing import Final

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from syncpod.messages.signature import PURPOSE
from syncpod.messages.signed import RESULT
from syncpod.messages.steps import Fault
from syncpod.temporal.hiding import hide_in_failure
from syncpod.temporal.signing import REFUSED

_TYPES_OF_DEFECTS: Final = (Fault.INTERNAL_ERROR.value, Fault.FAILED_KILL_POD.value)
"""The error types of a step's defects. A step also uses them for the node's own troubles, in the category BENIGN."""


ENCODED: Final = "Encoded failure"
"""The message that the SDK leaves in a failure whose text is encoded."""


class FailureConverter(DefaultFailureConverter):
    """Writes failures with a stack trace only if they are defects; decodes every failure.

    The message is enough for a refusal of the runtime, an image that cannot be pulled, or an invalid update.

    A failure whose details cannot be decoded is decoded without them. Anybody can fail a step by hand (`temporal
    activity fail`), with any payload. If its decoding raised an error, the workflow task would fail for ever, and the
    pod would be stuck. Details whose signature was not accepted are left out too.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Write an exception into `failure`."""
        if _is_expected(exception):
            _forget_tracebacks(exception)
        super().to_failure(exception, payload_converter, failure)
        hide_in_failure(failure)

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """Return the failure as an exception."""
        try:
            if any(_is_refused(detail) for detail in failure.application_failure_info.details.payloads):
                raise ValueError("the details are not accepted")
            return super().from_failure(failure, payload_converter)
        except Exception:  # noqa: BLE001  # a converter may raise anything, and the failure stays in history
            bare = Failure()
            bare.CopyFrom(failure)
            if bare.HasField("application_failure_info"):
                bare.application_failure_info.ClearField("details")
            if bare.HasField("canceled_failure_info"):
                bare.canceled_failure_info.ClearField("details")
            if bare.HasField("timeout_failure_info"):
                bare.timeout_failure_info.ClearField("last_heartbeat_details")
            return super().from_failure(bare, payload_converter)


class EncodedFailureConverter(FailureConverter):
    """A `FailureConverter` for a node that encrypts: it also turns a failure's text into a payload, to be encrypted."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Write an exception into `failure`, and encode its text."""
        super().to_failure(exception, payload_converter, failure)
        said = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([said])[0])
        failure.message, failure.stack_trace = ENCODED, ""


def _is_refused(detail: Payload) -> bool:
    """Say whether a detail of a failure has no accepted signature, or was signed for another purpose."""
    said = detail.metadata
    return said.get("encoding") == REFUSED or said.get(PURPOSE, RESULT.encode()) != RESULT.encode()


def _is_expected(exception: BaseException) -> bool:
    """Say whether an exception is a message that was raised on purpose, and not a defect (`_TYPES_OF_DEFECTS`)."""
    if not isinstance(exception, ApplicationError):
        return False
    return exception.category == ApplicationErrorCategory.BENIGN or exception.type not in _TYPES_OF_DEFECTS


def _forget_tracebacks(exception: BaseException) -> None:
    """Drop the traceback of an exception and of its causes. The SDK has logged it before."""
    each: BaseException | None = exception
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
