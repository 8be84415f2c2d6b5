"""The files of a downward API volume."""

from typing import Any

import pytest

from syncpod.pod.volumes import DownwardAPIVolumeFile
from syncpod.translation import ContainerConfigError
from syncpod.translation.downward import volume_field
from tests.translation.translation import NODE, UID, make_container

POD, _ = make_container({"resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}})
POD = POD.model_copy(
    update={"metadata": POD.metadata.model_copy(update={"labels": {"b": "2", "a": "1"}, "annotations": {"x": 'q"'}})}
)


def shown(**source: Any) -> str:
    file = DownwardAPIVolumeFile.model_validate({"path": "p", **source}, extra="forbid")
    return volume_field(file, POD, NODE, "spec.volumes[0].downwardAPI.items[0]")


FIELDS = {
    "metadata.name": "web",
    "metadata.namespace": "default",
    "metadata.uid": UID,
    "metadata.labels": 'a="1"\nb="2"',
    "metadata.annotations": 'x="q\\""',
    "metadata.labels['b']": "2",
    "metadata.annotations['none']": "",
}


@pytest.mark.parametrize(("field", "text"), FIELDS.items())
def test_a_downward_file_has_a_metadata_field(field: str, text: str) -> None:
    assert shown(fieldRef={"fieldPath": field}) == text


def test_a_clusters_pod_shows_its_containers_the_annotations_that_it_has_under_a_kubelet() -> None:
    own = {"x": "y", "kubernetes.io/config.hash": UID, "kubernetes.io/config.source": "kubernetes"}
    given = POD.model_copy(update={"metadata": POD.metadata.model_copy(update={"annotations": own})})
    file = DownwardAPIVolumeFile.model_validate({"path": "p", "fieldRef": {"fieldPath": "metadata.annotations"}})
    assert volume_field(file, given, NODE, "") == 'kubernetes.io/config.source="api"\nx="y"'
    static = POD.metadata.model_copy(update={"annotations": {**own, "kubernetes.io/config.source": "file"}})
    kept = volume_field(file, POD.model_copy(update={"metadata": static}), NODE, "")
    assert kept == f'kubernetes.io/config.hash="{UID}"\nkubernetes.io/config.source="file"\nx="y"'


RESOURCES = [
    ("limits.cpu", "", "2"),
    ("limits.cpu", "1m", "1500"),
    ("requests.cpu", "1m", "250"),
    ("limits.memory", "1Mi", "64"),
    ("limits.memory", "", "67108864"),
    ("requests.ephemeral-storage", "", "0"),
]


@pytest.mark.parametrize(("resource", "divisor", "text"), RESOURCES)
def test_a_downward_file_has_a_container_resource_divided_and_rounded_up(
    resource: str, divisor: str, text: str
) -> None:
    said = {"divisor": divisor} if divisor else {}
    assert shown(resourceFieldRef={"containerName": "main", "resource": resource, **said}) == text


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "an address, which the pod has not yet": (
        {"fieldRef": {"fieldPath": "status.podIP"}},
        "fieldRef.fieldPath: 'status.podIP' is not a field that a volume can show",
    ),
    "nothing": ({}, "required, one of fieldRef or resourceFieldRef"),
    "no container": ({"resourceFieldRef": {"resource": "limits.cpu"}}, "resourceFieldRef.containerName: required"),
    "another container": (
        {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}},
        "resourceFieldRef.containerName: the pod has no container 'x'",
    ),
}


@pytest.mark.parametrize(("source", "message"), ERRORS.values(), ids=ERRORS)
def test_an_unsupported_downward_field_is_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError) as caught:
        shown(**source)
    assert message in str(caught.value)
    assert str(caught.value).startswith("spec.volumes[0].downwardAPI.items[0]")
