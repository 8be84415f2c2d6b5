"""Makes the answer of ``/configz``: the node's settings, as those fields of a KubeletConfiguration that apply here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from syncpod.agent.kubelet_port.access import ALLOWED_SECONDS, DENIED_SECONDS, TOKEN_SECONDS
from syncpod.agent.kubelet_port.relay import IDLE_SECONDS
from syncpod.checked_settings import shutdown_periods
from syncpod.go_durations import go_duration
from syncpod.kubernetes.node import LEASE_SECONDS, LOOK_SECONDS, MAX_PODS, REPORT_SECONDS
from syncpod.kubernetes.node_runtime import MOST_IMAGES
from syncpod.lifecycle.eviction import RESOURCES, Amount, EvictionPolicy
from syncpod.settings.node import ImagePullSettings, NodeSettings
from syncpod.translation.context import NodeContext

ALWAYS: Final[Mapping[str, Any]] = {
    "enableServer": True,
    "registerNode": True,
    "enableDebuggingHandlers": True,
    "enableSystemLogHandler": False,
    "enableSystemLogQuery": False,
    "enableProfilingHandler": False,
    "enableDebugFlagsHandler": False,
    "enableControllerAttachDetach": True,
    "makeIPTablesUtilChains": False,
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "cpuManagerPolicy": "none",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "seccompDefault": False,
    "localStorageCapacityIsolation": True,
    "mergeDefaultEvictionSettings": False,
    "configMapAndSecretChangeDetectionStrategy": "Watch",
    "contentType": "application/json",
    "nodeStatusMaxImages": MOST_IMAGES,
    "registryPullQPS": 5,
    "registryBurst": 10,
    "eventRecordQPS": 50,
    "eventBurst": 100,
    "containerLogMaxWorkers": 1,
    "oomScoreAdj": -999,
    "hairpinMode": "none",
    "enforceNodeAllocatable": ["pods"],
    "failSwapOn": False,
    "failCgroupV1": False,
    "memorySwap": {"swapBehavior": "NoSwap"},
    "tlsMinVersion": "VersionTLS12",
}
"""Fields with a fixed value here. Clients read a missing boolean as false, so all are included."""


def kubelet_configuration(
    settings: NodeSettings, node: NodeContext, client_authorities: str, eviction: EvictionPolicy
) -> dict[str, Any]:
    """Return a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), without fields that do not apply to this node.

    A node that is started with this configuration has the same settings. `client_authorities` is the path of the file
    or kubeconfig with the clients' certificate authorities; "" = there are none.
    """
    images, logs, access = settings.image_gc, settings.logs, settings.port_access
    health, _, health_port = settings.metrics_address.rpartition(":")
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        **ALWAYS,
        "staticPodPath": str(settings.manifest_dir or ""),
        "podLogsDir": str(settings.log_dir),
        "address": access.address or (node.host.addresses[0] if node.host.addresses else ""),
        "port": settings.kubelet_port,
        "readOnlyPort": access.read_only,
        "healthzPort": int(health_port or "0"),
        "healthzBindAddress": health.removeprefix("[").removesuffix("]"),
        "tlsCertFile": str(settings.tls_cert_file or ""),
        "tlsPrivateKeyFile": str(settings.tls_private_key_file or ""),
        "shutdownGracePeriodByPodPriority": [
            {"priority": each.priority, "shutdownGracePeriodSeconds": each.seconds}
            for each in shutdown_periods(settings)
        ],
        "serverTLSBootstrap": settings.server_tls_bootstrap,
        "authentication": {
            "x509": {"clientCAFile": client_authorities},
            "webhook": {"enabled": access.reviews_tokens, "cacheTTL": _duration(TOKEN_SECONDS)},
            "anonymous": {"enabled": access.anonymous},
        },
        "authorization": {
            "mode": "AlwaysAllow" if access.always_allow else "Webhook",
            "webhook": {
                "cacheAuthorizedTTL": _duration(ALLOWED_SECONDS),
                "cacheUnauthorizedTTL": _duration(DENIED_SECONDS),
            },
        },
        "streamingConnectionIdleTimeout": _duration(IDLE_SECONDS),
        "nodeStatusUpdateFrequency": _duration(LOOK_SECONDS),
        "nodeStatusReportFrequency": _duration(REPORT_SECONDS),
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "imageMinimumGCAge": _duration(images.minimum_age_seconds),
        "imageMaximumGCAge": _duration(images.maximum_age_seconds),
        "imageGCHighThresholdPercent": images.high_threshold_percent,
        "imageGCLowThresholdPercent": images.low_threshold_percent,
        **_limits(settings, node),
        "maxPods": int(dict(node.capacity).get("pods", MAX_PODS)),
        **_pulls(settings.image_pulls),
        "crashLoopBackOff": {"maxContainerRestartPeriod": _duration(settings.restart_backoff_max)},
        "allowedUnsafeSysctls": list(settings.allowed_unsafe_sysctls),
        "clusterDNS": list(settings.cluster_dns),
        "clusterDomain": settings.cluster_domain,
        "containerLogMaxSize": str(logs.max_bytes),
        "containerLogMaxFiles": logs.max_files,
        "containerRuntimeEndpoint": settings.runtime_endpoint or "",
        **_evictions(eviction),
    }


def _pulls(pulls: ImagePullSettings) -> dict[str, Any]:
    return {"serializeImagePulls": pulls.at_once == 1, "maxParallelImagePulls": pulls.at_once}


def _limits(settings: NodeSettings, node: NodeContext) -> dict[str, Any]:
    return {
        "cgroupRoot": _cgroup_root(settings.cgroup_parent),
        "cgroupsPerQOS": settings.pod_cgroups,
        "cgroupDriver": node.cgroup_driver,
        "singleProcessOOMKill": settings.single_process_oom_kill or not node.host.unified_cgroups,
        "podPidsLimit": settings.pod_max_pids,
        "kubeReserved": _reserved(settings.reserved),
    }


def _reserved(text: str) -> dict[str, str]:
    """Return the reserved resources, for one of the two fields whose amounts the kubelet adds up."""
    return {name: amount for name, _, amount in (part.partition("=") for part in text.split(",") if part)}


def _cgroup_root(parent: str) -> str:
    """Return the kubelet's `cgroupRoot`: our parent cgroup without a final ``kubepods``, which a kubelet appends."""
    return f"/{parent}".removesuffix("/kubepods") or "/"


def _evictions(policy: EvictionPolicy) -> dict[str, Any]:
    """Return the thresholds. A missing hard threshold is set to 0 %, since the kubelet would add its default."""
    soft = [each for each in policy.thresholds if not each.hard]
    none = {signal: "0%" for signal in RESOURCES if signal != "pid.available"}
    return {
        "evictionHard": none | {each.signal: _amount(each.value) for each in policy.thresholds if each.hard},
        "evictionSoft": {each.signal: _amount(each.value) for each in soft},
        "evictionSoftGracePeriod": {each.signal: _duration(each.grace_seconds) for each in soft},
        "evictionMinimumReclaim": {
            each.signal: _amount(each.min_reclaim) for each in policy.thresholds if each.min_reclaim != Amount()
        },
        "evictionMaxPodGracePeriod": policy.max_pod_grace_seconds,
        "evictionPressureTransitionPeriod": _duration(policy.transition_seconds),
    }


def _amount(amount: Amount) -> str:
    return amount.text or (f"{amount.part * 100:g}%" if amount.part else str(amount.number))


def _duration(seconds: float) -> str:
    return go_duration(timedelta(seconds=seconds))
