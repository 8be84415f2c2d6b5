"""Fields of a Pod that are alpha in Kubernetes 1.37, behind feature gates that are off: known, not taken for typos.

The gates (pkg/features/kube_features.go, v1.37) are EvictionRequestAPI, VolumeBindMountOptions, H2CContainerProbe,
GRPCContainerProbeTLS, EmptyDirVolumeMode, AtomicWriteVolumeUserFields, CSIVolumeHealth and DRANodeAllocatableResources;
an API server drops such a field.
"""

from collections.abc import Mapping
from typing import Final

NEWER: Final = "1.37"
"""The version that brought these fields."""

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "PodSpec": frozenset({"evictionResponders"}),
    "PodStatus": frozenset({"volumeHealth"}),
    "NodeAllocatableResourceClaimStatus": frozenset({"mapping", "overhead"}),
    "VolumeMount": frozenset({"bindMountOptions"}),
    "HTTPGetAction": frozenset({"protocol"}),
    "GRPCAction": frozenset({"mode"}),
    "EmptyDirVolumeSource": frozenset({"mode"}),
    "SecretVolumeSource": frozenset({"defaultUser"}),
    "ConfigMapVolumeSource": frozenset({"defaultUser"}),
    "ProjectedVolumeSource": frozenset({"defaultUser"}),
    "DownwardAPIVolumeSource": frozenset({"defaultUser"}),
    "KeyToPath": frozenset({"user"}),
    "DownwardAPIVolumeFile": frozenset({"user"}),
    "ServiceAccountTokenProjection": frozenset({"user"}),
    "ClusterTrustBundleProjection": frozenset({"user"}),
    "PodCertificateProjection": frozenset({"user"}),
}
"""By the struct of k8s.io/api/core/v1, which has the name of its model."""


def is_newer(struct: str, field: str) -> bool:
    """Return whether a field of a struct came with the newer version."""
    return field in FIELDS.get(struct, ())
