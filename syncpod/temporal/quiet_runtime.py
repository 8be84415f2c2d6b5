"""A runtime of the SDK whose core logs nothing: it would print its lines, in colours, among what a command prints."""

from __future__ import annotations

from functools import cache

from temporalio.runtime import Runtime, TelemetryConfig


@cache
def quiet_runtime() -> Runtime:
    """Return this process's runtime whose core logs nothing. What it would log, calls raise as well."""
    return Runtime(telemetry=TelemetryConfig(logging=None))
