"""Turns a node's settings into the values that its worker needs on this machine and with this runtime."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

from syncpod.checked_settings import labels, parsed_capacity, parsed_reserved
from syncpod.cri.endpoint import listener_pid
from syncpod.cri.port import CriRuntime
from syncpod.cri.records import unapplied_fields
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.kernel.mounting import may_mount
from syncpod.kernel.process_end import shares_pids
from syncpod.lifecycle.eviction import EvictionPolicy
from syncpod.lifecycle.image_gc import ImageGcPolicy
from syncpod.node.capacity import PIDS, CapacityInvalid, NodeAmounts, read_capacity
from syncpod.node.host import read_host, require_own_addresses
from syncpod.node.pod_cgroups import pids_unlimited
from syncpod.settings.directories import is_in_memory, make_memory_directory
from syncpod.settings.node import ImageGcSettings, NodeSettings
from syncpod.settings.table import MEMORY_DIR, NODE_IP, POD_MAX_PIDS
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.context import ClusterDns, Host, NodeContext
from syncpod.translation.features import recursive_read_only_handlers
from syncpod.volumes.visibility import has_no_more_rights, mounts_reach, shares_mounts

log = logging.getLogger("syncpod.worker")


def prepare_memory(settings: NodeSettings) -> None:
    """Create the directory for Secrets. Raises SettingsInvalid if it belongs to another user."""
    make_memory_directory(settings.memory_dir)
    if not is_in_memory(settings.memory_dir):
        log.warning(
            "the memory directory %s is not on a memory file system, so Secrets are written to a disk; "
            "name another directory in %s",
            settings.memory_dir,
            MEMORY_DIR,
        )


def _require_own_addresses(addresses: tuple[str, ...]) -> None:
    """Raise SettingsInvalid for an address that this machine does not have."""
    try:
        require_own_addresses(addresses)
    except OSError as error:
        raise SettingsInvalid(
            f"{NODE_IP}={','.join(addresses)}: {error.filename} is no address of this machine: {error.strerror} "
            "(--node-ip)"
        ) from None


async def node_context(
    settings: NodeSettings,
    cri: CriRuntime,
    endpoint: str,
    *,
    cluster: str,
) -> NodeContext:
    """Return the node's context for steps and agent: its settings, and the abilities of this machine and its runtime.

    `cluster` is the Temporal cluster's id and namespace. Raises SettingsInvalid, CriError.
    """
    host = replace(read_host(), single_process_oom_kill=settings.single_process_oom_kill)
    amounts = _amounts(settings, host, housekeeping_settings(settings.given).eviction)
    if settings.node_ip:
        _require_own_addresses(settings.node_ip)
        host = replace(host, addresses=settings.node_ip)
    status = await cri.status(verbose=True)
    runtime = await asyncio.to_thread(_listener, endpoint)
    reached = may_mount() and mounts_reach(runtime, settings.state_dir)
    if may_mount() and not reached:
        log.warning(
            "the runtime does not see what this worker mounts below %s: volumes in memory have no size limit of their "
            "own, and containers cannot mount a subPath; mount that directory with propagation rshared in both",
            settings.state_dir,
        )
    context = NodeContext(
        name=settings.node,
        state_dir=settings.state_dir,
        memory_dir=settings.memory_dir,
        log_dir=settings.log_dir,
        cluster=cluster,
        cgroup_parent=settings.cgroup_parent,
        capacity=amounts.allocatable,
        capacity_of_pods=amounts.of_pods,
        capacity_of_machine=amounts.machine,
        reserved_pids=parsed_reserved(settings).get(PIDS, 0),
        labels=labels(settings),
        cluster_dns=ClusterDns(settings.cluster_dns, settings.cluster_domain),
        pod_cgroups=settings.pod_cgroups,
        pod_max_pids=settings.pod_max_pids,
        cgroup_driver=await cri.runtime_config(),
        recursive_read_only_handlers=recursive_read_only_handlers(status),
        applies_seccomp="seccompProfile" not in unapplied_fields(status.info),
        may_mount=reached,
        hands_over_paths=has_no_more_rights(runtime),
        has_own_files=not shares_mounts(runtime),
        shares_pids=shares_pids(runtime),
        host=host,
    )
    if why := await asyncio.to_thread(pids_unlimited, context):
        raise SettingsInvalid(f"{why} ({POD_MAX_PIDS})")
    return context


def _amounts(settings: NodeSettings, host: Host, evictions: EvictionPolicy) -> NodeAmounts:
    """Return the node's resources. Raises SettingsInvalid if more is reserved than there is."""
    try:
        return read_capacity(
            host,
            settings.state_dir,
            parsed_capacity(settings),
            reserved=parsed_reserved(settings),
            thresholds=evictions.thresholds,
        )
    except CapacityInvalid as wrong:
        raise SettingsInvalid(f"{wrong} (--reserved, SYNCPOD_EVICTION_HARD)") from wrong


def _listener(endpoint: str) -> int:
    """Return the runtime's pid, or 0 if it cannot be determined."""
    try:
        return listener_pid(endpoint)
    except OSError:
        return 0


def image_gc_policy(settings: ImageGcSettings) -> ImageGcPolicy:
    """Return the policy by which unused images are removed."""
    return ImageGcPolicy(
        high_threshold_percent=settings.high_threshold_percent,
        low_threshold_percent=settings.low_threshold_percent,
        min_age=timedelta(seconds=settings.minimum_age_seconds),
        max_age=timedelta(seconds=settings.maximum_age_seconds),
    )
