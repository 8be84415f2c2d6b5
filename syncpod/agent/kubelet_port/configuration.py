"""The node's settings as ``/configz`` tells them: those fields of a KubeletConfiguration that are true here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from syncpod.agent.kubelet_port.access import ALLOWED_SECONDS, DENIED_SECONDS, TOKEN_SECONDS
from syncpod.agent.kubelet_port.relay import IDLE_SECONDS
from syncpod.go_durations import go_duration
from syncpod.kubernetes.node import LEASE_SECONDS, LOOK_SECONDS, MAX_PODS, REPORT_SECONDS
from syncpod.settings.node import NodeSettings
from syncpod.translation.context import NodeContext


def kubelet_configuration(settings: NodeSettings, node: NodeContext, client_authorities: str) -> dict[str, Any]:
    """Return a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), without what the node does not have.

    `client_authorities` is where the authorities of clients come from, a file or the kubeconfig; "" = there are none.
    """
    images, logs = settings.image_gc, settings.logs
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "enableServer": True,
        "staticPodPath": str(settings.manifest_dir or ""),
        "address": node.host.addresses[0] if node.host.addresses else "",
        "port": settings.kubelet_port,
        "readOnlyPort": 0,
        "tlsCertFile": str(settings.tls_cert_file or ""),
        "tlsPrivateKeyFile": str(settings.tls_private_key_file or ""),
        "tlsMinVersion": "VersionTLS12",
        "authentication": {
            "x509": {"clientCAFile": client_authorities},
            "webhook": {"enabled": True, "cacheTTL": _duration(TOKEN_SECONDS)},
            "anonymous": {"enabled": False},
        },
        "authorization": {
            "mode": "Webhook",
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
        "cgroupRoot": settings.cgroup_parent,
        "cgroupsPerQOS": settings.pod_cgroups,
        "cgroupDriver": node.cgroup_driver,
        "maxPods": int(dict(node.capacity).get("pods", MAX_PODS)),
        "podPidsLimit": settings.pod_max_pids,
        "serializeImagePulls": settings.image_pulls.at_once == 1,
        "maxParallelImagePulls": settings.image_pulls.at_once,
        "allowedUnsafeSysctls": list(settings.allowed_unsafe_sysctls),
        "containerLogMaxSize": str(logs.max_bytes),
        "containerLogMaxFiles": logs.max_files,
        "containerRuntimeEndpoint": settings.runtime_endpoint or "",
        "enableSystemLogHandler": False,
        "enableDebuggingHandlers": True,
    }


def _duration(seconds: float) -> str:
    return go_duration(timedelta(seconds=seconds))
