"""Pods that are made for another operating system than the one of a node.

Mirrors pkg/kubelet/lifecycle/predicate.go, v1.36: rejectPodAdmissionBasedOnOSSelector and
rejectPodAdmissionBasedOnOSField.
"""

from __future__ import annotations

from typing import Final

from syncpod.pod.kinds import Pod

_OS: Final = "linux"
_OS_LABEL: Final = "kubernetes.io/os"


def os_refusal(pod: Pod) -> tuple[str, str] | None:
    """Return reason and message for a pod that is made for another OS; None for one of Linux."""
    if pod.metadata.labels.get(_OS_LABEL, _OS) != _OS:
        return (
            "PodOSSelectorNodeLabelDoesNotMatch",
            f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != _OS:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None
