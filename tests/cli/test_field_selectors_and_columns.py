"""Field selectors, the order of objects, and custom columns; pure."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.api.field_selector import parse_field_selector
from syncpod.cli.view.custom_columns import parse_columns, parse_template
from syncpod.cli.view.jsonpath import parse_path
from syncpod.cli.view.sorting import in_order

A: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "x"},
    "spec": {"nodeName": "n1", "containers": [{"image": "i:1"}, {"image": "j:2"}]},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}], "size": "10Mi"},
}
B: dict[str, Any] = {
    "metadata": {"name": "b", "labels": {"k": "v"}},
    "spec": {"hostNetwork": True},
    "status": {"size": "9Mi"},
}
C: dict[str, Any] = {"metadata": {"name": "c"}, "status": {"size": None}}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", "abc"),
        ("status.phase=Running", "a"),
        ("status.phase!=Running", "bc"),
        ("metadata.name==b, spec.hostNetwork=true", "b"),
        ("spec.hostNetwork=false", "ac"),
        ("status.podIPs=10.0.0.1,spec.nodeName=n1", ""),
        ("spec.nodeName=", "bc"),
    ],
)
def test_objects_are_selected_by_their_fields(selector: str, names: str) -> None:
    chosen = parse_field_selector(selector)
    assert "".join(one["metadata"]["name"] for one in (A, B, C) if chosen.matches(one)) == names


@pytest.mark.parametrize("text", ["a", "status.phase>1", "spec.image=b", "=x", "status.phase=a b"])
def test_an_invalid_field_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_field_selector(text)


@pytest.mark.parametrize(
    ("path", "names"),
    [(".status.size", "cba"), ("{.metadata.name}", "abc"), (".spec.hostNetwork", "acb"), (".no", "abc")],
)
def test_objects_are_sorted_by_size_or_as_text_and_those_without_come_first(path: str, names: str) -> None:
    ordered = in_order([A, B, C], parse_path(path), lambda one: one)
    assert "".join(one["metadata"]["name"] for one in ordered) == names


def test_custom_columns_print_the_same_as_in_kubectl() -> None:
    columns = parse_columns(
        "NAME:.metadata.name,IMAGES:.spec.containers[*].image,IPS:{.status.podIPs},L:metadata.labels"
    )
    assert columns.header == ("NAME", "IMAGES", "IPS", "L")
    assert columns.row(A) == ["a", "i:1,j:2", "[map[ip:10.0.0.1] map[ip:fd::1]]", "<none>"]
    assert columns.row(B) == ["b", "<none>", "<none>", "map[k:v]"]
    assert columns.row(C)[0] == "c"
    assert parse_template("NAME  PHASE\n.metadata.name .status.phase\n").row(A) == ["a", "Running"]
    for wrong in ("", "NAME", "NAME:", ":.a", "A:.b,,"):
        with pytest.raises(ValueError):
            parse_columns(wrong)
    with pytest.raises(ValueError):
        parse_template("A B\n.a\n")
