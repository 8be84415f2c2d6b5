"""The state of one probe of one container instance: when to probe, and the result that the answers give.

Pure: the caller measures times, in seconds. Mirrors prober/worker.go, v1.36, doProbe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from syncpod.pod import Container, Probe

ProbeType = Literal["startup", "liveness", "readiness"]
ProbeResult = Literal["success", "failure", "unknown"]

PROBE_TYPES: Final[tuple[ProbeType, ...]] = ("startup", "liveness", "readiness")
INITIAL: Final[dict[ProbeType, ProbeResult]] = {"startup": "unknown", "liveness": "success", "readiness": "failure"}
"""The result of a probe before its first answer."""

_THRESHOLDS: Final = {"success": 1, "failure": 3}
_PERIOD_SECONDS: Final = 10
_TIMEOUT_SECONDS: Final = 1


@dataclass(frozen=True)
class ProbeState:
    """One probe of one container instance."""

    type: ProbeType
    result: ProbeResult
    """The probe's result: it changes only once enough answers in a row agree."""
    last: ProbeResult = "unknown"
    """The last single answer."""
    run: int = 0
    """How many equal answers in a row there have been, `last` included."""
    on_hold: bool = False
    """This instance is not probed any more: it will be killed, or it has started."""
    settled: bool = False
    """Whether `result` comes from answers of the instance; False = it is the initial result."""


@dataclass(frozen=True)
class Failures:
    """The number of failures of one probe of one instance, and how many of them the pod's workflow has received.

    Failed answers have one count, and the times that the probe could not be run have another. The kubelet emits an
    event for each, and the API server counts them. Here the agent sends the workflow each count at 1, 10, 100 and so
    on, and when the instance ends. It also sends the count of failed answers when the result changes.
    """

    total: int = 0
    reported: int = 0
    text: str = ""
    """The answer of the last failure, or why the probe could not be run."""

    @property
    def unreported(self) -> int:
        """The number of failures that the pod's workflow has not received."""
        return self.total - self.reported

    @property
    def is_due(self) -> bool:
        """Whether to send the count to the workflow now, although the result has not changed."""
        return self.unreported > 0 and self.total == 10 ** (len(str(self.total)) - 1)

    def one_more(self, text: str) -> Failures:
        """Return the count with one more failure, whose text is `text`."""
        return replace(self, total=self.total + 1, text=text)

    def all_reported(self) -> Failures:
        """Return the count with every failure marked as received by the pod's workflow."""
        return replace(self, reported=self.total)


def failure_text(type_: ProbeType, answer: str) -> str:
    """Return the message of the event Unhealthy for a failed answer (prober/prober.go, v1.36, probe)."""
    return f"{type_.capitalize()} probe failed: {answer}"


def error_text(type_: ProbeType, error: str) -> str:
    """Return the message of the event Unhealthy for a probe that could not be run (the same function)."""
    return f"{type_.capitalize()} probe errored and resulted in unknown state: {error}"


def first_failures(state: ProbeState) -> Failures:
    """Return the count of a new probe: 1 if its known result is a failure, which an earlier agent has already sent."""
    reported = int(state.settled and state.result == "failure")
    return Failures(total=reported, reported=reported)


def probe_of(container: Container, type_: ProbeType) -> Probe | None:
    """Return a container's probe of one type, None if it has none."""
    probes: dict[ProbeType, Probe | None] = {
        "startup": container.startup_probe,
        "liveness": container.liveness_probe,
        "readiness": container.readiness_probe,
    }
    return probes[type_]


def first_state(type_: ProbeType, known: ProbeResult | None = None, failures: int = 0) -> ProbeState:
    """Return the first state of a probe of an instance.

    `known` is its result from before a restart of the agent, and `failures` is how many answers had failed in a row.

    Difference: the kubelet goes on counting equal answers of the previous instance, so that one failure may be enough
    to kill the next one. Here each instance is judged by its own answers.
    """
    final = known is not None and (type_ == "startup" or (type_ == "liveness" and known == "failure"))
    last: ProbeResult = "failure" if failures else "unknown"
    return ProbeState(type_, known or INITIAL[type_], last, failures, on_hold=final, settled=known is not None)


def waits_for_start(type_: ProbeType, *, started: bool) -> bool:
    """Say whether to skip a probe: startup probes run until the container has started, other probes only afterwards."""
    return started if type_ == "startup" else not started


def answered(state: ProbeState, probe: Probe, answer: ProbeResult) -> ProbeState:
    """Count one answer: `success` or `failure`. A probe that could not be carried out is not an answer."""
    run = state.run + 1 if state.last == answer else 1
    counted = replace(state, last=answer, run=run)
    threshold = probe.success_threshold if answer == "success" else probe.failure_threshold
    if run < (threshold or _THRESHOLDS[answer]):
        return counted
    holds = state.type == "startup" or (state.type == "liveness" and answer == "failure")
    return replace(counted, result=answer, on_hold=holds, settled=True, run=0 if holds else run)


def is_news(before: ProbeState, after: ProbeState) -> bool:
    """Say whether to signal the pod's workflow: the result has changed, or first answers confirm the assumed failure.

    So at least one signal has the reason why a container does not become ready.
    """
    return after.result != before.result or (after.result == "failure" and after.settled and not before.settled)


def period_seconds(probe: Probe) -> int:
    """Return the seconds between two probes."""
    return probe.period_seconds or _PERIOD_SECONDS


def timeout_seconds(probe: Probe) -> int:
    """Return how many seconds an answer may take."""
    return probe.timeout_seconds or _TIMEOUT_SECONDS
