"""Scripts of simulated pods: reads and validates their annotations. Pure; decides nothing.

``simulate.syncpod.dev/<container>`` scripts a container, ``simulate.syncpod.dev/pod`` the sandbox: a JSON object each.
The kubelet and the engine pass all annotations of a pod to its sandbox, so scripts are written in the pod's
``metadata.annotations``. Times are Go durations, kept here in nanoseconds. docs/simulated.md is the reference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeGuard, TypeVar

import grpc

from syncpod.go_durations import GoDurationTooLong, parse_go_duration

_T = TypeVar("_T")

PREFIX: Final = "simulate.syncpod.dev/"
POD: Final = "pod"
"""The name of a sandbox's script. A container with this name cannot have its own script."""

CONTAINER_CALLS: Final = (
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ContainerStatus",
    "UpdateContainerResources",
    "ReopenContainerLog",
    "ExecSync",
    "Exec",
    "Attach",
)
POD_CALLS: Final = (
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "PortForward",
    "PullImage",
    *CONTAINER_CALLS,
)
"""The calls that a sandbox's script may name: its own, and those of each of its containers."""

_SECOND: Final = 10**9
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|[kMGT]|[KMGT]i)?")
_FACTORS: Final = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGT", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGT", 1)},
}
_LONGEST: Final = 100 * 365 * 24 * 3600 * _SECOND
_CODES: Final = {code.name: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}


class ScriptInvalid(ValueError):
    """A script is invalid. The text names the annotation, the path in it, and a valid value."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A call is delayed before it has any effect."""

    duration: int | None
    """Nanoseconds after which the call proceeds; None if it waits until the client gives up."""
    times: int | None
    """The number of first calls that are delayed; None = all."""


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Calls fail at a certain rate, before they have any effect."""

    rate: float
    """0 = never, 1 = always."""
    times: int | None
    """The number of first calls that may fail; None = all."""
    code: grpc.StatusCode
    message: str
    """The error's text; empty = a default text."""


@dataclass(frozen=True, slots=True)
class CallScript:
    """The faults of calls, by the calls' CRI names."""

    hang: Mapping[str, Hang]
    failure_rates: Mapping[str, FailureRate]
    restart_runtime: Mapping[str, int]
    """The number of first calls that crash the runtime, which then restarts."""


@dataclass(frozen=True, slots=True)
class ExecScript:
    """The answer of every command that is run in the container."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    delay: int = 0
    """Nanoseconds until the answer."""


@dataclass(frozen=True, slots=True)
class ContainerScript:
    """The script of a container. Times are nanoseconds."""

    calls: CallScript
    start_delay: int = 0
    """The duration of StartContainer."""
    start_error: str = ""
    """The reason why every start fails; empty if starts succeed."""
    run_time: int | None = None
    """The time until the container ends by itself; None = it runs until it is stopped."""
    exit_codes: tuple[int | None, ...] = (0,)
    """Exit codes of the container's end by itself, by attempt; the last one is for all later attempts. None = no such
    end."""
    oom_killed: bool = False
    """Its end by itself is an OOM kill."""
    ignores_signals: bool = False
    """Only SIGKILL ends it."""
    stop_delay: int = 0
    """The time for which the container runs on after a signal that ends it."""
    stop_exit_code: int | None = None
    """Its exit code after a signal; None = the container does not handle signals, so the code is 128 + the signal's
    number."""
    log: tuple[str, ...] = ()
    """Lines that it writes to standard output as it starts."""
    memory: int = 0
    """The memory that it uses while it runs, in bytes."""
    cpu: int = 0
    """The CPU that it uses while it runs, in thousandths of a core."""
    exec: ExecScript = ExecScript()


@dataclass(frozen=True, slots=True)
class PodScript:
    """The script of a sandbox. Times are nanoseconds."""

    calls: CallScript
    start_delay: int = 0
    """The duration of RunPodSandbox."""
    run_time: int | None = None
    """The time until the pause ends by itself; None = it runs until it is stopped."""
    restart_runtime_after: int | None = None
    """The time from this sandbox's start to one restart of the runtime; None = no restart."""


def check_scripts(annotations: Mapping[str, str]) -> None:
    """Read all scripts among a sandbox's annotations. Raises ScriptInvalid for the first invalid one.

    A script's container may be missing: a runtime gets its containers one by one.
    """
    for key, text in sorted(annotations.items()):
        if key.startswith(PREFIX):
            name = key.removeprefix(PREFIX)
            if name == POD:
                _read_pod(text)
            else:
                read_container(name, text)


def container_script(annotations: Mapping[str, str], name: str) -> ContainerScript:
    """Return the container's script; without one it runs until it is stopped. Raises ScriptInvalid."""
    return read_container(name, container_text(annotations, name))


