"""The SDK's runtimes: a command's core logs nothing, and a worker's logs through Python.

A command's would print its lines, in colours, among what the command prints. For a worker's, the filters and the format
of the process's log count.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import cache
from typing import Final

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter


@cache
def quiet_runtime() -> Runtime:
    """Return this process's runtime whose core logs nothing. What it would log, calls raise as well."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


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
