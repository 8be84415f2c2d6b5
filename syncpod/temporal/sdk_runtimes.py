"""The SDK's runtimes: in a command, the SDK's core logs nothing; in a worker, it logs through Python.

In a command, core's coloured lines would mix with the command's output. In a worker, the filters and the format of the
process's log apply to core's lines too.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import cache
from typing import Final

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter


@cache
def quiet_runtime() -> Runtime:
    """Return this process's runtime whose core logs nothing. The errors that it would log are also raised by calls."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


HEARTBEAT: Final = timedelta(seconds=10)
"""How often a worker sends a heartbeat to the server. Commands treat a worker without one for 40 s as dead; the SDK's
own interval is 60 s."""


def logged_runtime() -> Runtime:
    """Return a worker's runtime; it sends the server a heartbeat of the worker every `HEARTBEAT`."""
    logging_config = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
    )
    return Runtime(telemetry=TelemetryConfig(logging=logging_config), worker_heartbeat_interval=HEARTBEAT)
