"""Limits of pods and resizes that the runtime cannot enforce."""

from typing import Any

import pytest

from syncpod.cri.records import unenforced_limits
from syncpod.pod import Pod
from syncpod.pod.limits import limited_resources, limits_of
from syncpod.translation.refused_limits import added_limits, names_a_limit, refusals_of_limits
from tests.translation.translation import make_pod

WHY = "cgroups are closed to this user: run as root"
CLOSED = {"cpu": WHY, "memory": WHY, "hugepages": WHY}
BARE: dict[str, Any] = {}
CPU = {"limits": {"cpu": "200m"}}
BOTH = {"limits": {"cpu": "200m", "memory": "128Mi"}}
PAGES = {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}


def pod_of(main: dict[str, Any], *, sidecar: dict[str, Any] | None = None, whole: dict[str, Any] | None = None) -> Pod:
    init = {"name": "init", "image": "i", "restartPolicy": "Always", "resources": sidecar or {}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": main}], "initContainers": [init]}
    return make_pod(spec | ({"resources": whole} if whole is not None else {}))


ADDED: dict[str, tuple[Pod, Pod, list[str]]] = {
    "both": (
        pod_of(BARE),
        pod_of(BOTH),
        ["spec.containers[0].resources.limits[cpu]", "spec.containers[0].resources.limits[memory]"],
    ),
    "one beside another": (pod_of(CPU), pod_of(BOTH), ["spec.containers[0].resources.limits[memory]"]),
    "another amount": (pod_of(CPU), pod_of({"limits": {"cpu": "2"}}), []),
    "requests alone": (pod_of(BARE), pod_of({"requests": {"cpu": "1"}}), []),
    "a limit that is none": (pod_of(BARE), pod_of({"limits": {"cpu": "0"}}), []),
    "a sidecar's": (pod_of(BARE), pod_of(BARE, sidecar=CPU), ["spec.initContainers[0].resources.limits[cpu]"]),
    "the whole pod's": (pod_of(BARE), pod_of(BARE, whole=CPU), ["spec.resources.limits[cpu]"]),
    "huge pages": (pod_of(CPU), pod_of(PAGES), ["spec.containers[0].resources.limits[hugepages-2Mi]"]),
}


@pytest.mark.parametrize(("before", "after", "paths"), ADDED.values(), ids=ADDED.keys())
def test_only_newly_added_limits_are_checked(before: Pod, after: Pod, paths: list[str]) -> None:
    added = added_limits(before, after)
    assert [path for path, _ in added] == paths
    refused = refusals_of_limits(added, CLOSED)
    assert refused == tuple(
        f"{path}: cannot be enforced by the embedded runtime, since {WHY}, or remove the limit" for path in paths
    )
    assert all(names_a_limit(each) for each in refused)
    assert refusals_of_limits(added, {}) == ()


def test_each_limit_of_a_pod_is_refused_by_its_path_and_with_the_way_on() -> None:
    assert [path for path, _ in limits_of(pod_of(CPU, whole=BOTH))] == [
        "spec.resources.limits[cpu]",
        "spec.resources.limits[memory]",
        "spec.containers[0].resources.limits[cpu]",
    ]
    limits = limits_of(pod_of(PAGES, sidecar=CPU))
    assert [path for path, _ in limits] == [
        "spec.containers[0].resources.limits[cpu]",
        "spec.containers[0].resources.limits[hugepages-2Mi]",
        "spec.initContainers[0].resources.limits[cpu]",
    ]
    assert limited_resources(pod_of(PAGES, sidecar=CPU)) == {"cpu", "hugepages"}
    assert refusals_of_limits(limits, {"hugepages": "no hugetlb controller is available here"}) == (
        "spec.containers[0].resources.limits[hugepages-2Mi]: cannot be enforced by the embedded runtime, since no "
        "hugetlb controller is available here: remove the limit",
    )
    for other in ("OutOfmemory: spec.resources.limits[cpu]: ", "spec.hostUsers: user namespaces", "spec.volumes[0]: "):
        assert not names_a_limit(other)


@pytest.mark.parametrize(
    "config", ["", "no JSON", "[]", '{"containerd": {}}', '{"limitsUnenforced": ["cpu"]}', '{"limitsUnenforced": {}}']
)
def test_a_runtime_without_feature_information_is_assumed_capable(config: str) -> None:
    assert unenforced_limits({"config": config} if config else {}) == {}
    assert unenforced_limits({"config": f'{{"limitsUnenforced": {{"cpu": "{WHY}"}}}}'}) == {"cpu": WHY}
