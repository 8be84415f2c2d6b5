"""The CPU and memory of a pod: read, changed and described."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.actions import ContainerResources, ContainersToUpdate, ContainerToUpdate, PodActions
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.plan import plan_steps
from syncpod.lifecycle.pod_resources import (
    requested_changes,
    resize_summary,
    resources_of,
    same_resources,
    with_resources,
)
from syncpod.lifecycle.qos import validate_same_qos
from syncpod.pod import Pod, parse_pod, with_defaults


def pod_of(*resources: dict[str, Any], whole: dict[str, Any] | None = None, init: dict[str, Any] | None = None) -> Pod:
    """A pod with a container for each of these resources."""
    spec: dict[str, Any] = {
        "containers": [{"name": f"c{index}", "image": "i", "resources": each} for index, each in enumerate(resources)],
        "initContainers": [{"name": "first", "image": "i", "resources": init}] if init else [],
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    return with_defaults(parse_pod(document | {"spec": spec | ({"resources": whole} if whole else {})}))


amounts = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "1000m", "2"]), "memory": st.just("1Gi")})
some = st.fixed_dictionaries({"limits": amounts})


@given(st.lists(some, min_size=2, max_size=2), st.lists(some, min_size=2, max_size=2))
def test_copying_resources_into_a_pod_changes_nothing_else(mine: list[Any], theirs: list[Any]) -> None:
    one, other = pod_of(*mine), pod_of(*theirs)
    assert with_resources(one, resources_of(other)) == other
    assert same_resources(resources_of(one), resources_of(other)) == same_resources(
        resources_of(other), resources_of(one)
    )


def test_equal_amounts_compare_equal_in_any_notation() -> None:
    assert same_resources(
        resources_of(pod_of({"limits": {"cpu": "1"}})), resources_of(pod_of({"limits": {"cpu": "1e0"}}))
    )
    assert not same_resources(resources_of(pod_of({})), resources_of(pod_of({}, whole={"requests": {"cpu": "1"}})))
    storage = pod_of({"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}})
    assert same_resources(resources_of(storage), resources_of(pod_of({"limits": {"cpu": "1"}}))), "none of a resize's"


def test_resize_events_have_the_kubelets_json() -> None:
    """Row 115: `{"initContainers": …, "containers": …, "generation": …, "error": …}`, to the byte."""
    pod = pod_of({"requests": {"memory": "100", "cpu": "200m"}}, {}, init={"limits": {"cpu": "200m"}})
    assert resize_summary(pod, 2, 'no "<room>"') == (
        '{"initContainers":[{"name":"first","resources":{"limits":{"cpu":"200m"},"requests":{"cpu":"200m"}}}],'
        '"containers":[{"name":"c0","resources":{"requests":{"cpu":"200m","memory":"100"}}},'
        '{"name":"c1","resources":{}}],"generation":2,"error":"no \\"\\u003croom\\u003e\\""}'
    )
    assert json.loads(resize_summary(pod, None)).keys() == {"initContainers", "containers", "generation"}


def test_a_resize_cannot_change_the_qos_class() -> None:
    guaranteed, burstable = pod_of({"limits": {"cpu": "1", "memory": "1Gi"}}), pod_of({"requests": {"cpu": "1"}})
    assert validate_same_qos(guaranteed, guaranteed) == ()
    assert [str(each) for each in validate_same_qos(guaranteed, burstable)] == [
        "spec: a resize may not change the pod's QoS class from Guaranteed to Burstable: "
        "its requests must go on being equal to its limits"
    ]
    assert [str(each) for each in validate_same_qos(pod_of({}), burstable)] == [
        "spec: a resize may not change the pod's QoS class from BestEffort to Burstable"
    ]


def test_a_pod_is_resized_after_kills_and_before_starts() -> None:
    """Row 117: so a restarted container finds its pod's cgroup with the right limits."""
    pod = pod_of({}, {})
    view = ObservedPod(
        sandboxes=(ObservedSandbox(id="s", state="SANDBOX_READY"),),
        containers=(ObservedContainer(id="c0-id", name="c0", state="running"),),
    )
    small, large = ContainerResources(memory_limit=64 << 20, cpu_request=100), ContainerResources(cpu_request=200)
    update = ContainerToUpdate(name="c0", id="c0-id", desired=large, current=small)
    actions = PodActions(
        sandbox_id="s", containers_to_start=(1,), containers_to_update=ContainersToUpdate(cpu=(update,))
    )
    steps = plan_steps(pod, view, actions)
    assert [(step.verb, step.why) for step in steps] == [
        ("resize_pod", "cpu request of c0 100m -> 200m"),
        ("start_container", "first start"),
    ]
    behind = plan_steps(pod, view, PodActions(sandbox_id="s", containers_to_start=(1,)), cgroup_behind=True)
    assert [step.verb for step in behind] == ["resize_pod", "start_container"]
    anew = PodActions(kill_pod=True, create_sandbox=True, containers_to_start=(0,))
    assert "resize_pod" not in [step.verb for step in plan_steps(pod, view, anew, cgroup_behind=True)]


def test_each_kind_of_requested_resize_has_its_metric_label() -> None:
    """`container_requested_resizes_total` counts resizes; the same amount in another notation is none."""
    before = pod_of(
        {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}, {"requests": {"cpu": "1"}}
    )
    after = pod_of(
        {"requests": {"cpu": "500m", "memory": "65536Ki"}, "limits": {"cpu": "2", "memory": "128Mi"}},
        {"requests": {"cpu": "0"}},
    )
    assert requested_changes(resources_of(before), resources_of(after)) == (
        ("memory", "limits", "increase"),
        ("cpu", "requests", "decrease"),
        ("cpu", "limits", "add"),
        ("cpu", "requests", "remove"),
    )
    assert requested_changes(resources_of(after), resources_of(after)) == ()
