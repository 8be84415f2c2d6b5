"""Checks of probes, lifecycle hooks and their handlers."""

from collections.abc import Iterator

from syncpod.pod.probes import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax

_NAMED_SIGNALS = """
    ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS
    TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ
"""
_SIGNALS = frozenset(
    (
        *(f"SIG{name}" for name in _NAMED_SIGNALS.split()),
        *(f"SIGRTMIN+{number}" for number in range(1, 16)),
        *(f"SIGRTMAX-{number}" for number in range(1, 15)),
    )
)
"""The signals of core/v1 on Linux."""
_SIGNALS_OF_WINDOWS = frozenset(("SIGKILL", "SIGTERM"))

_Handler = ExecAction | HTTPGetAction | TCPSocketAction | GRPCAction | SleepAction


def check_probe(probe: Probe | None, path: str, *, once_is_success: bool) -> Iterator[Problem]:
    """Check a probe, if there is one; successThreshold must be 1 for liveness and startup."""
    if probe is None:
        return
    actions = {"exec": probe.exec, "httpGet": probe.http_get, "tcpSocket": probe.tcp_socket, "grpc": probe.grpc}
    yield from _check_actions({name: action for name, action in actions.items() if action is not None}, path, None)
    for name, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if value is not None and value < 0:
            yield Problem(f"{path}.{name}", "must not be negative")
    if once_is_success and probe.success_threshold not in (None, 0, 1):
        yield Problem(f"{path}.successThreshold", "must be 1")
    if probe.termination_grace_period_seconds is not None:
        here = f"{path}.terminationGracePeriodSeconds"
        if not once_is_success:
            yield Problem(here, "must not be set for a readiness probe")
        elif probe.termination_grace_period_seconds <= 0:
            yield Problem(here, "must be greater than 0")


def check_lifecycle(
    lifecycle: Lifecycle | None, path: str, *, grace_seconds: int, os_name: str | None
) -> Iterator[Problem]:
    """Check the hooks of a container, if there are any."""
    if lifecycle is None:
        return
    for name, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            yield from _check_actions(_handler_actions(handler), f"{path}.{name}", grace_seconds)
    if lifecycle.stop_signal is not None:
        if os_name is None:
            yield Problem(f"{path}.stopSignal", "may be set only with spec.os.name")
        elif os_name == "windows" and lifecycle.stop_signal not in _SIGNALS_OF_WINDOWS:
            yield Problem(f"{path}.stopSignal", "must be SIGKILL or SIGTERM with os.name: windows")
        elif lifecycle.stop_signal not in _SIGNALS:
            yield Problem(f"{path}.stopSignal", "must be a signal such as SIGTERM or SIGRTMIN+1")


def _handler_actions(handler: LifecycleHandler) -> dict[str, _Handler]:
    actions: dict[str, _Handler | None] = {
        "exec": handler.exec, "httpGet": handler.http_get, "tcpSocket": handler.tcp_socket, "sleep": handler.sleep,
    }  # fmt: skip
    return {name: action for name, action in actions.items() if action is not None}


def _check_actions(actions: dict[str, _Handler], path: str, grace_seconds: int | None) -> Iterator[Problem]:
    if len(actions) != 1:
        yield Problem(path, "required: one handler" if not actions else f"has {len(actions)} handlers, not one")
    for name, action in actions.items():
        here = f"{path}.{name}"
        match action:
            case ExecAction(command=()):
                yield Problem(f"{here}.command", "required")
            case HTTPGetAction(port=port) | TCPSocketAction(port=port) | GRPCAction(port=port):
                wrong = syntax.port_number(port) if isinstance(port, int) else syntax.port_name(port)
                if wrong:
                    yield Problem(f"{here}.port", wrong)
                if isinstance(action, HTTPGetAction):
                    yield from _check_headers(action.http_headers, f"{here}.httpHeaders")
            case SleepAction(seconds=seconds) if seconds < 0 or (grace_seconds is not None and seconds > grace_seconds):
                yield Problem(f"{here}.seconds", "must be between 0 and terminationGracePeriodSeconds")


def _check_headers(headers: tuple[HTTPHeader, ...], path: str) -> Iterator[Problem]:
    for index, header in enumerate(headers):
        if wrong := syntax.header_name(header.name):
            yield Problem(f"{path}[{index}].name", wrong)
