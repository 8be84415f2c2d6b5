"""The worker's log on stderr, as text or as JSON.

Filters hide Secrets, and reduce an outage of the server or collector to a few lines.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from opentelemetry import trace
from temporalio import activity

from syncpod.agent.server_outage import ServerOutage
from syncpod.collector_outage import CollectorLog
from syncpod.kernel.process_log import PrintableFormatter, SentencesInLog
from syncpod.messages.identity import POD_PREFIX
from syncpod.temporal.foreign_tasks import ForeignTasks
from syncpod.temporal.hiding import HiddenInLog

outage = ServerOutage()
"""The filter that limits the log while the Temporal server is away. Call `outage.looked` after each check of it."""
_foreign_tasks = ForeignTasks("this node's")


def log_to_stderr(level: str, *, is_json: bool) -> None:
    """Log to stderr, as text or as JSON, from this level on."""
    handler = logging.StreamHandler()
    if is_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(CollectorLog())
    handler.addFilter(SentencesInLog())
    handler.addFilter(outage)
    handler.addFilter(_foreign_tasks)
    handler.addFilter(HiddenInLog())
    logging.basicConfig(level=level, handlers=[handler])
    for chatty in ("grpc", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object.

    ``time`` (RFC 3339, UTC), ``level``, ``logger`` and ``message`` are always present. Lines that a step logs also have
    ``pod`` (namespace/name), ``step`` and ``try``. Lines within a recorded span have ``trace_id`` and ``span_id``.
    ``error`` is the traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line break."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_step(),
            **_span(),
        }
        if record.exc_info:
            line["error"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _step() -> dict[str, str | int]:
    if not activity.in_activity():
        return {}
    info = activity.info()
    about: dict[str, str | int] = {"step": info.activity_type, "try": info.attempt}
    if (info.workflow_id or "").startswith(POD_PREFIX):
        about["pod"] = (info.workflow_id or "").removeprefix(POD_PREFIX)
    return about


def _span() -> dict[str, str]:
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
