"""Manifests with unsupported kinds: each refusal names an alternative, and pods in the same file can be applied."""

from __future__ import annotations

import json

import pytest

from syncpod.pod import ManifestErrors, load_documents, parse_pod
from syncpod.pod.problems import PodInvalid

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}}

MAKES_PODS = {"kind": "Deployment", "spec": {"template": {"spec": POD["spec"]}}}


@pytest.mark.parametrize(
    ("document", "way"),
    [
        (MAKES_PODS, "not Deployment: apply its spec.template as a Pod, with a metadata.name"),
        (MAKES_PODS | {"kind": "CloneSet"}, "not CloneSet: apply its spec.template as a Pod"),
        (
            {"kind": "CronJob", "spec": {"jobTemplate": MAKES_PODS}},
            "not CronJob: apply its spec.jobTemplate.spec.template as a Pod, with a metadata.name, from a timer",
        ),
        ({"kind": "PodTemplate", "template": POD}, "not PodTemplate: apply its template as a Pod"),
        ({"kind": "Job", "spec": {"template": {"spec": 7}}}, "kind: must be Pod, ConfigMap, Secret or List, not Job"),
        ({"kind": "PersistentVolumeClaim"}, "use a hostPath volume in place of the claim, or emptyDir"),
        ({"kind": "Service"}, "reach the pod at its own address, by a hostPort, or with `syncpod port-forward`"),
        ({"kind": "Kustomization"}, "kubectl kustomize DIR | syncpod apply -f -"),
        ({"services": {"web": {"image": "nginx"}}}, "document 1: is a Compose file: write a Pod for its services"),
        ({"services": {"web": 1}, "apiVersion": "v1"}, "document 1: kind: required"),
        ({"kind": "pod"}, "kind: must be Pod, ConfigMap, Secret or List, not pod: capital letters matter: write Pod"),
        ({"kind": "configMap"}, "not configMap: capital letters matter: write ConfigMap"),
        ({"kind": "Frobnicator"}, "kind: must be Pod, ConfigMap, Secret or List, not Frobnicator"),
    ],
)
def test_a_refusal_says_what_to_do_instead(document: dict[str, object], way: str) -> None:
    with pytest.raises(ManifestErrors) as refused:
        load_documents(json.dumps(document))
    assert way in str(refused.value)


def test_documents_of_other_kinds_can_be_skipped_and_are_named() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [service, POD]}
    left_out: list[str] = []
    found = load_documents("\n".join(map(json.dumps, (service, listed, {"kind": "X"}))), left_out=left_out)
    assert [each.metadata.name for each in found] == ["web"]
    assert left_out == ["Service front", "Service front", "X"]
    with pytest.raises(ManifestErrors, match="kind: required"):
        load_documents("{}", left_out=[])
    with pytest.raises(ManifestErrors, match="write Pod"):
        load_documents(json.dumps({**POD, "kind": "pod"}), left_out=[])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"evictionResponders": []}, "spec.evictionResponders"),
        (
            {"containers": [{"volumeMounts": [{"bindMountOptions": []}]}]},
            "spec.containers[0].volumeMounts[0].bindMount",
        ),
        ({"volumes": [{"emptyDir": {"mode": 448}}]}, "spec.volumes[0].emptyDir.mode"),
        ({"volumes": [{"configMap": {"items": [{"user": 1}]}}]}, "spec.volumes[0].configMap.items[0].user"),
    ],
)
def test_a_field_of_a_newer_kubernetes_is_reported_as_such(spec: dict[str, object], field: str) -> None:
    with pytest.raises(PodInvalid) as refused:
        parse_pod(POD | {"spec": spec})
    said = next(line for one in refused.value.problems if (line := str(one)).startswith(field) and "unknown" in line)
    assert said.endswith(
        "unknown field: it is an alpha field of Kubernetes 1.37, behind a feature gate that is off; leave it out"
    )
