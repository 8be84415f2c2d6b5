"""Hostile documents are refused early, in few words.

The same documents can reach a node as updates and signals, without a file and without YAML.
"""

# ruff: noqa: E501 - the tables have one case a line

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod import PodInvalid, admit, admit_ephemeral_container, parse_pod, readmit
from tests.pod.everything import EVERYTHING
from tests.pod.examples import changed, pod

MANY = 100_000
C = "spec.containers.0"


def many(text: str) -> dict[str, str]:
    return {text.format(n): "v" for n in range(MANY)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "labels": ({"metadata.labels": many("k{}")}, "must have no more than 20000 values"),
    "annotations": ({"metadata.annotations": many("k{}")}, "must have no more than 20000 values"),
    "unknown fields": ({"spec": many("containers{}")}, "must have no more than 20000 values"),
    "environment": ({f"{C}.env": [{}] * MANY}, "must have no more than 20000 values"),
    "nesting": ({"spec.affinity": json.loads("[" * 400 + "]" * 400)}, "nested more than 100 levels deep"),
    "containers": ({"spec.containers": [{}] * 501}, "spec.containers: must be no more than 500"),
    "init containers": ({"spec.initContainers": [{}] * 501}, "spec.initContainers: must be no more than 500"),
    "volumes": ({"spec.volumes": [{}] * MANY}, "spec.volumes: must be no more than 500"),
    "half a pair": ({f"{C}.args": ["a", "\ud800"]}, "spec.containers[0].args[1]: must be text; half of a surrogate pair is none"),
    "half a pair in a key": ({"metadata.labels": {"\udfff": ""}}, "metadata.labels: must be text; half of a surrogate pair is none"),
    "a NUL in a path": ({"spec.volumes.0": {"name": "work", "hostPath": {"path": "/etc\0/x"}}}, "spec.volumes[0].hostPath.path: must have no NUL character, which no process and no path can be given"),
    "a NUL in a command": ({f"{C}.command": ["\0"]}, "spec.containers[0].command[0]: must have no NUL character, which no process and no path can be given"),
    "a huge number": ({"spec.priority": 10**5000}, "spec.priority: must fit into 32 bits"),
    "a huge amount": ({f"{C}.resources": {"limits": {"cpu": 10**5000}}}, "spec.containers[0].resources.limits[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    "a huge exponent": ({f"{C}.resources": {"limits": {"cpu": "1e999999999"}}}, "spec.containers[0].resources.limits[cpu]: has an exponent out of range: e999999999"),
    "more digits than count": ({f"{C}.resources": {"limits": {"cpu": "9" * 10**6}}}, "spec.containers[0].resources.limits[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    "not a number": ({f"{C}.resources": {"limits": {"cpu": float("nan")}}}, "spec.containers[0].resources.limits[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    "infinity": ({f"{C}.resources": {"limits": {"cpu": float("-inf")}}}, "spec.containers[0].resources.limits[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    "a field like an order to the terminal": ({"spec": {"\x1b[2J\x1b]0;owned\x07": 1}}, r"spec.\x1b[2J\x1b]0;owned\x07: unknown field"),
    "a field that forges a line": ({"spec": {"x\nsyncpod: pod/web created": 1}}, r"spec.x\nsyncpod: pod/web created: unknown field"),
    "a field written backwards": ({"metadata": {"\u202eeman": "a"}}, r"metadata.\u202eeman: unknown field"),
    "a field in letters that look alike": ({"metadata": {"n\u0430me": "a"}}, r"metadata.n\u0430me: unknown field; did you mean name?"),
    "a field a megabyte long": ({"spec": {"x" * 2**20: 1}}, f"spec.{'x' * 80}: unknown field"),
    "a value a megabyte long": ({f"{C}.volumeMounts": [{"name": "x" * 2**20, "mountPath": "/"}]}, f"spec.containers[0].volumeMounts[0].name: '{'x' * 999}…"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_document_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PodInvalid) as caught:
        admit(changed(changes))
    assert str(caught.value) == sentence


def test_at_most_twenty_problems_are_named() -> None:
    with pytest.raises(PodInvalid) as caught:
        admit(changed({"metadata.labels": {f"k{n}": n for n in range(10_000)}}))
    (paths, reason), rest = (said := str(caught.value).split("; "))[0].split(": "), said[1:]
    assert len(caught.value.problems) == 10_000
    assert paths.split(", ") == [f"metadata.labels[k{n}]" for n in range(20)]
    assert (reason, rest) == ("must be a string", ["put it in quotes", "and 9980 more"]), (
        "what several fields have in common is said once"
    )
    assert len(str(caught.value)) < 5_000


def test_a_pod_record_is_read_regardless_of_its_size() -> None:
    """A node's own record of a pod is not refused for a bound that came later."""
    assert len(readmit(changed({"metadata.labels": many("k{}")})).pod.metadata.labels) == MANY


@pytest.mark.parametrize(
    "document", [None, [], "x", 5, 1.5, True, {"spec": []}, {"metadata": "x"}, {"spec": {"containers": {}}}]
)
def test_a_document_that_is_not_an_object_is_refused(document: Any) -> None:
    with pytest.raises(PodInvalid):
        admit(document)
    with pytest.raises(PodInvalid):
        admit_ephemeral_container(parse_pod(pod()), document)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(
        [
            "",
            " ",
            "..",
            "../..",
            "/",
            "$(A)",
            "~",
            "0",
            "-1",
            "1e9",
            "None",
            "\0",
            "\ud800",
            "\x1b[31m",
            "\u202e",
            "a" * 300,
        ]
    ),
    st.sampled_from([{}, [], [None], [[]], [{}], {"": None}, {"name": None}, {"\ud800": 1}, 2**31, -(2**63), 10**400]),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value of a document, beginning with the document itself."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    whole = copy.deepcopy(document)
    holder = whole
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return whole


@given(path=st.sampled_from(list(places(EVERYTHING))), value=ANYTHING)
def test_any_value_at_any_path_is_accepted_or_refused_with_its_path(path: tuple[str | int, ...], value: Any) -> None:
    try:
        admit(replaced(EVERYTHING, path, value))
    except PodInvalid as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) < 30_000
        assert error.problems
