"""A runtime of the SDK whose core logs through Python: so the filters and the format of the process's log count."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

HEARTBEAT: Final = timedelta(seconds=10)
"""How often a worker sends a heartbeat to the server. Commands take one that is silent for 40 s for dead; the SDK's own
interval is 60 s."""


def logged_runtime() -> Runtime:
    """Return a worker's runtime; it sends the server a heartbeat of the worker every `HEARTBEAT`."""
    logging_config = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
    )
    return Runtime(telemetry=TelemetryConfig(logging=logging_config), worker_heartbeat_interval=HEARTBEAT)
