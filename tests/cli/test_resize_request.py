"""The arguments of `resize`, and the description of a pending resize."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.resize_request import (
    ResizeRequest,
    as_document,
    hindrance,
    is_done,
    is_hopeless,
    parse_amounts,
    resize_of,
    subjects,
)
from syncpod.pod import Pod, parse_pod, with_defaults


def a_pod(*conditions: dict[str, Any]) -> Pod:
    """A pod with a sidecar and two containers."""
    image = "registry.local/a:1"
    spec = {
        "initContainers": [{"name": "proxy", "image": image, "restartPolicy": "Always"}],
        "containers": [{"name": "web", "image": image}, {"name": "web-log", "image": image}],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": spec}
    return with_defaults(parse_pod(document | {"status": {"conditions": list(conditions)}}))


def test_amounts_have_the_syntax_of_kubectl_set_resources() -> None:
    assert parse_amounts("cpu=500m, memory=256Mi", "--limits") == {"cpu": "500m", "memory": "256Mi"}
    assert parse_amounts("CPU=1", "--limits") == {"cpu": "1"}
    assert parse_amounts("", "--limits") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cpu", "'cpu' must be cpu=AMOUNT or memory=AMOUNT, such as cpu=500m,memory=256Mi"),
        ("gpu=1", "'gpu=1' must be cpu=AMOUNT or memory=AMOUNT, such as cpu=500m,memory=256Mi"),
        ("cpu=1,cpu=2", "cpu is given twice"),
        ("memory=lots", "'memory=lots' must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
        ("memory=0", "'memory=0' must be more than 0; a value that is set cannot be removed"),
    ],
)
def test_invalid_amounts_are_refused_with_the_option(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=r"^--requests: ") as refused:
        parse_amounts(text, "--requests")
    assert str(refused.value) == f"--requests: {why}"


def chosen(*patterns: str) -> str:
    return subjects(resize_of(a_pod(), ResizeRequest(patterns, {"cpu": "1"}, {}, whole=False)))


def test_containers_are_selected_by_name_or_pattern_and_default_to_all_main_ones() -> None:
    assert chosen() == "web, web-log"
    assert chosen("web") == "web"
    assert chosen("web*", "proxy") == "proxy, web, web-log"
    with pytest.raises(Failure, match='container "db" is not in pod "shop", which has proxy, web, web-log'):
        chosen("db")


def test_the_resize_update_contains_only_resources() -> None:
    asked = resize_of(a_pod(), ResizeRequest(["proxy"], {"cpu": "1"}, {"cpu": "500m"}, whole=False))
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}
    assert as_document(asked) == {"initContainers": [{"name": "proxy", "resources": resources}]}
    whole = resize_of(a_pod(), ResizeRequest([], {"cpu": "1"}, {}, whole=True))
    assert (as_document(whole), subjects(whole)) == ({"resources": {"limits": {"cpu": "1"}}}, "the pod as a whole")


def test_a_pending_resize_is_described_with_its_reason() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"}
    progress = {"type": "PodResizeInProgress", "status": "True"}
    assert (hindrance(a_pod()), is_hopeless(a_pod())) == ("its node has not answered yet", False)
    assert hindrance(a_pod(pending, progress)) == "Deferred: no room; it is in progress"
    assert not is_hopeless(a_pod(pending))
    assert is_hopeless(a_pod(pending | {"reason": "Infeasible"}))


def given(resources: dict[str, Any], *conditions: dict[str, Any]) -> Pod:
    """A pod that requests half a CPU, which is allocated."""
    web = {"name": "web", "image": "registry.local/a:1", "resources": {"requests": {"cpu": "500m"}}}
    status = {"containerStatuses": [{"name": "web", "resources": resources}], "resources": resources}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": {"containers": [web]}}
    return with_defaults(parse_pod(document | {"status": status | {"conditions": list(conditions)}}))


def test_a_resize_is_done_when_the_pod_has_its_resources_and_no_resize_condition() -> None:
    assert is_done(given({"requests": {"cpu": "0.5"}}))
    assert not is_done(given({"requests": {"cpu": "400m"}})), "the node may not have been asked yet"
    assert not is_done(given({"requests": {"cpu": "0.5"}}, {"type": "PodResizeInProgress", "status": "True"}))
