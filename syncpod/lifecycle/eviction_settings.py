"""Eviction thresholds as the kubelet's flags write them: ``memory.available<100Mi,nodefs.available<10%``.

Mirrors eviction/helpers.go, v1.36, ParseThresholdConfig, with lists of ``signal<value`` and ``signal=duration``.
Difference: a hard threshold replaces only the default of its own signal (the kubelet does so only with
mergeDefaultEvictionSettings); ``0%`` removes a default, and ``none`` removes all. ``pid.available`` has a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from syncpod.go_durations import parse_go_duration
from syncpod.lifecycle.eviction import RESOURCES, Amount, EvictionPolicy, Signal, Threshold, percent
from syncpod.pod import parse_quantity, quantity_text

DEFAULT_HARD: Final = (
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%,"
    "pid.available<10%"
)
"""The kubelet's defaults and one for processes, which the kubelet lacks: without it, nothing stops a fork bomb."""
NONE: Final = "none"

_PART = re.compile(r"\d+(\.\d+)?%", re.ASCII)
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)


class EvictionSettingInvalid(ValueError):
    """An eviction setting is wrong: `setting` names it, and the text describes the valid values."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


class EvictionSettings(NamedTuple):
    """The settings as written by the user; "" = the default."""

    hard: str = ""
    soft: str = ""
    soft_grace_period: str = ""
    """The grace period of each soft threshold, as ``memory.available=1m30s``."""
    minimum_reclaim: str = ""
    """Minimum reclaims, as ``nodefs.available=500Mi``."""
    max_pod_grace_period: str = ""
    """The longest grace of a pod that is evicted for a soft threshold, in seconds."""
    pressure_transition_period: str = ""
    """A Go duration, such as ``5m``."""


def eviction_policy(settings: EvictionSettings) -> EvictionPolicy:
    """Return the thresholds and limits of the node. Raises EvictionSettingInvalid."""
    hard = dict(_thresholds("hard", DEFAULT_HARD))
    if settings.hard == NONE:
        hard = {}
    elif settings.hard:
        hard |= _thresholds("hard", settings.hard)
    soft = _thresholds("soft", settings.soft)
    graces = _pairs("soft_grace_period", settings.soft_grace_period, "=")
    reclaims = _pairs("minimum_reclaim", settings.minimum_reclaim, "=")
    thresholds = [(signal, value, 0.0) for signal, value in hard.items() if value is not None]
    for signal, value in soft.items():
        if signal not in graces:
            raise EvictionSettingInvalid(
                "soft_grace_period", f"must say how long {signal} may be met, as {signal}=1m30s, since soft names it"
            )
        grace = duration_seconds("soft_grace_period", graces[signal])
        if value is not None:
            if not grace:
                raise EvictionSettingInvalid("soft_grace_period", f"{signal}={graces[signal]}: must be more than 0")
            thresholds.append((signal, value, grace))
    return EvictionPolicy(
        thresholds=tuple(
            Threshold(signal, value, grace, _amount("minimum_reclaim", signal, reclaims.get(signal, "0")))
            for signal, value, grace in thresholds
        ),
        max_pod_grace_seconds=_whole("max_pod_grace_period", settings.max_pod_grace_period),
        transition_seconds=duration_seconds("pressure_transition_period", settings.pressure_transition_period or "5m"),
    )


def duration_seconds(setting: str, text: str) -> float:
    """Read a duration as Go writes it. Raises EvictionSettingInvalid."""
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise EvictionSettingInvalid(setting, f"{text!r} must be a duration such as 90s, 2m or 1h30m") from None


def _thresholds(setting: str, text: str) -> dict[Signal, Amount | None]:
    """Return the thresholds by signal; None = removed."""
    found: dict[Signal, Amount | None] = {}
    for signal, value in _pairs(setting, text, "<").items():
        amount = None if value in ("0%", "100%") else _amount(setting, signal, value)
        if amount is not None and not amount.number and not amount.part:
            raise EvictionSettingInvalid(setting, f"{signal}<{value}: must be more than 0; 0% takes the threshold away")
        found[signal] = amount
    return found


def _pairs(setting: str, text: str, between: str) -> Mapping[Signal, str]:
    found: dict[Signal, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        signal, sign, value = part.partition(between)
        if signal not in RESOURCES or not sign or not value:
            raise EvictionSettingInvalid(
                setting, f"{part!r} must be a signal, {between!r} and a value; signals are {', '.join(RESOURCES)}"
            )
        if signal in found:
            raise EvictionSettingInvalid(setting, f"{signal} is there twice")
        found[cast("Signal", signal)] = value
    return found


def _amount(setting: str, signal: Signal, text: str) -> Amount:
    if _PART.fullmatch(text):
        if float(text[:-1]) > 100:
            raise EvictionSettingInvalid(setting, f"{signal}, {text}: must be at most 100%")
        return Amount(part=percent(float(text[:-1])))
    try:
        quantity = parse_quantity(text)
    except ValueError as wrong:
        raise EvictionSettingInvalid(setting, f"{signal}, {text!r}: {wrong}, or a part such as 10%") from wrong
    if quantity.number < 0:
        raise EvictionSettingInvalid(setting, f"{signal}, {text}: must not be negative")
    return Amount(number=quantity.value(), text=quantity_text(quantity, like=text))


def _whole(setting: str, text: str) -> int:
    if text and not _WHOLE.fullmatch(text):
        raise EvictionSettingInvalid(setting, f"{text!r} must be a whole number of seconds")
    return int(text or "0")
