"""An object is replaced by another of the same name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.objects import Change, ObjectRefused, admit_object
from syncpod.objects.replacing import replaced
from syncpod.pod import ConfigMap, PodInvalid, Secret, parse_config_map, parse_secret
from tests.objects.objects import config_map, secret

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def put(held: ConfigMap | Secret | None, wanted: ConfigMap | Secret) -> tuple[ConfigMap | Secret, Change]:
    return replaced(held, wanted, now=NOW, uid="uid-2")


def held(wanted: ConfigMap | Secret) -> ConfigMap | Secret:
    return replaced(None, wanted, now=EARLIER, uid="uid-1")[0]


def test_a_change_keeps_uid_and_creation_time_and_increments_the_version() -> None:
    kept, change = put(held(config_map(data={"a": "1"})), config_map(data={"b": "2"}))
    assert change == "configured"
    assert (kept.metadata.uid, kept.metadata.creation_timestamp, kept.metadata.resource_version) == (
        "uid-1", EARLIER, "2",
    )  # fmt: skip
    assert kept.data == {"b": "2"}, "what the manifest has no more is gone"


def test_labels_and_annotations_are_replaced_by_those_of_the_new_manifest() -> None:
    before = held(parse_config_map({"metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {"n": "1"}}}))
    kept, change = put(before, parse_config_map({"metadata": {"name": "a", "labels": {"y": "2"}}}))
    assert change == "configured"
    assert (kept.metadata.labels, kept.metadata.annotations) == ({"y": "2"}, {})


def test_uid_and_creation_time_in_a_manifest_are_ignored() -> None:
    before = held(config_map(data={"a": "1"}))
    again = parse_config_map(
        {
            "metadata": {"name": "a", "uid": "x", "resourceVersion": "9", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "data": {"a": "1"},
        }
    )
    assert put(before, again) == (before, "unchanged")


def test_string_data_of_a_secret_overrides_its_data() -> None:
    kept, _ = put(None, secret(data={"a": "b2xk", "b": "b2xk"}, stringData={"a": "new"}))
    assert isinstance(kept, Secret)
    assert (kept.data, kept.string_data, kept.type) == ({"a": "bmV3", "b": "b2xk"}, {}, "Opaque")
    assert put(kept, secret(stringData={"a": "new", "b": "old"}))[1] == "unchanged"


WHY = "Forbidden: field is immutable when `immutable` is set"


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            config_map(data={"k": "1"}, immutable=True),
            config_map(data={"k": "2"}, immutable=True),
            f'The ConfigMap "a" is invalid: data: {WHY}',
        ),
        (
            config_map(binaryData={"k": "AA=="}, immutable=True),
            config_map(),
            f'The ConfigMap "a" is invalid: immutable: {WHY}; binaryData: {WHY}',
        ),
        (
            secret(data={"k": "AA=="}, immutable=True),
            secret(data={"k": "AB=="}, immutable=True, stringData={"j": "x"}),
            f'The Secret "a" is invalid: data: {WHY}',
        ),
        (
            secret(type="example.com/a"),
            secret(),
            'The Secret "a" is invalid: type: Invalid value: "Opaque": field is immutable',
        ),
    ],
)
def test_a_change_of_an_immutable_object_is_refused_as_by_an_api_server(
    before: ConfigMap | Secret, after: ConfigMap | Secret, sentence: str
) -> None:
    with pytest.raises(ObjectRefused) as refused:
        put(held(before), after)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("immutable", [None, False, True])
def test_labels_of_an_immutable_object_may_change(immutable: bool | None) -> None:
    before = held(secret(stringData={"k": "v"}, immutable=True))
    after = parse_secret({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "dg=="}, "immutable": True})
    assert put(before, after)[1] == "configured"
    mutable = held(config_map(data={"k": "v"}, immutable=immutable if immutable is not True else None))
    assert put(mutable, config_map(data={"k": "w"}, immutable=True))[1] == "configured"


def document(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "stringData": {"k": "hunter2"}}


def test_an_object_is_admitted_without_the_fields_that_a_cluster_added() -> None:
    given = document(
        uid="u",
        resourceVersion="1",
        finalizers=["f"],
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "mine": "x"},
    )
    admitted, warnings = admit_object(parse_secret(given))
    assert admitted.metadata.annotations == {"mine": "x"}
    assert (admitted.metadata.namespace, admitted.metadata.uid, admitted.metadata.finalizers) == ("default", "", ())
    assert [str(warning) for warning in warnings] == [
        "metadata: dropped what an API server filled in: resourceVersion, uid",
        "metadata.finalizers: dropped: only a cluster's controllers use it",
        "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: dropped: it repeats the object's data",
    ]
    assert "hunter2" not in repr(admitted)


def test_an_invalid_object_is_refused() -> None:
    with pytest.raises(PodInvalid, match=r"data\[/\]: must consist"):
        admit_object(config_map(data={"/": ""}))
