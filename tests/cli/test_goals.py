"""The arguments of ``wait --for``, and when each condition is met."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.cli.input.goals import Created, Deleted, HasCondition, HasValue, parse_goal
from syncpod.cli.view.jsonpath import parse_path

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "shop", "a b": "c"}},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {"name": "app", "ready": True, "restartCount": 3},
            {"name": "side", "ready": False, "restartCount": 0},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("{.status.phase}", ["Running"]),
        (".status.phase", ["Running"]),
        ("status.phase", ["Running"]),
        ("{$.status['phase']}", ["Running"]),
        ('{.status["phase"]}', ["Running"]),
        (r"{.metadata.labels.app\.kubernetes\.io/name}", ["shop"]),
        ("{.metadata.labels['app.kubernetes.io/name']}", ["shop"]),
        ("{.metadata.labels['a b']}", ["c"]),
        ("{.status.containerStatuses[0].name}", ["app"]),
        ("{.status.containerStatuses[-1].name}", ["side"]),
        ("{.status.containerStatuses[2].name}", []),
        ("{.status.containerStatuses[*].ready}", [True, False]),
        ("{.status.containerStatuses.*.name}", ["app", "side"]),
        ("{.metadata.labels.*}", ["shop", "c"]),
        ('{.status.conditions[?(@.type=="Ready")].status}', ["False"]),
        ("{.status.conditions[?(@.type != 'Ready')].type}", ["Initialized"]),
        ("{.status.containerStatuses[?(@.restartCount>=3)].name}", ["app"]),
        ("{.status.containerStatuses[?(@.ready==true)].name}", ["app"]),
        ("{.status.containerStatuses[?(@.name<3)].name}", []),
        ("{.status.containerStatuses[?(@.lastState)].name}", []),
        ("{.status.containerStatuses[?(@.name)].name}", ["app", "side"]),
        ("{.status.phase.deeper}", []),
        ("{.status.podIP}", []),
    ],
)
def test_a_wait_path_is_resolved_as_by_kubectl(path: str, values: list[Any]) -> None:
    assert parse_path(path).find(POD) == values


@pytest.mark.parametrize(
    "path", ["{.a", ".a}", "", "{}", "{..a}", "{.a[1:2]}", "{.a[?(@.b==x)]}", "{.a[?(@.b~3)]}", "{.a b}", "{.a[b]}"]
)
def test_an_invalid_wait_path_is_named(path: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_path(path)
    assert repr(path) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("condition=Ready", False),
        ("condition=ready=false", True),
        ("condition=Ready=Unknown", False),
        ("condition=initialized", True),
        ("condition=Gone", False),
        ("jsonpath='{.status.phase}'=Running", True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath={.status.podIP}", False),
        ("jsonpath=.status.phase==Running", True),
        ('jsonpath={.status.conditions[?(@.type=="Ready")].status}=False', True),
        ('jsonpath=.status.conditions[?(@.type=="Ready")].status="False"', True),
        ("jsonpath={.status.containerStatuses[0].restartCount}=3", True),
        ("jsonpath={.status.containerStatuses[0].ready}=true", True),
        ("jsonpath={.status.containerStatuses[*].ready}=false", True),
        ("create", True),
    ],
)
def test_a_wait_goal_is_met_as_for_kubectl(text: str, is_met: bool) -> None:
    goal = parse_goal(text)
    assert isinstance(goal, Created | HasCondition | HasValue)
    assert goal.is_met(POD) is is_met


def test_an_object_is_never_equal_to_a_value() -> None:
    goal = parse_goal("jsonpath={.status}=Running")
    assert isinstance(goal, HasValue)
    with pytest.raises(ValueError, match="leads to an object or a list"):
        goal.is_met(POD)


def test_deletion_is_a_valid_wait_goal() -> None:
    assert parse_goal("delete") == Deleted()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ready",
        "delete=1",
        "condition",
        "condition=",
        "condition=Ready=",
        "jsonpath",
        "jsonpath={.a}=",
        "jsonpath={",
    ],
)
def test_an_invalid_goal_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_goal(text)
    assert "\n" not in str(refused.value)
