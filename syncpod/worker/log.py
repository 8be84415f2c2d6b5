"""The worker's log on stderr. Filters hide Secrets, and reduce an outage of the server or collector to a few lines."""

from __future__ import annotations

import logging

from syncpod.agent.server_outage import ServerOutage
from syncpod.collector_outage import CollectorLog
from syncpod.kernel.process_log import PrintableFormatter, SentencesInLog
from syncpod.temporal.foreign_tasks import ForeignTasks
from syncpod.temporal.hiding import HiddenInLog
from syncpod.temporal.json_logs import JsonFormatter

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
