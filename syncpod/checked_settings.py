"""Parses the settings whose rules are in other rooms: labels, taints, capacity, sysctls, policies and thresholds.

:mod:`syncpod.settings` checks only the form of a value. `syncpod up` checks all of these before it starts a process.
Every function raises SettingsInvalid, whose text names the flag or the variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from syncpod.fleet.offers import Taint
from syncpod.fleet.taints import TaintsInvalid, parse_taints
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.lifecycle.shutdown_order import Periods, ShutdownPeriodsInvalid, parse_shutdown_periods
from syncpod.node.capacity import CapacityInvalid, parse_capacity, parse_reserved
from syncpod.node.labels import NodeLabelsInvalid, node_labels, parse_node_labels
from syncpod.node.verification import Verification, VerificationInvalid
from syncpod.settings.node import ImagePullSettings, NodeSettings
from syncpod.settings.table import (
    ALLOWED_UNSAFE_SYSCTLS,
    CAPACITY,
    IMAGE_VERIFICATION_ALLOWLIST,
    IMAGE_VERIFICATION_POLICY,
    NODE_LABELS,
    REGISTER_WITH_TAINTS,
    RESERVED,
    SHUTDOWN_GRACE,
)
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.sysctls import AllowedSysctls, SysctlPatternInvalid, allowed_sysctls


def require_valid(settings: NodeSettings) -> None:
    """Raise SettingsInvalid for the first setting that the node's worker would refuse on any runtime."""
    labels(settings)
    taints(settings)
    shutdown_periods(settings)
    parsed_capacity(settings)
    parsed_reserved(settings)
    sysctls(settings, os.uname().release)
    verification(settings.image_pulls)
    housekeeping_settings(settings.given)


def labels(settings: NodeSettings) -> Mapping[str, str]:
    """Return the node's labels."""
    try:
        return node_labels(settings.node, parse_node_labels(settings.node_labels))
    except NodeLabelsInvalid as wrong:
        raise NODE_LABELS.refused(wrong) from wrong


def parsed_capacity(settings: NodeSettings) -> Mapping[str, int]:
    """Return the resources whose amounts the node's owner has set."""
    try:
        return parse_capacity(settings.capacity)
    except CapacityInvalid as wrong:
        raise CAPACITY.refused(wrong) from wrong


def parsed_reserved(settings: NodeSettings) -> Mapping[str, int]:
    """Return the resources that the machine keeps for itself."""
    try:
        return parse_reserved(settings.reserved)
    except CapacityInvalid as wrong:
        raise RESERVED.refused(wrong) from wrong


def taints(settings: NodeSettings) -> tuple[Taint, ...]:
    """Return the taints that the node has when it registers with its cluster."""
    try:
        return parse_taints(settings.register_with_taints)
    except TaintsInvalid as wrong:
        raise REGISTER_WITH_TAINTS.refused(wrong) from wrong


def shutdown_periods(settings: NodeSettings) -> Periods:
    """Return the time that pods get for their end when the machine shuts down; empty if the shutdown is not delayed."""
    try:
        return parse_shutdown_periods(settings.shutdown_grace)
    except ShutdownPeriodsInvalid as wrong:
        raise SHUTDOWN_GRACE.refused(wrong) from wrong


def sysctls(settings: NodeSettings, release: str) -> AllowedSysctls:
    """Return the sysctls that pods may set on a kernel of this release."""
    try:
        return allowed_sysctls(release, settings.allowed_unsafe_sysctls)
    except SysctlPatternInvalid as wrong:
        raise ALLOWED_UNSAFE_SYSCTLS.refused(wrong) from wrong


def verification(pulls: ImagePullSettings) -> Verification:
    """Return the policy that decides for which images on the node a pod must have pull credentials."""
    policy = {"policy": pulls.verification_policy} if pulls.verification_policy else {}
    try:
        return Verification(**policy, allowed=pulls.verification_allowlist)
    except VerificationInvalid as wrong:
        raise SettingsInvalid(f"{wrong} ({IMAGE_VERIFICATION_POLICY}, {IMAGE_VERIFICATION_ALLOWLIST})") from wrong
