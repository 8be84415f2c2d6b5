"""CoreDNS in the cluster, as kubeadm deploys it: a Deployment behind the Service kube-dns, with its own RBAC role."""

from __future__ import annotations

import json
from typing import Any, Final

from qa.conformance.control_plane import CLUSTER_DNS, DOMAIN, ControlPlane
from qa.conformance.images import coredns_name

_NAMESPACE: Final = "kube-system"
_LABELS: Final = {"k8s-app": "kube-dns"}
_PATIENCE: Final = 600.0
# Without `forward`: there is no name server outside.
_CONFIGURATION: Final = f"""\
.:53 {{
    errors
    health
    ready
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        ttl 30
    }}
    cache 30
    loadbalance
}}
"""


def start(cluster: ControlPlane) -> None:
    """Deploy CoreDNS, and wait until it is ready.

    Raises CalledProcessError with kubectl's output if an object is refused, or CoreDNS is not ready in ten minutes.
    """
    path = cluster.directory / "coredns.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects()}))
    cluster.kubectl("apply", "-f", str(path))
    wait = ("rollout", "status", "deployment/coredns", "-n", _NAMESPACE, f"--timeout={_PATIENCE:.0f}s")
    cluster.kubectl(*wait, timeout=_PATIENCE + 30)


def _objects() -> list[dict[str, Any]]:
    name, account = "system:coredns", {"kind": "ServiceAccount", "name": "coredns", "namespace": _NAMESPACE}
    read = {"verbs": ["list", "watch"]}
    ports = [{"name": f"dns-{each}", "port": 53, "protocol": each.upper()} for each in ("udp", "tcp")]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata("coredns")},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], **read},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], **read},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata("coredns"),
            "data": {"Corefile": _CONFIGURATION},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata("coredns"), "spec": _deployment()},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata("kube-dns"),
            "spec": {"clusterIP": CLUSTER_DNS, "selector": _LABELS, "ports": ports},
        },
    ]


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": _NAMESPACE, "labels": _LABELS}


def _deployment() -> dict[str, Any]:
    probes = {
        kind: {"httpGet": {"path": path, "port": port}}
        for kind, path, port in (("livenessProbe", "/health", 8080), ("readinessProbe", "/ready", 8181))
    }
    container = {
        "name": "coredns",
        "image": coredns_name(),
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"requests": {"cpu": "100m", "memory": "70Mi"}},
        "ports": [{"containerPort": 53, "name": f"dns-{each}", "protocol": each.upper()} for each in ("udp", "tcp")],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        **probes,
    }
    spread = {
        "weight": 100,
        "podAffinityTerm": {"labelSelector": {"matchLabels": _LABELS}, "topologyKey": "kubernetes.io/hostname"},
    }
    spec = {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return {
        "replicas": 2,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": spec},
    }