def pod_script(annotations: Mapping[str, str]) -> PodScript:
    """Return the sandbox's script; without one it lives until it is stopped. Raises ScriptInvalid."""
    return _read_pod(annotations.get(PREFIX + POD, "{}"))


def container_text(annotations: Mapping[str, str], name: str) -> str:
    """Return the container's script as it was written; ``{}`` without one."""
    return "{}" if name == POD else annotations.get(PREFIX + name, "{}")


@lru_cache(maxsize=4096)
def read_container(name: str, text: str) -> ContainerScript:
    """Parse a container's script. Raises ScriptInvalid. Equal scripts share one result."""
    it = _Object.parse(_path(name), text)
    it.only(
        *("startDelay", "startError", "runTime", "exitCode", "exitCodes", "oomKilled", "ignoresSignals", "stopDelay"),
        *("stopExitCode", "log", "memory", "cpu", "exec", "hang", "failureRates", "restartRuntime"),
    )
    run_time = it.optional("runTime", duration)
    for field in ("exitCode", "exitCodes", "oomKilled"):
        if field in it.values and run_time is None:
            it.refuse(field, "says how it ends by itself, and needs runTime")
    oom_killed = it.get("oomKilled", _boolean, False)
    if "exitCode" in it.values and "exitCodes" in it.values:
        it.refuse("exitCodes", "must not be given beside exitCode")
    for field in ("stopDelay", "stopExitCode"):
        if field in it.values and it.get("ignoresSignals", _boolean, False):
            it.refuse(field, "says how it ends after a signal, and must not be given beside ignoresSignals")
    exit_codes: tuple[int | None, ...] = (it.get("exitCode", _exit_code, 137 if oom_killed else 0),)
    exit_codes = it.get("exitCodes", _exit_codes, exit_codes)
    return ContainerScript(
        calls=_calls(it, CONTAINER_CALLS),
        start_delay=it.get("startDelay", duration, 0),
        start_error=it.get("startError", _sentence, ""),
        run_time=run_time,
        exit_codes=exit_codes,
        oom_killed=oom_killed,
        ignores_signals=it.get("ignoresSignals", _boolean, False),
        stop_delay=it.get("stopDelay", duration, 0),
        stop_exit_code=it.optional("stopExitCode", _exit_code),
        log=it.get("log", _lines, ()),
        memory=it.get("memory", _bytes, 0),
        cpu=it.get("cpu", _thousandths, 0),
        exec=_exec(it),
    )


@lru_cache(maxsize=4096)
def _read_pod(text: str) -> PodScript:
    it = _Object.parse(_path(POD), text)
    it.only("startDelay", "runTime", "restartRuntimeAfter", "hang", "failureRates", "restartRuntime")
    return PodScript(
        calls=_calls(it, POD_CALLS),
        start_delay=it.get("startDelay", duration, 0),
        run_time=it.optional("runTime", duration),
        restart_runtime_after=it.optional("restartRuntimeAfter", duration),
    )


# --- reading JSON -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Object:
    """A JSON object, and its path."""

    path: str
    values: Mapping[str, Any]

    @classmethod
    def parse(cls, path: str, text: str) -> _Object:
        try:
            value = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            said = f": {error}" if str(error) else ""
            raise ScriptInvalid(f'{path}: must be a JSON object such as {{"runTime": "30s"}}{said}') from None
        return cls.of(path, value)

    @classmethod
    def of(cls, path: str, value: object) -> _Object:
        if not isinstance(value, dict):
            raise ScriptInvalid(f"{path}: must be a JSON object")
        return cls(path, value)

    def only(self, *fields: str) -> None:
        """Refuse all fields but these."""
        for field in self.values:
            if field not in fields:
                self.refuse(field, f"unknown field; there are {', '.join(sorted(fields))}")

    def get(self, field: str, read: Callable[[object], _T], default: _T) -> _T:
        return default if field not in self.values else self._read(field, read)

    def optional(self, field: str, read: Callable[[object], _T]) -> _T | None:
        return None if field not in self.values else self._read(field, read)

    def refuse(self, field: str, why: str) -> NoReturn:
        raise ScriptInvalid(f"{self.path}.{field}: {why}")

    def _read(self, field: str, read: Callable[[object], _T]) -> _T:
        try:
            return read(self.values[field])
        except ScriptInvalid:
            raise
        except ValueError as error:
            self.refuse(field, str(error))


def duration(value: object) -> int:
    """Return the nanoseconds of a Go duration such as ``1m30s``. Raises ValueError."""
    try:
        nanoseconds = parse_go_duration(value) if isinstance(value, str) else None
    except GoDurationTooLong:
        nanoseconds = _LONGEST + 1
    except ValueError:
        nanoseconds = None
    if nanoseconds is None:
        raise ValueError("must be a duration such as 1m30s")
    if nanoseconds > _LONGEST:
        raise ValueError("must be a duration of at most a hundred years")
    return nanoseconds


