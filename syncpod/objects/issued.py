"""The trust anchors and certificates that a cluster issues for a pod, and their form on the node.

A node stores them as ConfigMaps and Secrets of the cluster, under names made from the pod's UID and its request. The
cluster does not have these objects, and no pod can refer to them by name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from syncpod.objects.refs import ObjectRef
from syncpod.pod import ConfigMap, LabelSelector, ObjectMeta, Pod, Secret
from syncpod.pod.volumes import ClusterTrustBundleProjection, PodCertificateProjection
from syncpod.pod.wire import to_wire

BUNDLE_KEY: Final = "bundle"
BOTH_KEY: Final = "both"
PRIVATE_KEY: Final = "key"
CHAIN_KEY: Final = "chain"
_REFRESH: Final = "syncpod.dev/refresh"
_EXPIRES: Final = "syncpod.dev/expires"
_DEFAULT_ACCOUNT: Final = "default"


@dataclass(frozen=True)
class BundleNeed:
    """Trust anchors that a pod's volumes contain."""

    ref: ObjectRef
    """The reference under which the node stores them."""
    pod: str
    name: str
    """The name of the ClusterTrustBundle; "" = the bundles of `signer`."""
    signer: str
    selector: LabelSelector | None
    """Selects among the signer's bundles; None selects none."""
    is_optional: bool


@dataclass(frozen=True)
class CertificateNeed:
    """A certificate that a pod's volumes contain."""

    ref: ObjectRef
    """The reference under which the node stores it."""
    pod: str
    uid: str
    service_account: str
    signer: str
    key_type: str
    """The key's type as Kubernetes spells it: `ECDSAP256`, `RSA3072`, …"""
    seconds: int | None
    """Maximum lifetime of the certificate in seconds; None = the pod sets none."""
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The pod's userAnnotations for the signer."""


def bundle_ref(pod: Pod, wanted: ClusterTrustBundleProjection) -> ObjectRef:
    """Return the reference to trust anchors of a pod. Equal sources share one reference."""
    name = _name(pod, {**to_wire(wanted), "path": ""})
    return ObjectRef("ConfigMap", pod.metadata.namespace or "default", name, "bundle")


def certificate_ref(pod: Pod, volume: str, index: int) -> ObjectRef:
    """Return the reference to a certificate of a pod. Each source has its own certificate, as in the kubelet."""
    name = _name(pod, {"volume": volume, "index": index})
    return ObjectRef("Secret", pod.metadata.namespace or "default", name, "certificate")


def issued_needs(pod: Pod) -> Iterator[BundleNeed | CertificateNeed]:
    """Yield the trust anchors and certificates that a pod of a cluster needs."""
    for volume in pod.spec.volumes:
        for index, part in enumerate(volume.projected.sources if volume.projected is not None else ()):
            if (bundle := part.cluster_trust_bundle) is not None:
                yield BundleNeed(
                    bundle_ref(pod, bundle),
                    pod.metadata.name,
                    bundle.name or "",
                    bundle.signer_name or "",
                    bundle.label_selector,
                    bool(bundle.optional),
                )
            if (certificate := part.pod_certificate) is not None:
                yield _certificate(pod, certificate, certificate_ref(pod, volume.name, index))


def kept_bundle(ref: ObjectRef, anchors: str) -> ConfigMap:
    """Return the ConfigMap in which a node stores trust anchors, as PEM; "" = the pod runs without any."""
    return ConfigMap(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace), data={BUNDLE_KEY: anchors})


def kept_certificate(ref: ObjectRef, key: str, chain: str, refresh: datetime, expires: datetime) -> Secret:
    """Return the Secret in which a node stores a certificate: key, chain, and the time of the next one."""
    annotations = {_REFRESH: refresh.isoformat(), _EXPIRES: expires.isoformat()}
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace, annotations=annotations)
    texts = {BOTH_KEY: key + chain, PRIVATE_KEY: key, CHAIN_KEY: chain}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    return Secret(metadata=metadata, data=encoded, type="Opaque")


def refresh_at(kept: ConfigMap | Secret) -> datetime | None:
    """Return the time at which the next certificate is due; None if that cannot be read."""
    try:
        return datetime.fromisoformat(kept.metadata.annotations[_REFRESH])
    except (KeyError, ValueError):
        return None


def _certificate(pod: Pod, wanted: PodCertificateProjection, ref: ObjectRef) -> CertificateNeed:
    return CertificateNeed(
        ref,
        pod.metadata.name,
        pod.metadata.uid,
        pod.spec.service_account_name or _DEFAULT_ACCOUNT,
        wanted.signer_name,
        wanted.key_type,
        wanted.max_expiration_seconds,
        dict(wanted.user_annotations),
    )


def _name(pod: Pod, said: Mapping[str, object]) -> str:
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
    return f"{pod.metadata.uid}-{digest}"
