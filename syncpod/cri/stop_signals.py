"""Stop signals: core/v1's names and CRI's numbers, which are not the kernel's."""

from __future__ import annotations

from typing import cast

from protos.cri.v1.api_pb2 import Signal


def stop_signal_number(name: str | None) -> Signal:
    """Return CRI's number of ``SIGUSR1`` or ``SIGRTMIN+3``; without a name, that of the runtime's default.

    Mirrors kuberuntime_container.go, v1.36, getStopSignal. Raises ValueError for a name that core/v1 does not have.
    """
    if name is None:
        return Signal.SIGNAL_RUNTIME_DEFAULT
    return cast(Signal, Signal.Value(f"SIGNAL_{name.replace('+', 'PLUS').replace('-', 'MINUS')}"))


def stop_signal_name(number: int) -> str:
    """Return core/v1's name of a signal; "" for the default and for an unknown number."""
    if number == Signal.SIGNAL_RUNTIME_DEFAULT or number not in Signal.values():
        return ""
    return Signal.Name(Signal.ValueType(number)).removeprefix("SIGNAL_").replace("PLUS", "+").replace("MINUS", "-")