def _path(name: str) -> str:
    return f"metadata.annotations[{PREFIX}{name}]"


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is given twice")
    return values


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _sentence(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text, not empty")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(line, str) and "\n" not in line for line in value):
        raise ValueError('must be a list of lines such as ["listening"]')
    return tuple(value)


def _exit_code(value: object) -> int:
    if not _is_whole(value, 0, 255):
        raise ValueError("must be a number from 0 to 255")
    return value


def _exit_codes(value: object) -> tuple[int | None, ...]:
    if isinstance(value, list) and value and all(code is None or _is_whole(code, 0, 255) for code in value):
        return tuple(value)
    raise ValueError("must be a list of numbers from 0 to 255, one for each attempt, or null for one that runs on")


def _times(value: object) -> int:
    if not _is_whole(value, 1, 10**6):
        raise ValueError("must be a number from 1 to 1000000")
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 (never) to 1 (always)")
    return float(value)


def _code(value: object) -> grpc.StatusCode:
    if not isinstance(value, str) or value not in _CODES:
        raise ValueError(f"must be one of {', '.join(_CODES)}")
    return _CODES[value]


def _bytes(value: object) -> int:
    return -int(-_quantity(value, "64Mi") // 1)


def _thousandths(value: object) -> int:
    return -int(-1000 * _quantity(value, "250m") // 1)


def _quantity(value: object, example: str) -> Fraction:
    text = str(value) if _is_whole(value, 0, 10**18) else value
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= 32 else None
    if found is None:
        raise ValueError(f"must be a quantity such as {example}")
    return Fraction(found[1]) * _FACTORS[found[2] or ""]


def _is_whole(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _exec(it: _Object) -> ExecScript:
    if "exec" not in it.values:
        return ExecScript()
    answer = _Object.of(f"{it.path}.exec", it.values["exec"])
    answer.only("stdout", "stderr", "exitCode", "delay")
    return ExecScript(
        stdout=answer.get("stdout", _text, ""),
        stderr=answer.get("stderr", _text, ""),
        exit_code=answer.get("exitCode", _exit_code, 0),
        delay=answer.get("delay", duration, 0),
    )


# --- the faults of calls ----------------------------------------------------------------------------------------------


def _calls(it: _Object, calls: tuple[str, ...]) -> CallScript:
    return CallScript(
        hang={call: _hang(place, call, how) for call, place, how in _by_call(it, "hang", calls)},
        failure_rates={
            call: _failure_rate(place, call, how) for call, place, how in _by_call(it, "failureRates", calls)
        },
        restart_runtime={
            call: _restarts(place, call, how) for call, place, how in _by_call(it, "restartRuntime", calls)
        },
    )


def _by_call(it: _Object, field: str, calls: tuple[str, ...]) -> list[tuple[str, _Object, object]]:
    """Return each call in the field, its path, and its settings, which are None in a mere list of calls."""
    said = it.values.get(field, {})
    if isinstance(said, list) and field != "failureRates":
        said = {call if isinstance(call, str) else repr(call): None for call in said}
    if not isinstance(said, dict):
        examples = {
            "hang": '["StopContainer"] or {"StopContainer": "10s"}',
            "failureRates": '{"CreateContainer": 0.2}',
            "restartRuntime": '["StartContainer"]',
        }
        it.refuse(field, f"must name calls, such as {examples[field]}")
    place = _Object(f"{it.path}.{field}", said)
    place.only(*calls)
    return [(call, place, how) for call, how in said.items()]


def _hang(place: _Object, call: str, how: object) -> Hang:
    if how is None:
        return Hang(None, None)
    if not isinstance(how, dict):
        return Hang(place.get(call, duration, 0), None)
    it = _Object.of(f"{place.path}.{call}", how)
    it.only("for", "times")
    return Hang(it.optional("for", duration), it.optional("times", _times))


def _failure_rate(place: _Object, call: str, how: object) -> FailureRate:
    if not isinstance(how, dict):
        return FailureRate(place.get(call, _rate, 0.0), None, grpc.StatusCode.UNKNOWN, "")
    it = _Object.of(f"{place.path}.{call}", how)
    it.only("rate", "times", "code", "message")
    return FailureRate(
        rate=it.get("rate", _rate, 1.0),
        times=it.optional("times", _times),
        code=it.get("code", _code, grpc.StatusCode.UNKNOWN),
        message=it.get("message", _sentence, ""),
    )


def _restarts(place: _Object, call: str, how: object) -> int:
    return 1 if how is None else place.get(call, _times, 1)
