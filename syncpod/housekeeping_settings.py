"""The settings of the node's cleanups and evictions: periods, limits and thresholds, with the kubelet's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from syncpod.lifecycle.container_gc import ContainerGcPolicy
from syncpod.lifecycle.eviction import EvictionPolicy
from syncpod.lifecycle.eviction_settings import EvictionSettingInvalid, EvictionSettings, eviction_policy
from syncpod.settings import table
from syncpod.settings.setting import Setting, of, read_fields

_EVICTION: Final[Mapping[str, Setting[str]]] = {
    "hard": table.EVICTION_HARD,
    "soft": table.EVICTION_SOFT,
    "soft_grace_period": table.EVICTION_SOFT_GRACE_PERIOD,
    "minimum_reclaim": table.EVICTION_MINIMUM_RECLAIM,
    "max_pod_grace_period": table.EVICTION_MAX_POD_GRACE_PERIOD,
    "pressure_transition_period": table.EVICTION_PRESSURE_TRANSITION_PERIOD,
}
"""The setting of each field of EvictionSettings."""


@dataclass(frozen=True)
class HousekeepingSettings:
    """The settings of the node's cleanups and evictions. Periods and ages are in seconds."""

    containers: ContainerGcPolicy = field(default_factory=ContainerGcPolicy)
    containers_period: float = of(table.CONTAINER_GC_PERIOD)
    gone_pods_period: float = of(table.GONE_PODS_PERIOD)
    gone_pods_min_age: float = of(table.GONE_PODS_MIN_AGE)
    orphans_period: float = of(table.ORPHANS_PERIOD)
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    eviction_period: float = of(table.EVICTION_MONITORING_PERIOD)


def housekeeping_settings(texts: Mapping[str, str]) -> HousekeepingSettings:
    """Return the settings from `texts` by variable; a missing one has its default. Raises SettingsInvalid."""
    containers = ContainerGcPolicy(
        per_container=table.CONTAINER_GC_PER_CONTAINER.read(texts),
        in_all=table.CONTAINER_GC_IN_ALL.read(texts),
        min_age=table.CONTAINER_GC_MIN_AGE.read(texts),
    )
    return read_fields(HousekeepingSettings, texts, containers=containers, eviction=_eviction(texts))


def _eviction(texts: Mapping[str, str]) -> EvictionPolicy:
    given = {name: setting.read(texts).strip() for name, setting in _EVICTION.items()}
    try:
        return eviction_policy(EvictionSettings(**given))
    except EvictionSettingInvalid as wrong:
        raise _EVICTION[wrong.setting].names.unusable(str(wrong)) from None
