"""Counts the probes of the node's pods, under the kubelet's names (prober/prober.go, v1.36).

A pod's counts are removed with the pod, as in the kubelet. OpenTelemetry's counters are not used: they never remove a
series, and have at most 2,000 each, so that the series of removed pods would leave no room for later pods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from syncpod.agent.metrics import SECONDS
from syncpod.messages.identity import PodRef

_BOUNDS: Final = (*map(str, SECONDS), "+Inf")
_RESULTS: Final = ("successful", "failed", "unknown")
_WHO: Final = ("probe_type", "container", "pod", "namespace")


class _Probe(NamedTuple):
    """One type of probe of one container."""

    type: str
    container: str


@dataclass
class _Counts:
    """The probes of one pod."""

    ref: PodRef
    results: Counter[tuple[_Probe, str]] = field(default_factory=Counter)
    buckets: dict[_Probe, list[int]] = field(default_factory=dict)
    """For each bound: how many probes took at most this long, and longer than the previous bound."""
    seconds: Counter[_Probe] = field(default_factory=Counter)
    """The sum of all probes' seconds."""


class ProbeCounts:
    """The probes of each pod of a node, for as long as the pod exists."""

    def __init__(self) -> None:
        self._pods: dict[str, _Counts] = {}

    def count(self, type_: str, result: str, ref: PodRef, container: str, seconds: float) -> None:
        """Count a probe: `result` is `successful`, `failed` or `unknown`."""
        counts, probe = self._pods.setdefault(ref.uid, _Counts(ref)), _Probe(type_.capitalize(), container)
        counts.results[probe, result] += 1
        counts.buckets.setdefault(probe, [0] * len(_BOUNDS))[bisect_left(SECONDS, seconds)] += 1
        counts.seconds[probe] += seconds  # type: ignore[assignment]  # a Counter adds floats as well

    def forget_others(self, uids: Iterable[str]) -> None:
        """Drop the counts of all other pods."""
        self._pods = {uid: self._pods[uid] for uid in uids if uid in self._pods}

    def families(self) -> Iterator[Metric]:
        """Yield the series of all pods."""
        total = CounterMetricFamily(
            "prober_probe", "Probes of containers, by type and result.", labels=(*_WHO, "pod_uid", "result")
        )
        duration = HistogramMetricFamily("prober_probe_duration_seconds", "How long a probe took.", labels=_WHO)
        for counts in self._pods.values():
            who = (counts.ref.name, counts.ref.namespace)
            for probe, buckets in counts.buckets.items():
                for result in _RESULTS:  # a result without probes is 0, so that its first one shows as an increase
                    total.add_metric((*probe, *who, counts.ref.uid, result), counts.results[probe, result])
                below = list(zip(_BOUNDS, accumulate(buckets), strict=True))
                duration.add_metric((*probe, *who), below, counts.seconds[probe])
        yield from (total, duration)
