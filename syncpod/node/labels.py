"""A node's labels: those that a kubelet would set, and those that the node's owner adds.

Mirrors kubelet_node_status.go, v1.36, initialNode, and cmd/kubelet/app/options/options.go, ValidateKubeletFlags.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from syncpod.kernel.machine import architecture
from syncpod.lifecycle.node_affinity import matches_node
from syncpod.pod import Pod
from syncpod.pod.validation.syntax import label_value, qualified_name
from syncpod.translation.context import NodeContext

HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"

_RESERVED: Final = ("kubernetes.io", "k8s.io")
_ALLOWED_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ALLOWED: Final = (
    HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS,
    ARCH,
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)


class NodeLabelsInvalid(ValueError):
    """Labels of a node are invalid; the text names one and describes a valid one."""


def node_labels(name: str, added: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of this machine's node; an added label replaces a default one of the same key."""
    return {HOSTNAME: name, OS: os.uname().sysname.lower(), ARCH: architecture()} | dict(added)


def is_asked_for(pod: Pod, node: NodeContext) -> bool:
    """Return whether the node has the labels and the name that the pod requires."""
    return matches_node(pod, node.name, {**node.labels, **node.labels_of_cluster})


def parse_node_labels(text: str) -> Mapping[str, str]:
    """Parse ``disk=ssd,example.com/rack=7``. Raises :class:`NodeLabelsInvalid`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        wrong = "" if equals else "must be key=value"
        wrong = wrong or qualified_name(key) or label_value(value) or ("is named twice" if key in found else "")
        if wrong or _is_reserved(key):
            raise NodeLabelsInvalid(f"node label {part!r}: {wrong or _OTHERS}")
        found[key] = value
    return found


_OTHERS: Final = (
    "must have no prefix of kubernetes.io or k8s.io but node.kubernetes.io/, kubelet.kubernetes.io/ and "
    "the labels that a kubelet may set, such as topology.kubernetes.io/zone"
)


def _is_reserved(key: str) -> bool:
    """Return whether only Kubernetes may choose such a label (pkg/kubelet/apis/well_known_labels.go, v1.36)."""
    prefix = key.rpartition("/")[0]
    if key in _ALLOWED or not _is_below(prefix, _RESERVED):
        return False
    return not _is_below(prefix, _ALLOWED_PREFIXES)


def _is_below(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
