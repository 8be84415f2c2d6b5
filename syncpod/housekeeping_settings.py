"""The settings of the node's cleanups and evictions: periods, limits and thresholds, with the kubelet's defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from syncpod.lifecycle.container_gc import ContainerGcPolicy
from syncpod.lifecycle.eviction import EvictionPolicy
from syncpod.lifecycle.eviction_settings import (
    EvictionSettingInvalid,
    EvictionSettings,
    duration_seconds,
    eviction_policy,
)
from syncpod.settings import variables as v
from syncpod.settings.table import BY_VARIABLE
from syncpod.settings.values import SettingsInvalid

_EVICTION: Final[Mapping[str, str]] = {
    "hard": v.EVICTION_HARD,
    "soft": v.EVICTION_SOFT,
    "soft_grace_period": v.EVICTION_SOFT_GRACE_PERIOD,
    "minimum_reclaim": v.EVICTION_MINIMUM_RECLAIM,
    "max_pod_grace_period": v.EVICTION_MAX_POD_GRACE_PERIOD,
    "pressure_transition_period": v.EVICTION_PRESSURE_TRANSITION_PERIOD,
}
"""The variable of each field of EvictionSettings."""
_NUMBER = re.compile(r"-1|\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class HousekeepingSettings:
    """The settings of the node's cleanups and evictions. Periods and ages are in seconds."""

    containers: ContainerGcPolicy = field(default_factory=ContainerGcPolicy)
    containers_period: float = 60.0
    gone_pods_period: float = 60.0
    gone_pods_min_age: float = 300.0
    orphans_period: float = 60.0
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    eviction_period: float = 10.0


def housekeeping_settings(texts: Mapping[str, str]) -> HousekeepingSettings:
    """Return the settings from `texts` by variable; a missing one has its default. Raises SettingsInvalid."""
    kept = _number(texts, v.CONTAINER_GC_PER_CONTAINER, 1)
    if kept < 1:
        raise _invalid(
            v.CONTAINER_GC_PER_CONTAINER, "must be at least 1: a pod's next decision depends on the last one"
        )
    return HousekeepingSettings(
        containers=ContainerGcPolicy(
            per_container=kept,
            in_all=_number(texts, v.CONTAINER_GC_IN_ALL, -1),
            min_age=timedelta(seconds=_seconds(texts, v.CONTAINER_GC_MIN_AGE, 0.0)),
        ),
        containers_period=_period(texts, v.CONTAINER_GC_PERIOD, 60.0),
        gone_pods_period=_period(texts, v.GONE_PODS_PERIOD, 60.0),
        gone_pods_min_age=_seconds(texts, v.GONE_PODS_MIN_AGE, 300.0),
        orphans_period=_period(texts, v.ORPHANS_PERIOD, 60.0),
        eviction=_eviction(texts),
        eviction_period=_period(texts, v.EVICTION_MONITORING_PERIOD, 10.0),
    )


def _eviction(texts: Mapping[str, str]) -> EvictionPolicy:
    given = {name: texts.get(variable, "").strip() for name, variable in _EVICTION.items()}
    try:
        return eviction_policy(EvictionSettings(**given))
    except EvictionSettingInvalid as wrong:
        raise _invalid(_EVICTION[wrong.setting], str(wrong)) from None


def _number(texts: Mapping[str, str], name: str, usual: int) -> int:
    text = texts.get(name) or str(usual)
    if not _NUMBER.fullmatch(text):
        raise _invalid(name, f"{text!r} must be a whole number, or -1")
    return int(text)


def _seconds(texts: Mapping[str, str], name: str, usual: float) -> float:
    try:
        return duration_seconds(name, texts[name]) if texts.get(name) else usual
    except EvictionSettingInvalid as wrong:
        raise _invalid(name, str(wrong)) from None


def _period(texts: Mapping[str, str], name: str, usual: float) -> float:
    seconds = _seconds(texts, name, usual)
    if seconds < 0.1:
        raise _invalid(name, "must be at least 100ms")
    return seconds


def _invalid(variable: str, why: str) -> SettingsInvalid:
    return SettingsInvalid(f"{variable}: {why} ({BY_VARIABLE[variable].flag})")
