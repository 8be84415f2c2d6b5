"""Volumes that the API server would refuse are refused with the invalid field's path."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from syncpod.pod import Volume
from syncpod.pod.volumes import DriverSource
from tests.pod.examples import problems

V = "spec.volumes[0]"
S = "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
FIELDS = "metadata.name, metadata.namespace, metadata.uid, metadata.labels, metadata.annotations"
RESOURCES = (
    "limits.cpu, limits.memory, limits.ephemeral-storage, requests.cpu, requests.memory, requests.ephemeral-storage"
)
BYTES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def volume(**source: Any) -> dict[str, Any]:
    """Change the pod's one volume to this."""
    return {"spec.volumes.0": {"name": "work", **source}}


def item(**fields: Any) -> dict[str, Any]:
    return {"key": "k", "path": "p"} | fields


def field(path: str = "f", field_path: str = "metadata.name", **fields: Any) -> dict[str, Any]:
    return {"path": path, "fieldRef": {"fieldPath": field_path}} | fields


def resource(resource: str = "limits.cpu", **fields: Any) -> dict[str, Any]:
    return {"path": "r", "resourceFieldRef": {"containerName": "server", "resource": resource} | fields}


def projected(*sources: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return volume(projected={"sources": list(sources), **fields})


def claim(template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return volume(ephemeral={"volumeClaimTemplate": {"spec": CLAIM | spec, **(template or {})}})


GOOD: list[dict[str, Any]] = [
    volume(),
    volume(emptyDir={"medium": "HugePages-2Mi", "sizeLimit": "1Gi"}),
    volume(configMap={"name": "c", "defaultMode": 0, "items": [item(path="a/..b/c", mode=0o777)]}),
    volume(configMap={"name": "No Such Name", "items": [item(), item()]}),
    volume(secret={"secretName": "s", "items": [item(key="any key"), item(path="a.b")], "optional": True}),
    volume(downwardAPI={"items": [field(), field("a/b", "metadata.labels"), field("c", "metadata.annotations['A.B/c']", mode=0o400)]}),
    volume(downwardAPI={"items": [resource(), resource(divisor="0.001"), resource("requests.memory", divisor="1024Ki"), resource("limits.hugepages-2Mi", divisor="1000k")]}),
    projected(),
    projected({}),
    projected({"secret": {"name": "a", "items": [item()]}}, {"configMap": {"name": "a", "items": [item(path="q")]}}, {"downwardAPI": {"items": [field()]}}),
    projected({"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}, defaultMode=0o440),
    projected({"clusterTrustBundle": {"name": "example.com:signer:bundle", "path": "ca"}}),
    projected({"clusterTrustBundle": {"signerName": "example.com/signer", "labelSelector": {"matchLabels": {"a": "b"}}, "path": "ca"}}),
    projected({"podCertificate": {"signerName": "kubernetes.io/a.b", "keyType": "ED25519", "maxExpirationSeconds": 86400, "keyPath": "k", "userAnnotations": {"example.com/A": "x"}}}),
    volume(image={"reference": "registry.local/files:1", "pullPolicy": "Never"}),
    volume(hostPath={"path": "/", "type": "CharDevice"}),
    claim({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, storageClassName="", volumeMode="Block"),
    claim(dataSource={"kind": "PersistentVolumeClaim", "name": "x"}, dataSourceRef={"kind": "PersistentVolumeClaim", "name": "x"}),
    claim() | {"spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/dev/xvda"}]},
]  # fmt: skip


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_volumes_accepted_by_kubernetes_are_accepted(changes: dict[str, Any]) -> None:
    assert problems(changes) == []


BAD: list[tuple[dict[str, Any], str]] = [
    (volume(emptyDir={"medium": "HugePages-x"}), f"{V}.emptyDir.medium: must be empty, Memory, HugePages or HugePages-<size>"),
    (volume(emptyDir={"sizeLimit": "-1"}), f"{V}.emptyDir.sizeLimit: must not be negative"),
    (volume(hostPath={"path": "data"}), f"{V}.hostPath.path: must be an absolute path"),
    (volume(hostPath={"path": "/a/.."}), f"{V}.hostPath.path: must not contain '..'"),
    (volume(configMap={}), f"{V}.configMap.name: required"),
    (volume(configMap={"name": "c", "defaultMode": 0o1000}), f"{V}.configMap.defaultMode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (volume(configMap={"name": "c", "items": [item(key="")]}), f"{V}.configMap.items[0].key: required"),
    (volume(configMap={"name": "c", "items": [item(path="")]}), f"{V}.configMap.items[0].path: required"),
    (volume(configMap={"name": "c", "items": [item(path="/etc/passwd")]}), f"{V}.configMap.items[0].path: must be a relative path"),
    (volume(configMap={"name": "c", "items": [item(path="a/../../b")]}), f"{V}.configMap.items[0].path: must not contain '..'"),
    (volume(configMap={"name": "c", "items": [item(path="..data")]}), f"{V}.configMap.items[0].path: must not start with '..'"),
    (volume(configMap={"name": "c", "items": [item(mode=-1)]}), f"{V}.configMap.items[0].mode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (volume(secret={}), f"{V}.secret.secretName: required"),
    (volume(secret={"secretName": "s", "defaultMode": -1}), f"{V}.secret.defaultMode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (volume(secret={"secretName": "s", "items": [item(), item(path="../p")]}), f"{V}.secret.items[1].path: must not contain '..'"),
    (volume(downwardAPI={"defaultMode": 512}), f"{V}.downwardAPI.defaultMode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (volume(downwardAPI={"items": [{"path": "a"}]}), f"{V}.downwardAPI.items[0]: must have one of fieldRef and resourceFieldRef"),
    (volume(downwardAPI={"items": [field() | resource()]}), f"{V}.downwardAPI.items[0]: must have one of fieldRef and resourceFieldRef"),
    (volume(downwardAPI={"items": [field("..a")]}), f"{V}.downwardAPI.items[0].path: must not start with '..'"),
    (volume(downwardAPI={"items": [field(mode=512)]}), f"{V}.downwardAPI.items[0].mode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (volume(downwardAPI={"items": [field(field_path="")]}), f"{V}.downwardAPI.items[0].fieldRef.fieldPath: required"),
    (volume(downwardAPI={"items": [field(field_path="spec.nodeName")]}), f"{V}.downwardAPI.items[0].fieldRef.fieldPath: must be metadata.labels['key'], metadata.annotations['key'] or {FIELDS}"),
    (volume(downwardAPI={"items": [field(field_path="metadata.name['a']")]}), f"{V}.downwardAPI.items[0].fieldRef.fieldPath: may have a key in brackets only behind metadata.labels and metadata.annotations"),
    (volume(downwardAPI={"items": [field(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"})]}), f"{V}.downwardAPI.items[0].fieldRef.apiVersion: must be v1"),
    (volume(downwardAPI={"items": [resource(containerName="")]}), f"{V}.downwardAPI.items[0].resourceFieldRef.containerName: required"),
    (volume(downwardAPI={"items": [resource("")]}), f"{V}.downwardAPI.items[0].resourceFieldRef.resource: required"),
    (volume(downwardAPI={"items": [resource("limits.gpu")]}), f"{V}.downwardAPI.items[0].resourceFieldRef.resource: must be one of {RESOURCES}"),
    (volume(downwardAPI={"items": [resource(divisor="10m")]}), f"{V}.downwardAPI.items[0].resourceFieldRef.divisor: must be one of 1m, 1"),
    (volume(downwardAPI={"items": [resource("limits.memory", divisor="1024")]}), f"{V}.downwardAPI.items[0].resourceFieldRef.divisor: must be one of {BYTES}"),
    (projected(defaultMode=512), f"{V}.projected.defaultMode: must be between 0 and 0777 (in JSON: 0 and 511)"),
    (projected({"secret": {"name": "a"}, "configMap": {"name": "b"}}), f"{V}.projected.sources[0]: must have one source, not secret and configMap"),
    (projected({"secret": {}}), f"{V}.projected.sources[0].secret.name: required"),
    (projected({"configMap": {"name": "a", "items": [item(path="..")]}}), f"{V}.projected.sources[0].configMap.items[0].path: must not contain '..'"),
    (projected({"secret": {"name": "a", "items": [item()]}}, {"configMap": {"name": "b", "items": [item()]}}), f"{V}.projected.sources[1].configMap.items[0].path: p is there twice"),
    (projected({"downwardAPI": {"items": [field("x"), field("x")]}}), f"{V}.projected.sources[0].downwardAPI.items[1].path: x is there twice"),
    (projected({"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}), f"{V}.projected.sources[0].serviceAccountToken.expirationSeconds: must be between 600 and 4294967296"),
    (projected({"serviceAccountToken": {}}), f"{V}.projected.sources[0].serviceAccountToken.path: required"),
    (projected({"clusterTrustBundle": {"path": "p"}}), f"{V}.projected.sources[0].clusterTrustBundle: must have one of name and signerName"),
    (projected({"clusterTrustBundle": {"path": "p", "name": "a", "labelSelector": {}}}), f"{V}.projected.sources[0].clusterTrustBundle.labelSelector: must not be set beside name"),
    (projected({"clusterTrustBundle": {"path": "p", "signerName": "example/a"}}), f"{V}.projected.sources[0].clusterTrustBundle.signerName: must be a domain and a path such as example.com/signer"),
    (projected({"clusterTrustBundle": {"name": "x:"}}), f"{V}.projected.sources[0].clusterTrustBundle.name: {S}"),
    (projected({"podCertificate": {"signerName": "a.b/c", "keyType": "RSA2048", "keyPath": "k"}}), f"{V}.projected.sources[0].podCertificate.keyType: must be RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519"),
    (projected({"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519"}}), f"{V}.projected.sources[0].podCertificate: must have at least one of credentialBundlePath, keyPath, certificateChainPath"),
    (projected({"podCertificate": {"signerName": "x.kubernetes.io/c", "keyType": "ED25519", "keyPath": "k", "maxExpirationSeconds": 86401}}), f"{V}.projected.sources[0].podCertificate.maxExpirationSeconds: must be between 3600 and 86400"),
    (projected({"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k", "certificateChainPath": "k"}}), f"{V}.projected.sources[0].podCertificate.certificateChainPath: k is there twice"),
    (projected({"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "/k", "userAnnotations": {"a": "b"}}}), f"{V}.projected.sources[0].podCertificate.userAnnotations[a]: must have a domain before it, such as example.com/key"),
    (volume(image={}), f"{V}.image.reference: required"),
    (volume(persistentVolumeClaim={}), f"{V}.persistentVolumeClaim.claimName: required"),
    ({"spec.volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}, {"name": "b", "persistentVolumeClaim": {"claimName": "web-a"}}]}, "spec.volumes[1].persistentVolumeClaim.claimName: must not be the claim of an ephemeral volume"),
    (volume(ephemeral={}), f"{V}.ephemeral.volumeClaimTemplate: required"),
    (claim({"metadata": {"name": "x"}}), f"{V}.ephemeral.volumeClaimTemplate.metadata.name: must not be set in a template"),
    (claim(accessModes=[]), f"{V}.ephemeral.volumeClaimTemplate.spec.accessModes: required"),
    (claim(accessModes=["ReadWriteOncePod", "ReadWriteMany"]), f"{V}.ephemeral.volumeClaimTemplate.spec.accessModes: must not hold ReadWriteOncePod beside others"),
    (claim(resources={}), f"{V}.ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: required"),
    (claim(resources={"requests": {"storage": "0"}}), f"{V}.ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: must be greater than 0"),
    (claim(storageClassName="A"), f"{V}.ephemeral.volumeClaimTemplate.spec.storageClassName: {S}"),
    (claim(dataSource={"kind": "VolumeSnapshot", "name": "x"}), f"{V}.ephemeral.volumeClaimTemplate.spec.dataSource.kind: must be PersistentVolumeClaim where apiGroup is empty"),
    (claim(dataSource={"apiGroup": "g", "kind": "K", "name": "x"}, dataSourceRef={"apiGroup": "g", "kind": "K", "name": "y"}), f"{V}.ephemeral.volumeClaimTemplate.spec.dataSource: must agree with dataSourceRef"),
    ({"metadata.name": "a" * 200} | claim() | {"spec.volumes.0.name": "b" * 60}, f"{V}.name: its claim's name, with the pod's before it, must be no more than 253 characters"),
    ({"spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/d"}]}, "spec.containers[0].volumeDevices[0].name: must be a volume of persistentVolumeClaim or ephemeral"),
    (claim() | {"spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/d"}, {"name": "work", "devicePath": "/e"}]}, "spec.containers[0].volumeDevices[1].name: work is in volumeDevices already"),
    (claim() | {"spec.containers.0.volumeMounts": [{"name": "work", "mountPath": "/d"}], "spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/e"}]}, "spec.containers[0].volumeDevices[0].name: work is in volumeMounts already"),
    (claim() | {"spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/../d"}]}, "spec.containers[0].volumeDevices[0].devicePath: must not contain '..'"),
    (claim() | {"spec.hostUsers": False, "spec.containers.0.volumeDevices": [{"name": "work", "devicePath": "/d"}]}, "spec.containers[0].volumeDevices: must not be set beside hostUsers: false"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD, ids=[problem[:100] for _, problem in BAD])
def test_volumes_refused_by_kubernetes_are_refused_by_path(changes: dict[str, Any], problem: str) -> None:
    assert problem in problems(changes)


@pytest.mark.parametrize(
    "source",
    [
        field.alias
        for name, field in Volume.model_fields.items()
        if name not in ("name", "empty_dir", "downward_api", "projected") and field.annotation != DriverSource | None
    ],
)
def test_an_empty_volume_source_counts_as_unset(source: str) -> None:
    """Only an emptyDir, and a list of files that is empty, mean something by themselves."""
    found = problems(volume(**{source: {}}))
    assert found
    assert all(problem.startswith(f"{V}.{source}") for problem in found)


def test_two_sources_of_one_volume_are_both_named() -> None:
    assert problems(volume(emptyDir={}, hostPath={"path": "/"}, secret={"secretName": "s"})) == [
        f"{V}: must have one source, not hostPath and emptyDir and secret"
    ]
