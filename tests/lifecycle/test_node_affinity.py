"""Row 6: whether a node's labels and name match a pod's node selector and affinity."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.lifecycle.node_affinity import matches_node
from syncpod.pod import Pod, parse_pod

LABELS = {"disk": "ssd", "cores": "8", "name": "eight", "empty": "", "huge": "9223372036854775808"}


def pod(**spec: Any) -> Pod:
    containers = [{"name": "web", "image": "busybox:1"}]
    return parse_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": containers, **spec},
        }
    )


def requiring(*terms: dict[str, Any]) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(affinity={"nodeAffinity": required})


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def matches(asking: Pod) -> bool:
    return matches_node(asking, "n1", LABELS)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, True),
        ({"disk": "ssd"}, True),
        ({"disk": "ssd", "cores": "8"}, True),
        ({"disk": "ssd", "cores": "4"}, False),
        ({"empty": ""}, True),
        ({"rack": ""}, False),
    ],
)
def test_every_label_of_a_node_selector_must_match(selector: dict[str, str], found: bool) -> None:
    """Row 6: nodeSelector."""
    assert matches(pod(nodeSelector=selector)) is found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (term("disk", "In", "hdd", "ssd"), True),
        (term("disk", "In", "hdd"), False),
        (term("rack", "In", ""), False),
        (term("disk", "NotIn", "hdd"), True),
        (term("disk", "NotIn", "ssd"), False),
        (term("rack", "NotIn", "7"), True),
        (term("empty", "Exists"), True),
        (term("rack", "Exists"), False),
        (term("rack", "DoesNotExist"), True),
        (term("empty", "DoesNotExist"), False),
        (term("cores", "Gt", "7"), True),
        (term("cores", "Gt", "8"), False),
        (term("cores", "Lt", "9"), True),
        (term("cores", "Lt", "8"), False),
        (term("cores", "Gt", "-1"), True),
        (term("rack", "Gt", "0"), False),
        (term("name", "Gt", "0"), False),
        (term("huge", "Gt", "0"), False),
        (field("In", "n1"), True),
        (field("In", "n2"), False),
        (field("NotIn", "n2"), True),
        (field("NotIn", "n1"), False),
        ({**term("disk", "In", "ssd"), **field("In", "n2")}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_node_selector_term_matches_if_all_its_requirements_match(asked: dict[str, Any], found: bool) -> None:
    """Row 6: required node affinity, with every operator, and an empty term, which holds nowhere."""
    assert matches(requiring(asked)) is found


def test_one_matching_term_suffices_and_no_terms_match_no_node() -> None:
    assert matches(requiring(term("disk", "In", "hdd"), term("cores", "Gt", "7")))
    assert not matches(requiring(term("disk", "In", "hdd"), {}))
    assert not matches(requiring())


def test_preferred_affinity_rejects_no_pod() -> None:
    preferred = [{"weight": 1, "preference": term("disk", "In", "hdd")}]
    asking = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert matches(asking)
    assert not matches(asking.model_copy(update={"spec": asking.spec.model_copy(update={"node_selector": {"a": "b"}})}))
