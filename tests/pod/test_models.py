"""The models have every field of core/v1."""

# ruff: noqa: E501 - the tables have one case a line

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import syncpod.pod
from syncpod.pod import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Model,
    ObjectMeta,
    Pod,
    PodInvalid,
    PodSpec,
    PodStatus,
    Volume,
    downward_files,
    parse_pod,
    pod_to_wire,
)
from syncpod.pod.parse import NEWER_FIELDS, is_newer
from tests.pod.examples import changed, pod

FIELDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "core_v1_fields.json").read_text())
"""The fields of each type that a Pod, ConfigMap or Secret is made of, as `k8s.io/api` v0.37.2 has them.

NodeAllocatableResourceClaimStatus also has `resources`, which v0.36.2 has in the place of two of these.
"""


@pytest.mark.parametrize("kind", FIELDS)
def test_the_models_have_exactly_the_fields_of_the_api(kind: str) -> None:
    model: type[Model] = getattr(syncpod.pod, kind)
    ours = {str(field.alias) for field in model.model_fields.values()}
    assert {name for name in FIELDS[kind] if not is_newer(kind, name)} == ours


def test_the_fields_that_are_called_newer_are_fields_of_the_api() -> None:
    named = {(kind, name) for kind, names in NEWER_FIELDS.items() for name in names}
    assert named - {(kind, name) for kind, names in FIELDS.items() for name in names} == set()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.containers.0.imagePullPolcy", "Always", "spec.containers[0].imagePullPolcy: unknown field; did you mean imagePullPolicy?"),
        ("spec.containers.0.image_pull_policy", "Always", "spec.containers[0].image_pull_policy: unknown field; did you mean imagePullPolicy?"),
        ("spec.hostnetwork", True, "spec.hostnetwork: unknown field; did you mean hostNetwork?"),
        ("spec.volumes.0.emptyDir", {"size": "1Gi"}, "spec.volumes[0].emptyDir.size: unknown field"),
        ("extra", 1, "extra: unknown field"),
        ("name", "x", "name: unknown field; it is a field of metadata: is it indented far enough?"),
        ("spec.image", "x", "spec.image: unknown field; it is a field of spec.containers: is it indented far enough?"),
        ("spec.containers.0.volumes", [], "spec.containers[0].volumes: unknown field; it is a field of spec: is it indented too far?"),
        ("metadata.spec", {}, "metadata.spec: unknown field; it is a field of the object itself: is it indented too far?"),
        ("kind", "Deployment", "kind: must be Pod"),
        ("apiVersion", "v2", "apiVersion: must be v1"),
        ("metadata", [], "metadata: must be an object"),
        ("metadata.labels", {"app": 1}, "metadata.labels[app]: must be a string; put it in quotes"),
        ("metadata.annotations", {"a.b/c": True}, "metadata.annotations[a.b/c]: must be a string; put it in quotes"),
        ("metadata.creationTimestamp", "yesterday", "metadata.creationTimestamp: must be an RFC 3339 time such as 2026-01-31T12:00:00Z"),
        ("spec.containers", {}, "spec.containers: must be a list"),
        ("spec.containers.1", None, "spec.containers[1]: must be an object"),
        ("spec.containers.0.command", "sh", "spec.containers[0].command: must be a list"),
        ("spec.containers.0.args", ["-p", 80], "spec.containers[0].args[1]: must be a string; put it in quotes"),
        ("spec.containers.0.ports", [{"containerPort": "80"}], "spec.containers[0].ports[0].containerPort: must be an integer, not a string"),
        ("spec.containers.0.ports", [{"containerPort": True}], "spec.containers[0].ports[0].containerPort: must be an integer"),
        ("spec.containers.0.ports", [{"containerPort": 2**31}], "spec.containers[0].ports[0].containerPort: must fit into 32 bits"),
        ("spec.containers.0.tty", "yes", "spec.containers[0].tty: must be true or false"),
        ("spec.containers.0.tty", 1, "spec.containers[0].tty: must be true or false"),
        ("spec.restartPolicy", "Sometimes", "spec.restartPolicy: must be Always, OnFailure or Never"),
        ("spec.containers.0.resources", {"limits": {"cpu": "1 core"}}, "spec.containers[0].resources.limits[cpu]: has an unknown suffix ' core'; it may be n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"),
        ("spec.containers.0.livenessProbe", {"tcpSocket": {"port": None}}, None),
        ("spec.containers.0.livenessProbe", {"tcpSocket": {"port": 1.5}}, "spec.containers[0].livenessProbe.tcpSocket.port: must be an integer or a string"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_path(path: str, value: Any, problem: str | None) -> None:
    document = changed({path: value})
    if problem is None:
        parse_pod(document)
        return
    with pytest.raises(PodInvalid) as caught:
        parse_pod(document)
    assert str(caught.value) == problem


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(PodInvalid) as caught:
        parse_pod(pod(spec__x=1, metadata__labels={"a": 1}, spec__hostPID="no"))
    assert [problem.path for problem in caught.value.problems] == ["metadata.labels[a]", "spec.hostPID", "spec.x"]


@pytest.mark.parametrize("document", [None, [], "pod", 1])
def test_a_value_that_is_not_an_object_is_not_a_pod(document: Any) -> None:
    with pytest.raises(PodInvalid, match=r"^must be an object$"):
        parse_pod(document)


def test_a_document_nested_too_deeply_is_refused() -> None:
    document: dict[str, Any] = pod()
    inner = document["metadata"]
    for _ in range(200):
        inner["x"] = {}
        inner = inner["x"]
    with pytest.raises(PodInvalid, match="nested more than 100 levels deep"):
        parse_pod(document)


def test_records_of_another_version_may_have_unknown_fields_at_any_depth() -> None:
    document = pod(x=1, spec__y=1)
    document["spec"]["containers"][0]["z"] = {}
    assert parse_pod(document, strict=False) == parse_pod(pod())


def test_unknown_status_fields_in_a_manifest_are_ignored() -> None:
    assert parse_pod(pod(status={"phase": "Running", "later": 1})).status == PodStatus(phase="Running")
    with pytest.raises(PodInvalid, match=r"^status\.phase: must be"):
        parse_pod(pod(status={"phase": "Asleep"}))


def test_null_and_empty_strings_count_as_unset() -> None:
    document = pod(spec__dnsPolicy="", spec__restartPolicy="", spec__nodeSelector=None, metadata__labels={"a": None})
    document["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "protocol": ""}]
    parsed = parse_pod(document)
    assert parsed.spec.dns_policy is None and parsed.spec.restart_policy is None
    assert parsed.spec.node_selector == {}
    assert parsed.metadata.labels == {"a": ""}
    assert parsed.spec.containers[0].ports[0].protocol is None


def test_records_are_made_by_attribute_and_cannot_be_changed() -> None:
    made = Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(containers=(Container(name="c", image="i"),), host_pid=True))
    assert made == parse_pod(
        {"metadata": {"name": "a"}, "spec": {"hostPID": True, "containers": [{"name": "c", "image": "i"}]}}
    )
    with pytest.raises(ValueError, match="frozen"):
        made.spec.host_pid = False  # type: ignore[misc]


def test_the_wire_form_has_exactly_the_fields_that_are_set() -> None:
    document = pod(spec__hostUsers=False, spec__securityContext={}, spec__terminationGracePeriodSeconds=0)
    assert pod_to_wire(parse_pod(document)) == document
    assert pod_to_wire(Pod()) == {"apiVersion": "v1", "kind": "Pod"}
    assert pod_to_wire(Volume(name="v")) == {"name": "v"}


def test_meaningful_zeros_are_written() -> None:
    status = ContainerStatus(name="c", state=ContainerState(terminated=ContainerStateTerminated(reason="Completed")))
    assert pod_to_wire(status) == {
        "name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "",
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }  # fmt: skip


def test_times_are_utc_and_written_with_z() -> None:
    moment = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    written = {"creationTimestamp": "2026-01-31T12:00:00Z"}
    assert pod_to_wire(ObjectMeta(creation_timestamp=moment)) == written
    eastern = timezone(timedelta(hours=2))
    assert pod_to_wire(ObjectMeta(creation_timestamp=datetime(2026, 1, 31, 14, 0, tzinfo=eastern))) == written
    for text in ("2026-01-31T12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31T14:00:00.000000000+02:00"):
        assert parse_pod({"metadata": {"creationTimestamp": text}}).metadata.creation_timestamp == moment
    with pytest.raises(ValueError, match="time zone"):
        ObjectMeta(creation_timestamp=datetime(2026, 1, 31))  # noqa: DTZ001


def test_downward_api_items_are_listed_for_volumes_and_projections() -> None:
    def item(path: str) -> dict[str, Any]:
        return {"path": path, "fieldRef": {"fieldPath": "metadata.name"}}

    own = Volume.model_validate({"name": "v", "downwardAPI": {"items": [item("a"), item("b")]}})
    parts: list[dict[str, Any]] = [{"downwardAPI": {"items": [item("c")]}}, {"secret": {"name": "s"}}]
    projected = Volume.model_validate({"name": "v", "projected": {"sources": [*parts, *parts[:1]]}})
    assert [file.path for file in downward_files(own)] == ["a", "b"]
    assert [file.path for file in downward_files(projected)] == ["c", "c"]
    assert not list(downward_files(Volume(name="v")))
