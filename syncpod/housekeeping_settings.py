"""When the node cleans up, and how much it keeps: environment variables, with the kubelet's defaults.

===========================================  =======  ==============================================================
SYNCPOD_CONTAINER_GC_PERIOD                  1m       period of container garbage collection
SYNCPOD_CONTAINER_GC_PER_CONTAINER           1        dead instances of each container to keep (at least 1), with logs
SYNCPOD_CONTAINER_GC_IN_ALL                  -1       dead instances to keep on the node; -1 = no limit
SYNCPOD_CONTAINER_GC_MIN_AGE                 0s       minimum age of a dead container
SYNCPOD_GONE_PODS_PERIOD                     1m       how often to look for the remains of gone pods
SYNCPOD_GONE_PODS_MIN_AGE                    5m       how long a pod must have been dead before it counts as gone
SYNCPOD_ORPHANS_PERIOD                       1m       how often to look for pods without a workflow
SYNCPOD_EVICTION_HARD                                 see :mod:`syncpod.lifecycle.eviction_settings`
SYNCPOD_EVICTION_SOFT                                 none
SYNCPOD_EVICTION_SOFT_GRACE_PERIOD                    for each soft threshold, ``memory.available=1m30s``
SYNCPOD_EVICTION_MINIMUM_RECLAIM                      none, ``nodefs.available=500Mi``
SYNCPOD_EVICTION_MAX_POD_GRACE_PERIOD        0        seconds
SYNCPOD_EVICTION_PRESSURE_TRANSITION_PERIOD  5m       how long a condition outlasts its cause
SYNCPOD_EVICTION_MONITORING_PERIOD           10s      how often memory, disks and processes are measured
===========================================  =======  ==============================================================
"""

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
from syncpod.settings.values import SettingsInvalid

_GC: Final = "SYNCPOD_CONTAINER_GC_"
_GONE: Final = "SYNCPOD_GONE_PODS_"
_ORPHANS: Final = "SYNCPOD_ORPHANS_"
_EVICTION: Final = "SYNCPOD_EVICTION_"
_NUMBER = re.compile(r"-1|\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class HousekeepingSettings:
    """When the node cleans up, and how much it keeps. Periods and ages are in seconds."""

    containers: ContainerGcPolicy = field(default_factory=ContainerGcPolicy)
    containers_period: float = 60.0
    gone_pods_period: float = 60.0
    gone_pods_min_age: float = 300.0
    orphans_period: float = 60.0
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    eviction_period: float = 10.0


def housekeeping_settings(environ: Mapping[str, str]) -> HousekeepingSettings:
    """Return the settings in the environment, else the defaults. Raises SettingsInvalid."""
    kept = _number(environ, f"{_GC}PER_CONTAINER", 1)
    if kept < 1:
        raise SettingsInvalid(
            f"{_GC}PER_CONTAINER={kept}: must be at least 1: a pod's next decision depends on the last one"
        )
    return HousekeepingSettings(
        containers=ContainerGcPolicy(
            per_container=kept,
            in_all=_number(environ, f"{_GC}IN_ALL", -1),
            min_age=timedelta(seconds=_seconds(environ, f"{_GC}MIN_AGE", 0.0)),
        ),
        containers_period=_period(environ, f"{_GC}PERIOD", 60.0),
        gone_pods_period=_period(environ, f"{_GONE}PERIOD", 60.0),
        gone_pods_min_age=_seconds(environ, f"{_GONE}MIN_AGE", 300.0),
        orphans_period=_period(environ, f"{_ORPHANS}PERIOD", 60.0),
        eviction=_eviction(environ),
        eviction_period=_period(environ, f"{_EVICTION}MONITORING_PERIOD", 10.0),
    )


def _eviction(environ: Mapping[str, str]) -> EvictionPolicy:
    given = {name: environ.get(f"{_EVICTION}{name.upper()}", "").strip() for name in EvictionSettings._fields}
    try:
        return eviction_policy(EvictionSettings(**given))
    except EvictionSettingInvalid as wrong:
        raise SettingsInvalid(f"{_EVICTION}{wrong.setting.upper()}: {wrong}") from None


def _number(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name) or str(usual)
    if not _NUMBER.fullmatch(text):
        raise SettingsInvalid(f"{name}={text!r}: must be a whole number, or -1")
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, usual: float) -> float:
    try:
        return duration_seconds(name, environ[name]) if environ.get(name) else usual
    except EvictionSettingInvalid as wrong:
        raise SettingsInvalid(f"{name}: {wrong}") from None


def _period(environ: Mapping[str, str], name: str, usual: float) -> float:
    seconds = _seconds(environ, name, usual)
    if seconds < 0.1:
        raise SettingsInvalid(f"{name}: must be at least 100ms")
    return seconds
