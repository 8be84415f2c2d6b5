"""CPU and memory in the kernel's units, for containers and for whole pods.

Holds: No number in a manifest wedges a pod.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod.amounts import pod_amounts
from syncpod.translation.cgroup_limits import pod_limits
from syncpod.translation.resources import cpu_quota, cpu_shares, oom_score_adj
from tests.translation.translation import HOST, NODE, as_data, configured, make_container, make_pod, sandbox

GIB = 1 << 30


@pytest.mark.parametrize(
    ("millicores", "shares"),
    [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (1000, 1024), (256_001, 262144), (9**9, 262144)],
)
def test_cpu_shares_of_millicores(millicores: int, shares: int) -> None:
    assert cpu_shares(millicores) == shares


@pytest.mark.parametrize(
    ("millicores", "quota"), [(0, 0), (1, 1000), (10, 1000), (11, 1100), (1500, 150_000), (10**21, 2**44 - 1)]
)
def test_cpu_quota_of_millicores(millicores: int, quota: int) -> None:
    assert cpu_quota(millicores) == quota


CONTAINERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing asked": ({}, {"cpu_shares": "2", "oom_score_adj": "1000"}),
    "a request": (
        {"requests": {"cpu": "250m", "memory": "1Gi"}},
        {"cpu_shares": "256", "oom_score_adj": "875"},
    ),
    "a limit is also the request": (
        {"limits": {"cpu": "2", "memory": "4Gi"}},
        {"cpu_shares": "2048", "cpu_quota": "200000", "memory_limit_in_bytes": str(4 * GIB), "oom_score_adj": "-997"},
    ),
    "a request of nothing under a limit": (
        {"requests": {"cpu": "0"}, "limits": {"cpu": "1"}},
        {"cpu_shares": "2", "cpu_quota": "100000", "oom_score_adj": "999"},
    ),
    "more CPUs and bytes than there are": (
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "92233720368547", "memory": "8Ei"}},
        {
            "cpu_shares": "1024",
            "cpu_quota": str(2**44 - 1),
            "memory_limit_in_bytes": str(2**63 - 1),
            "oom_score_adj": "875",
        },
    ),
    "less than a byte is a byte": (
        {"limits": {"memory": "100m"}},
        {"cpu_shares": "2", "memory_limit_in_bytes": "1", "oom_score_adj": "999"},
    ),
}


@pytest.mark.parametrize(("asked", "told"), CONTAINERS.values(), ids=CONTAINERS)
def test_linux_resources_of_a_container(asked: dict[str, Any], told: dict[str, str]) -> None:
    node = replace(NODE, host=replace(HOST, hugepage_sizes=()))
    config = configured(*make_container({"resources": asked}), node=node)
    assert as_data(config.linux.resources) == {"cpu_period": "100000", **told}


BOUNDED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "a container without limits": (
        {"limits": {"cpu": "2", "memory": "1Gi"}},
        {},
        {"cpu_shares": "2048", "cpu_quota": "200000", "memory_limit_in_bytes": str(GIB), "oom_score_adj": "-997"},
    ),
    "one with a limit of its own": (
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "512Mi"}},
        {"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}},
        {"cpu_shares": "256", "cpu_quota": "50000", "memory_limit_in_bytes": str(GIB), "oom_score_adj": "938"},
    ),
    "one whose limit is 0": (
        {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Mi"}},
        {"limits": {"memory": "0"}},
        {"cpu_shares": "2", "memory_limit_in_bytes": str(GIB), "oom_score_adj": "999"},
    ),
    "one of a pod that only requests": ({"requests": {"cpu": "2"}}, {}, {"cpu_shares": "2", "oom_score_adj": "999"}),
}


@pytest.mark.parametrize(("of_the_pod", "own", "told"), BOUNDED.values(), ids=BOUNDED)
def test_pod_level_limits_apply_to_containers_without_their_own(
    of_the_pod: dict[str, Any], own: dict[str, Any], told: dict[str, str]
) -> None:
    node = replace(NODE, host=replace(HOST, hugepage_sizes=()))
    config = configured(*make_container({"resources": own}, resources=of_the_pod), node=node)
    assert as_data(config.linux.resources) == {"cpu_period": "100000", **told}


def test_pod_level_huge_page_limits_apply_to_containers_without_their_own() -> None:
    whole = {"limits": {"cpu": "1", "hugepages-2Mi": "8Mi"}}
    containers = [
        {"name": "silent", "image": "i"},
        {"name": "own", "image": "i", "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}}},
    ]
    pod = make_pod({"containers": containers, "resources": whole})
    made = [configured(pod, each).linux.resources.hugepage_limits[0].limit for each in pod.spec.containers]
    assert made == [8 << 20, 2 << 20]


def test_huge_pages_are_not_limited_without_a_hugetlb_controller() -> None:
    node = replace(NODE, host=replace(HOST, hugetlb_controller=False))
    assert not configured(*make_container({"resources": {}}), node=node).linux.resources.hugepage_limits


def test_a_container_without_huge_pages_gets_a_limit_of_zero() -> None:
    asked = {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1", "memory": "1Gi"}}
    made = configured(*make_container({"resources": asked})).linux.resources
    assert [as_data(limit) for limit in made.hugepage_limits] == [
        {"page_size": "2MB", "limit": str(4 << 20)},
        {"page_size": "1GB"},
    ]


V2, SWAP, ONE_PROCESS = {"unified_cgroups": True}, {"swap_controller": True}, {"single_process_oom_kill": True}
UNIFIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "version 1, no swap accounting": ({}, {}),
    "version 1 with swap accounting": (SWAP, {"memory_swap_limit_in_bytes": str(GIB)}),
    "version 1, single processes": (ONE_PROCESS, {}),
    "version 2": (V2, {"unified": {"memory.oom.group": "1"}}),
    "version 2 with swap accounting": (V2 | SWAP, {"unified": {"memory.oom.group": "1", "memory.swap.max": "0"}}),
    "version 2, single processes": (V2 | SWAP | ONE_PROCESS, {"unified": {"memory.swap.max": "0"}}),
}


@pytest.mark.parametrize(("machine", "told"), UNIFIED.values(), ids=UNIFIED)
def test_containers_get_no_swap_and_are_killed_as_a_group_by_cgroup_version(
    machine: dict[str, Any], told: dict[str, Any]
) -> None:
    node = replace(NODE, host=replace(HOST, hugepage_sizes=(), **machine))
    made = configured(*make_container({"resources": {"limits": {"memory": "1Gi"}}}), node=node).linux.resources
    assert as_data(made) == {
        "cpu_period": "100000",
        "cpu_shares": "2",
        "memory_limit_in_bytes": str(GIB),
        "oom_score_adj": "875",
        **told,
    }


def pod_of(containers: list[str], *, sidecars: list[str] | None = None, **spec: Any) -> Any:
    """A burstable pod, whose main containers and sidecars request these amounts of memory."""

    def one(name: str, memory: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "image": "a", "resources": {"requests": {"memory": memory, "cpu": "1m"}}, **more}

    return make_pod(
        {
            "containers": [one(f"main-{index}", memory) for index, memory in enumerate(containers)],
            "initContainers": [
                one(f"side-{index}", memory, restartPolicy="Always") for index, memory in enumerate(sidecars or [])
            ],
            **spec,
        }
    )


OOM: dict[str, tuple[Any, int]] = {
    "an eighth of the memory": (pod_of(["1Gi"]), 875),
    "all of it": (pod_of(["8Gi"]), 3),
    "more than there is": (pod_of(["80Gi"]), 3),
    "next to nothing": (pod_of(["1"]), 999),
    "a node-critical pod": (pod_of(["1"], priorityClassName="system-node-critical", priority=2_000_001_000), -997),
    "a pod that only names that class": (pod_of(["1"], priorityClassName="system-node-critical"), 999),
    "another critical pod": (pod_of(["1"], priorityClassName="system-cluster-critical", priority=2_000_000_000), 999),
}


@pytest.mark.parametrize(("pod", "score"), OOM.values(), ids=OOM)
def test_the_oom_score_adj_of_a_container(pod: Any, score: int) -> None:
    assert oom_score_adj(pod, pod.spec.containers[0], 8 * GIB) == score


def test_a_sidecars_oom_score_adj_is_at_most_that_of_the_smallest_main_container() -> None:
    pod = pod_of(["4Gi", "2Gi"], sidecars=["1", "3Gi"])
    small, large = pod.spec.init_containers
    assert oom_score_adj(pod, small, 8 * GIB) == oom_score_adj(pod, pod.spec.containers[1], 8 * GIB) == 750
    assert oom_score_adj(pod, large, 8 * GIB) == 625


def test_pod_level_requests_are_divided_among_the_containers() -> None:
    pod = pod_of(["1Gi", "0"], sidecars=["1Gi", "0"], resources={"requests": {"memory": "6Gi"}})
    assert [oom_score_adj(pod, each, 8 * GIB) for each in pod.spec.containers] == [750, 875]
    # The second sidecar is protected as the main container is that requests least: both have their share alone.
    assert [oom_score_adj(pod, each, 8 * GIB) for each in pod.spec.init_containers] == [750, 875]


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 45))
def test_the_oom_score_adj_of_burstable_lies_between_guaranteed_and_best_effort(requested: int, memory: int) -> None:
    pod = pod_of([str(requested)])
    assert 3 <= oom_score_adj(pod, pod.spec.containers[0], memory) <= 999


PODS: dict[str, tuple[list[int], list[tuple[str, int]], int]] = {
    "main containers add up": ([1, 2], [], 3),
    "a sidecar adds to them": ([1, 2], [("sidecar", 4)], 7),
    "a small init container does not count": ([1, 2], [("init", 3)], 3),
    "a large one does": ([1, 2], [("init", 9)], 9),
    "with the sidecars that run before it": ([1, 2], [("sidecar", 4), ("init", 9), ("sidecar", 5)], 13),
    "sidecars after it do not count with it": ([1], [("init", 9), ("sidecar", 5)], 9),
}


@pytest.mark.parametrize(("mains", "inits", "total"), PODS.values(), ids=PODS)
def test_the_sum_of_pod_requests(mains: list[int], inits: list[tuple[str, int]], total: int) -> None:
    pod = make_pod(
        {
            "containers": [
                {"name": f"m{index}", "image": "a", "resources": {"requests": {"cpu": str(cores)}}}
                for index, cores in enumerate(mains)
            ],
            "initContainers": [
                {
                    "name": f"i{index}",
                    "image": "a",
                    "resources": {"requests": {"cpu": str(cores)}},
                    **({"restartPolicy": "Always"} if kind == "sidecar" else {}),
                }
                for index, (kind, cores) in enumerate(inits)
            ],
        }
    )
    assert pod_amounts(pod, "requests")["cpu"].value() == total


def test_pod_level_resources_of_a_sandbox_override_the_sum_of_its_containers() -> None:
    whole = {"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}}
    pod, _ = make_container({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}, resources=whole)
    assert as_data(sandbox(pod).linux.resources) == {
        "cpu_period": "100000",
        "cpu_quota": "200000",
        "cpu_shares": "3072",
        "memory_limit_in_bytes": str(2 * GIB),
    }


def test_a_sandbox_has_the_sum_of_container_resources_and_the_overhead() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    pod, _ = make_container({"resources": resources}, overhead={"memory": "64Mi"})
    linux = sandbox(pod).linux
    assert as_data(linux.resources) == {
        "cpu_period": "100000",
        "cpu_quota": "200000",
        "cpu_shares": "1024",
        "memory_limit_in_bytes": str(GIB),
    }
    assert as_data(linux.overhead) == {
        "cpu_period": "100000",
        "cpu_shares": "2",
        "memory_limit_in_bytes": str(64 << 20),
    }


@given(st.lists(st.sampled_from(("1", "1Gi", "8Ei", "99999999999999999999Ei", "9E")), min_size=1, max_size=5))
def test_sums_of_resources_stay_within_64_bits(limits: list[str]) -> None:
    """The amounts of each are numbers of 64 bits, and their sum need not be."""
    containers = [
        {"name": f"c{n}", "image": "x", "resources": {"limits": {"memory": limit, "cpu": "92233720368547"}}}
        for n, limit in enumerate(limits)
    ]
    pod = make_pod({"containers": containers})
    told = sandbox(pod).linux.resources  # protobuf refuses what is out of range
    assert 0 < told.memory_limit_in_bytes < 2**63
    whole = pod_limits(pod, HOST)
    assert (whole.memory, whole.cpu_quota) == (told.memory_limit_in_bytes, 2**44 - 1)
