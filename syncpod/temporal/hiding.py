"""Hides the values of Secrets in everything that this process sends to Temporal, and in its log.

That covers results and failures of the worker's steps, and signals and updates of the worker's agent. A workflow's own
payloads stay unchanged: they must depend only on the history, and each text in them came from a sender that has hidden
the values. A process that has read no Secret changes nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pydantic import TypeAdapter
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter

from syncpod.pod.wire import HIDE
from syncpod.redaction import of_process

_TRACEBACKS: Final = logging.Formatter()
_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_HIDING: Final = {HIDE: of_process.redact}


class HidingConverter(PydanticJSONPlainPayloadConverter):
    """Converts to pydantic's JSON, with the values of Secrets hidden in each `ForeignText` of a message."""

    def to_payload(self, value: Any) -> Payload | None:
        """Encode a value. Raises as pydantic does."""
        context = None if workflow.in_workflow() else _HIDING
        return Payload(metadata={"encoding": self.encoding.encode()}, data=_ANYTHING.dump_json(value, context=context))


def hide_in_failure(failure: Failure) -> None:
    """Hide the values in the texts of one failure, without its causes and its details, which are payloads."""
    if not workflow.in_workflow():
        failure.message = of_process.redact(failure.message)
        failure.stack_trace = of_process.redact(failure.stack_trace)


class HiddenInLog(logging.Filter):
    """Hides the values in each record of a process's log, its traceback included, and drops no record.

    Add it to the only handler of a process, after filters that read a record's arguments, since it changes the record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide the values in the record; always return True."""
        record.msg, record.args = of_process.redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _TRACEBACKS.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = of_process.redact(record.exc_text)
        if record.stack_info:
            record.stack_info = of_process.redact(record.stack_info)
        return True
