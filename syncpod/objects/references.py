"""The objects to which a pod refers, and the fields that refer to them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from syncpod.objects.claims import claim_ref
from syncpod.objects.issued import bundle_ref, certificate_ref
from syncpod.objects.refs import Kind, ObjectRef, ref_for, services_ref
from syncpod.objects.store import ObjectStore
from syncpod.objects.tokens import token_ref
from syncpod.pod import Container, EnvFromSource, EnvVar, Pod, Volume
from syncpod.pod.kinds import values
from syncpod.pod.origin import is_of_cluster

Use = Literal["env", "volume", "pull"]
_BROUGHT: Final = {"ephemeral": "ephemeral", "persistent_volume_claim": "persistentVolumeClaim", "csi": "csi"}
"""The sources of volumes that a cluster provides: the attribute of `Volume`, and the source's name in Kubernetes."""


@dataclass(frozen=True, order=True, slots=True)
class Reference:
    """One field of a pod that refers to an object."""

    ref: ObjectRef
    optional: bool
    """True if the pod runs without the object, too: it is marked optional, or it is a pull secret, as in the
    kubelet."""
    key: str | None
    """The one key that a variable takes; None if the field means all keys, or the items of a volume."""
    path: str
    """The field's path, as Kubernetes spells it: ``spec.containers[0].env[2].valueFrom.secretKeyRef``."""
    use: Use


def references(pod: Pod) -> tuple[Reference, ...]:
    """Return a reference for each ConfigMap and Secret that the pod names, in the order of its manifest.

    The result includes everything that a cluster provides for the pod. A node stores tokens and certificates as
    Secrets, and the variables of Services, trust anchors, and the places of claims and of drivers' volumes as
    ConfigMaps.

    An object that is named twice appears twice. The Secrets of storage drivers are not included: the Secret of a `csi`
    volume is read when the driver is called and is not stored, and pods with the other drivers' volumes are refused
    (pod/util.go, v1.36, VisitPodSecretNames and VisitPodConfigmapNames).
    """
    return tuple(_references(pod))


def resolve(store: ObjectStore, pod: Pod) -> Mapping[ObjectRef, Mapping[str, bytes]]:
    """Return the values of each object that the pod refers to and that exists. Blocks.

    Raises OSError, ObjectUnreadable.
    """
    found: dict[ObjectRef, Mapping[str, bytes]] = {}
    for ref in sorted({reference.ref for reference in references(pod)}):
        held = store.get(ref)
        if held is not None:
            found[ref] = values(held)
    return found


def _references(pod: Pod) -> Iterator[Reference]:
    spec = pod.spec
    for index, pull in enumerate(spec.image_pull_secrets):
        if pull.name:  # validation accepts an empty name, as the API server does
            ref = ref_for(pod, "Secret", pull.name)
            yield Reference(ref, True, None, f"spec.imagePullSecrets[{index}]", "pull")
    for index, volume in enumerate(spec.volumes):
        yield from _of_volume(pod, volume, f"spec.volumes[{index}]")
    kinds: tuple[tuple[str, tuple[Container, ...]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for field, containers in kinds:
        for index, container in enumerate(containers):
            here = f"spec.{field}[{index}]"
            if (services := services_ref(pod)) is not None:
                yield Reference(services, False, None, f"{here}.env", "env")
            for number, source in enumerate(container.env_from):
                yield from _of_env_from(pod, source, f"{here}.envFrom[{number}]")
            for number, variable in enumerate(container.env):
                yield from _of_variable(pod, variable, f"{here}.env[{number}].valueFrom")


def _of_env_from(pod: Pod, source: EnvFromSource, here: str) -> Iterator[Reference]:
    if (config_map := source.config_map_ref) is not None:
        ref = ref_for(pod, "ConfigMap", config_map.name)
        yield Reference(ref, bool(config_map.optional), None, f"{here}.configMapRef", "env")
    if (secret := source.secret_ref) is not None:
        ref = ref_for(pod, "Secret", secret.name)
        yield Reference(ref, bool(secret.optional), None, f"{here}.secretRef", "env")


def _of_variable(pod: Pod, variable: EnvVar, here: str) -> Iterator[Reference]:
    source = variable.value_from
    if source is None:
        return
    if (config_map := source.config_map_key_ref) is not None:
        ref = ref_for(pod, "ConfigMap", config_map.name)
        yield Reference(ref, bool(config_map.optional), config_map.key, f"{here}.configMapKeyRef", "env")
    if (secret := source.secret_key_ref) is not None:
        ref = ref_for(pod, "Secret", secret.name)
        yield Reference(ref, bool(secret.optional), secret.key, f"{here}.secretKeyRef", "env")


def _of_volume(pod: Pod, volume: Volume, here: str) -> Iterator[Reference]:
    def reference(kind: Kind, name: str, optional: bool | None, path: str) -> Reference:
        return Reference(ref_for(pod, kind, name), bool(optional), None, path, "volume")

    if (claim := claim_ref(pod, volume)) is not None:
        kind = next(kind for kind in _BROUGHT if getattr(volume, kind) is not None)
        yield Reference(claim, False, None, f"{here}.{_BROUGHT[kind]}", "volume")
    if (config_map := volume.config_map) is not None:
        yield reference("ConfigMap", config_map.name, config_map.optional, f"{here}.configMap")
    if (secret := volume.secret) is not None:
        yield reference("Secret", secret.secret_name, secret.optional, f"{here}.secret")
    for index, part in enumerate(volume.projected.sources if volume.projected is not None else ()):
        path = f"{here}.projected.sources[{index}]"
        if part.config_map is not None:
            yield reference("ConfigMap", part.config_map.name, part.config_map.optional, f"{path}.configMap")
        if part.secret is not None:
            yield reference("Secret", part.secret.name, part.secret.optional, f"{path}.secret")
        if part.service_account_token is not None and is_of_cluster(pod.metadata):
            token = token_ref(pod, part.service_account_token)
            yield Reference(token, False, None, f"{path}.serviceAccountToken", "volume")
        if part.cluster_trust_bundle is not None and is_of_cluster(pod.metadata):
            anchors = bundle_ref(pod, part.cluster_trust_bundle)
            yield Reference(anchors, False, None, f"{path}.clusterTrustBundle", "volume")
        if part.pod_certificate is not None and is_of_cluster(pod.metadata):
            certificate = certificate_ref(pod, volume.name, index)
            yield Reference(certificate, False, None, f"{path}.podCertificate", "volume")
