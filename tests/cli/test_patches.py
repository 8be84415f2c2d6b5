"""Patches of a pod: strategic merge, JSON merge, JSON patch."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.cli.input.patches import merged, patched, strategically_merged

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"a": "1", "b/c": "2"}},
    "spec": {
        "containers": [{"name": "app", "image": "app:1", "args": ["x"]}, {"name": "side", "image": "s:1"}],
        "tolerations": [{"key": "old"}],
    },
}


def containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["spec"]["containers"]
    return found


def test_a_strategic_patch_merges_containers_by_name_and_replaces_other_lists() -> None:
    patch = {
        "metadata": {"labels": {"a": None}},
        "spec": {
            "containers": [{"name": "side", "image": "s:2"}, {"name": "new", "image": "n"}],
            "tolerations": [{"key": "new"}],
        },
    }
    after = strategically_merged(POD, patch)
    assert [each["image"] for each in containers(after)] == ["app:1", "s:2", "n"]
    assert after["metadata"] == {"name": "web", "labels": {"b/c": "2"}}
    assert after["spec"]["tolerations"] == [{"key": "new"}]
    assert containers(POD)[1]["image"] == "s:1", "the document itself stays as it was"


def test_directives_delete_and_replace() -> None:
    gone = strategically_merged(POD, {"spec": {"containers": [{"name": "app", "$patch": "delete"}]}})
    assert [each["name"] for each in containers(gone)] == ["side"]
    alone = strategically_merged(POD, {"spec": {"containers": [{"$patch": "replace"}, {"name": "x"}]}})
    assert containers(alone) == [{"name": "x"}]
    assert strategically_merged(POD, {"metadata": {"$patch": "replace", "name": "b"}})["metadata"] == {"name": "b"}


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ({"spec": {"containers": [{"image": "a"}]}}, r"spec.containers\[0\].name: required"),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, r"spec.containers\[0\].name: required"),
        ({"spec": {"$setElementOrder/containers": []}}, "is not supported here: use --type json"),
        ({"spec": {"$patch": "frob"}}, r"spec.\$patch: must be merge, replace"),
    ],
)
def test_an_invalid_strategic_patch_is_refused_by_its_path(patch: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        strategically_merged(POD, patch)


def test_a_merge_patch_replaces_lists() -> None:
    after = merged(POD, {"spec": {"containers": [{"name": "x"}]}, "metadata": {"labels": None}})
    assert after["spec"] == {"containers": [{"name": "x"}], "tolerations": [{"key": "old"}]}
    assert after["metadata"] == {"name": "web"}


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "app:2"}, "app:2"),
        ({"op": "copy", "from": "/spec/containers/1/image", "path": "/spec/containers/0/image"}, "s:1"),
        ({"op": "move", "from": "/metadata/labels/b~1c", "path": "/spec/containers/0/image"}, "2"),
    ],
)
def test_a_json_patch_changes_what_its_path_names(operation: dict[str, Any], value: str) -> None:
    assert containers(patched(POD, [operation]))[0]["image"] == value


def test_a_json_patch_adds_removes_and_tests() -> None:
    operations = [
        {"op": "test", "path": "/metadata/name", "value": "web"},
        {"op": "add", "path": "/spec/containers/0/args/-", "value": "z"},
        {"op": "add", "path": "/spec/containers/0/args/0", "value": "w"},
        {"op": "remove", "path": "/metadata/labels/b~1c"},
    ]
    after = patched(POD, operations)
    assert containers(after)[0]["args"] == ["w", "x", "z"] and after["metadata"]["labels"] == {"a": "1"}


@pytest.mark.parametrize(
    ("known", "value", "is_same"),
    [
        (True, 1, False),
        ([{"a": True}], [{"a": 1}], False),
        (1, 1.0, True),
        ({"a": [1, None]}, {"a": [1, None]}, True),
        (False, 0, False),
    ],
)
def test_a_json_patch_tells_a_boolean_from_a_number(known: object, value: object, is_same: bool) -> None:
    test = {"op": "test", "path": "/spec", "value": value}
    if is_same:
        assert patched({"spec": known}, [test]) == {"spec": known}
    else:
        with pytest.raises(ValueError, match="the test fails"):
            patched({"spec": known}, [test])


@pytest.mark.parametrize(
    ("operations", "sentence"),
    [
        ({"op": "add"}, "a list of operations"),
        ([{"op": "remove", "path": "/spec/none"}], r"\[0\] /spec/none: leads nowhere"),
        ([{"op": "replace", "path": "/spec/none", "value": 1}], "leads nowhere"),
        ([{"op": "test", "path": "/metadata/name", "value": "x"}], "the test fails"),
        ([{"op": "add", "path": "/spec/containers/9", "value": 1}], "the list has only 2 elements"),
        ([{"op": "add", "path": "/spec/containers/-4", "value": 1}], "the list has only 2 elements"),
        ([{"op": "remove", "path": "/spec/containers/-3"}], "the list has only 2 elements"),
        ([{"op": "remove", "path": "/spec/containers/-"}], "- is no index of a list"),
        ([{"op": "remove", "path": "/spec/containers/ 1"}], " 1 is no index of a list"),
        ([{"op": "remove", "path": "/spec/containers/1_0"}], "1_0 is no index of a list"),
        ([{"op": "remove", "path": ""}], "leads nowhere"),
        ([{"op": "test", "path": "/spec/none", "value": 1}], r"\[0\] /spec/none: the test fails"),
        ([{"op": "test", "path": "/none/none", "value": None}], "leads nowhere"),
        ([{"op": "test", "path": "/metadata/name/none", "value": None}], "leads nowhere"),
        ([{"op": "move", "from": "/spec", "path": "/spec/a"}], "leads nowhere"),
        ([{"op": "add", "path": "/spec/a"}], r"\[0\] /spec/a: value is required"),
        ([{"op": "copy", "path": "/spec/a"}], "from is required"),
        ([{"op": "remove", "path": 1}], "path must be a string"),
        ([{"op": "frob", "path": "/spec"}], "op must be add, remove"),
        ([{"op": "add", "path": "spec", "value": 1}], "a path begins with /"),
        ([{"path": "/spec"}], "op must be add, remove, replace, move, copy or test, not None"),
        ([{"op": ["add"], "path": "/spec"}], "op must be add, remove"),
        (["add"], "must be an object with op and path"),
    ],
)
def test_an_operation_that_cannot_be_done_is_named(operations: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        patched(POD, operations)


@pytest.mark.parametrize(
    ("operation", "args"),
    [
        ({"op": "add", "path": "/args/-1", "value": "x"}, ["a", "b", "c", "x"]),
        ({"op": "add", "path": "/args/-2", "value": "x"}, ["a", "b", "x", "c"]),
        ({"op": "add", "path": "/args/-4", "value": "x"}, ["x", "a", "b", "c"]),
        ({"op": "add", "path": "/args/3", "value": "x"}, ["a", "b", "c", "x"]),
        ({"op": "remove", "path": "/args/-1"}, ["a", "b"]),
        ({"op": "replace", "path": "/args/-3", "value": "x"}, ["x", "b", "c"]),
        ({"op": "move", "from": "/args/-1", "path": "/args/0"}, ["c", "a", "b"]),
        ({"op": "test", "path": "/args/-2", "value": "b"}, ["a", "b", "c"]),
        ({"op": "test", "path": "/none", "value": None}, ["a", "b", "c"]),
    ],
)
def test_a_json_patch_counts_from_the_end_as_kubernetes_does(operation: dict[str, Any], args: list[str]) -> None:
    """A server of Kubernetes counts the places for a new element from the end of the list that it will be."""
    assert patched({"args": ["a", "b", "c"]}, [operation]) == {"args": args}


def test_a_json_patch_replaces_the_whole_document_and_shares_nothing_with_it() -> None:
    value: dict[str, Any] = {"labels": {}}
    operations = [
        {"op": "add", "path": "/metadata", "value": value},
        {"op": "add", "path": "/metadata/labels/a", "value": "1"},
        {"op": "copy", "from": "/metadata", "path": ""},
    ]
    assert patched(POD, operations) == {"labels": {"a": "1"}} and value == {"labels": {}}
