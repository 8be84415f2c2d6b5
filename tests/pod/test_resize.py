"""What a resize may ask for, and the pod that it makes."""

# ruff: noqa: E501 - the table has one case a line

from __future__ import annotations

from typing import Any

import pytest

from syncpod.pod import Pod, PodInvalid, parse_pod, resized, with_defaults
from tests.pod.examples import changed

C = "spec.containers.0.resources"


def a_pod(changes: dict[str, Any]) -> Pod:
    return with_defaults(parse_pod(changed(changes)))


def test_resources_are_merged_by_name_and_nothing_else_changes() -> None:
    old = a_pod({C: {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}}})
    wish = {"containers": [{"name": "server", "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "32Mi"}}}]}
    new = resized(old, wish)
    assert new.spec.containers[0].resources.limits == {"cpu": "2", "memory": "64Mi"}
    assert new.spec.containers[0].resources.requests == {"cpu": "500m", "memory": "32Mi"}
    assert new.spec.containers[1] == old.spec.containers[1]
    assert resized(new, wish) == new


def test_an_added_limit_also_becomes_the_request() -> None:
    wish = {"initContainers": [{"name": "setup", "resources": {"limits": {"memory": "1Gi"}}}]}
    assert resized(a_pod({}), wish).spec.init_containers[0].resources.requests == {"memory": "1Gi"}


def test_pod_level_resources_are_resized() -> None:
    old = a_pod({"spec.resources": {"requests": {"cpu": "1"}}})
    new = resized(old, {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}})
    assert new.spec.resources is not None
    assert (new.spec.resources.requests, new.spec.resources.limits) == ({"cpu": "2"}, {"cpu": "3"})


REFUSED: list[tuple[Any, str]] = [
    ({}, "names no limit and no request of cpu or memory"),
    ({"containers": [{"name": "server"}]}, "names no limit and no request of cpu or memory"),
    ({"container": []}, "container: unknown field; did you mean containers?"),
    ("server", "must be an object"),
    ({"containers": [{"name": "servers", "resources": {"limits": {"cpu": "1"}}}]}, "containers[0].name: 'servers' is not in the pod: must be one of server, log"),
    ({"containers": [{"name": "log", "resources": {"limits": {"cpu": "1"}}}] * 2}, "containers[1].name: log is there twice"),
    ({"containers": [{"name": "log", "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}]}, "containers[0].resources.limits[hugepages-2Mi]: must be cpu or memory: nothing else can be resized"),
    ({"containers": [{"name": "log", "resources": {"claims": [{"name": "a"}], "limits": {"cpu": "1"}}}]}, "containers[0].resources.claims: must not be set: a resize changes cpu and memory"),
    ({"containers": [{"name": "log", "resources": {"limits": {"cpu": "lots"}}}]}, "containers[0].resources.limits[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    ({"containers": [{"name": "log", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}]}, "spec.containers[1].resources.requests[cpu]: must be no more than the limit of 1"),
    ({"containers": [{"name": "log", "resources": {"limits": {"memory": "10E"}}}]}, "spec.containers[1].resources.limits[memory]: must be no more than 9223372036854775807"),
    ({"resources": {"limits": {"ephemeral-storage": "1Gi"}}}, "resources.limits[ephemeral-storage]: must be cpu or memory: nothing else can be resized"),
]  # fmt: skip


@pytest.mark.parametrize(("wish", "why"), REFUSED, ids=[why[:60] for _, why in REFUSED])
def test_an_invalid_resize_is_refused_by_path(wish: Any, why: str) -> None:
    with pytest.raises(PodInvalid) as refused:
        resized(a_pod({}), wish)
    assert str(refused.value) == why
