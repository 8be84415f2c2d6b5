"""A pod's cgroup is made with its limits, in this machine's hierarchies and in copies of others."""

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel import cgroupfs
from syncpod.kernel.cgroupfs import mounted_hierarchies, whole_hierarchies
from syncpod.kernel.mountinfo import read_mounts
from syncpod.node.cgroups import remove_pod_cgroup
from syncpod.node.pod_cgroups import (
    Enforced,
    LimitsRefused,
    change_pod_cgroup,
    limit_all_pods,
    make_pod_cgroup,
    pids_unlimited,
    read_memory_limit,
    read_pod_cgroup,
    remove_empty_tiers,
    remove_left_tiers,
    weigh_tiers,
)
from syncpod.pod import Pod
from syncpod.translation.cgroup_limits import CgroupLimits
from syncpod.translation.cgroup_paths import pod_cgroup
from syncpod.translation.context import NodeContext
from tests.runtimes import kernel_limits
from tests.translation.translation import HOST, NODE, make_pod

MIB = 1 << 20
PLAIN = replace(NODE, host=replace(HOST, hugepage_sizes=()))


def pod_of(*resources: dict[str, Any], uid: str = "a", **spec: Any) -> Pod:
    """A pod with a container for each of these resources."""
    containers = [{"name": f"c{index}", "image": "i", "resources": each} for index, each in enumerate(resources)]
    return make_pod({"containers": containers, **spec}, uid=uid)


SIZE = {"cpu": 2000, "memory": 2 << 30, "ephemeral-storage": 1 << 40, "hugepages-2Mi": 4 * MIB}
LIMITED = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}
"""A burstable container with both limits."""

# --- version 2, as a tree of files ------------------------------------------------------------------------------------


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A directory with the files of the root of cgroups of version 2."""
    root = tmp_path / "cgroup"
    cgroup(root, "cpu io memory hugetlb pids")
    return root


FILES = ("cpu.weight", "cpu.max", "memory.max", "hugetlb.2MB.max")


def cgroup(directory: Path, controllers: str, *files: str) -> Path:
    """Make the files that the kernel makes in a new cgroup of version 2."""
    directory.mkdir(parents=True)
    (directory / "cgroup.controllers").write_text(f"{controllers}\n")
    for name in ("cgroup.subtree_control", *files):
        (directory / name).touch()
    return directory


def mountinfo(root: Path) -> Path:
    file = root.parent / "mountinfo"
    file.write_text(f"30 24 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    return file


def test_cgroup_v2_gets_weights_and_limits_and_delegates_controllers(unified: Path) -> None:
    node = replace(NODE, host=replace(HOST, hugepage_sizes=("2MB",)))
    parent = cgroup(unified / "syncpod", "cpu memory hugetlb")
    tier = cgroup(parent / "burstable", "cpu memory hugetlb", "cpu.weight")
    own = cgroup(tier / "poda", "cpu memory hugetlb", *FILES)
    make_pod_cgroup(node, pod_of(LIMITED, LIMITED), mountinfo=mountinfo(unified))
    # 500m are 512 shares, of which the weight is 1 + 510 * 9999 / 262142.
    assert [(own / name).read_text() for name in FILES] == ["20", "100000 100000", str(128 * MIB), "0"]
    for above in (unified, parent, tier):
        # The last of three written values: a plain file keeps the rest of a longer one.
        assert (above / "cgroup.subtree_control").read_text().startswith("+memory")
    assert (own / "cgroup.subtree_control").read_text() == ""  # the runtime's to divide


def test_the_cgroup_v2_of_all_pods_has_the_nodes_capacity(unified: Path) -> None:
    """Row 52: a weight by cores, the memory, and nine in ten of the machine's process ids."""
    node = replace(PLAIN, capacity=SIZE, host=replace(PLAIN.host, max_pids=32768, hugepage_sizes=("2MB",)))
    everything = ("cpu.weight", "memory.max", "pids.max", "hugetlb.2MB.max")
    parent = cgroup(unified / "syncpod", "cpu memory hugetlb pids", *everything)
    assert limit_all_pods(node, mountinfo=mountinfo(unified)) == ""
    # 2000m are 2048 shares.
    assert [(parent / name).read_text() for name in everything] == ["79", str(2 << 30), "29491", str(4 * MIB)]
    assert "pids" in (unified / "cgroup.subtree_control").read_text()


def test_a_pod_has_as_many_processes_as_the_node_allows_each(unified: Path) -> None:
    """The kubelet's podPidsLimit; without one the controller is left as it is."""
    parent = cgroup(unified / "syncpod", "cpu pids")
    own = cgroup(cgroup(parent / "burstable", "cpu pids") / "poda", "cpu pids", "cpu.weight", "cpu.max", "pids.max")
    make_pod_cgroup(PLAIN, pod_of(LIMITED), mountinfo=mountinfo(unified))
    assert (own / "pids.max").read_text() == ""
    assert "pids" not in (parent / "cgroup.subtree_control").read_text()
    make_pod_cgroup(replace(PLAIN, pod_max_pids=500), pod_of(LIMITED), mountinfo=mountinfo(unified))
    assert (own / "pids.max").read_text() == "500"
    assert "pids" in (parent / "cgroup.subtree_control").read_text()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pod_cgroups": False}, "this node makes no cgroups for pods"),
        ({"cgroup_driver": "systemd"}, "the runtime's cgroup driver is systemd"),
        ({}, "the pids controller is not available here"),
    ],
)
def test_a_limit_of_processes_that_nothing_enforces_is_refused(unified: Path, change: dict[str, Any], why: str) -> None:
    if os.geteuid() != 0 and not change:
        why = "cgroups are closed to this user"
    (unified / "cgroup.controllers").write_text("cpu\n")
    cgroup(cgroup(unified / "syncpod", "cpu") / "burstable", "cpu")
    cgroup(unified / "syncpod" / "burstable" / "poda", "cpu", "cpu.weight", "cpu.max")
    said = f"the limit of 500 processes for each pod (--pod-max-pids) cannot be enforced, since {why}"
    node, info = replace(PLAIN, pod_max_pids=500, **change), mountinfo(unified)
    assert pids_unlimited(node, mountinfo=info) == said
    with pytest.raises(LimitsRefused) as refused:
        make_pod_cgroup(node, pod_of(LIMITED), mountinfo=info)
    assert str(refused.value) == said
    assert pids_unlimited(replace(node, pod_max_pids=-1), mountinfo=info) == ""


def test_a_memory_limit_below_current_usage_is_skipped_and_the_others_are_set(unified: Path) -> None:
    node = replace(PLAIN, capacity=SIZE)
    parent = cgroup(unified / "syncpod", "cpu memory", "cpu.weight", "memory.max", "memory.current")
    (parent / "memory.current").write_text(f"{2 << 30}\n")
    why = "memory: pods use as much memory as they may have together"
    assert limit_all_pods(node, mountinfo=mountinfo(unified)) == why
    assert ((parent / "cpu.weight").read_text(), (parent / "memory.max").read_text()) == ("79", "")
    (parent / "memory.current").write_text(f"{1 << 30}\n")
    assert limit_all_pods(node, mountinfo=mountinfo(unified)) == ""
    assert (parent / "memory.max").read_text() == str(2 << 30)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pod_cgroups": False}, "cpu, memory, pids: this node makes no cgroups for pods"),
        ({"cgroup_driver": "systemd"}, "cpu, memory, pids: the runtime's cgroup driver is systemd"),
        ({}, "pids: the pids controller is not available here"),
    ],
)
def test_unenforceable_node_limits_are_reported_without_failing(
    unified: Path, change: dict[str, Any], why: str
) -> None:
    cgroup(unified / "syncpod", "cpu memory", "cpu.weight", "memory.max")
    node = replace(PLAIN, capacity=SIZE, host=replace(PLAIN.host, max_pids=32768), **change)
    if not change and os.geteuid() != 0:
        why = "pids: cgroups are closed to this user"
    assert limit_all_pods(node, mountinfo=mountinfo(unified)) == why


def test_an_unknown_node_capacity_sets_no_limit(unified: Path) -> None:
    assert limit_all_pods(PLAIN, mountinfo=mountinfo(unified)) == ""
    assert not (unified / "syncpod").exists()


def test_the_weight_of_a_cgroup_v2_tier_follows_the_requests_of_its_pods(unified: Path) -> None:
    tier = cgroup(unified / "syncpod" / "burstable", "cpu", "cpu.weight")
    weigh_tiers(PLAIN, 4000, mountinfo=mountinfo(unified))
    assert (tier / "cpu.weight").read_text() == "157"
    assert not (unified / "syncpod" / "besteffort").exists()


def tier_with_a_pod(unified: Path) -> Path:
    """A tier of version 2 whose controllers are not enabled below it yet, with the cgroup of a pod."""
    tier = cgroup(cgroup(unified / "syncpod", "cpu memory") / "burstable", "cpu memory")
    cgroup(tier / "poda", "cpu memory", "cpu.weight", "cpu.max", "memory.max")
    return tier


def test_a_tier_that_is_removed_while_it_is_read_is_made_again(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = tier_with_a_pod(unified)
    read_text, gone = Path.read_text, [tier / "cgroup.subtree_control"]

    def read(file: Path) -> str:
        if file in gone:
            gone.remove(file)
            raise OSError(errno.ENODEV, "No such device", str(file))
        return read_text(file)

    monkeypatch.setattr(Path, "read_text", read)
    make_pod_cgroup(PLAIN, pod_of(LIMITED), mountinfo=mountinfo(unified))
    assert not gone
    assert (tier / "poda" / "memory.max").read_text() == str(64 * MIB)


def test_a_tier_that_is_made_anew_meanwhile_has_the_controllers_of_its_pod(
    unified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, make = tier_with_a_pod(unified), cgroupfs.make

    def make_after_another(directory: Path, *, mark: str = "") -> bool:
        if directory.name == "poda":
            (tier / "cgroup.subtree_control").write_text("")
        return make(directory, mark=mark)

    monkeypatch.setattr(cgroupfs, "make", make_after_another)
    make_pod_cgroup(PLAIN, pod_of(LIMITED), mountinfo=mountinfo(unified))
    assert (tier / "cgroup.subtree_control").read_text() != ""


def test_a_limit_of_containers_alone_is_skipped_without_its_controller(unified: Path) -> None:
    cgroup(unified / "syncpod" / "burstable" / "poda", "cpu", "cpu.weight", "cpu.max")
    (unified / "syncpod" / "cgroup.subtree_control").touch()
    (unified / "syncpod" / "burstable" / "cgroup.subtree_control").touch()
    make_pod_cgroup(PLAIN, pod_of(LIMITED), mountinfo=mountinfo(unified))


WHOLE = {"limits": {"memory": "64Mi"}}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "the memory controller is not available here"),
        ({"cgroup_driver": "systemd"}, "the runtime's cgroup driver is systemd"),
        ({"pod_cgroups": False}, "this node makes no cgroups for pods"),
    ],
)
def test_a_pod_level_limit_without_its_controller_is_refused_by_name(
    unified: Path, changes: dict[str, Any], why: str
) -> None:
    if os.geteuid() != 0 and not changes:
        why = "cgroups are closed to this user"
    (unified / "cgroup.controllers").write_text("cpu\n")
    cgroup(unified / "syncpod" / "burstable" / "poda", "cpu", "cpu.weight", "cpu.max")
    (unified / "syncpod" / "cgroup.subtree_control").touch()
    (unified / "syncpod" / "burstable" / "cgroup.subtree_control").touch()
    node = replace(PLAIN, **changes)
    with pytest.raises(LimitsRefused) as refused:
        make_pod_cgroup(node, pod_of({}, resources=WHOLE), mountinfo=mountinfo(unified))
    assert str(refused.value) == (
        f"spec.resources.limits[memory]: cannot be enforced for the pod as a whole, since {why}: "
        "limit the containers instead"
    )
    make_pod_cgroup(node, pod_of({}, resources={"requests": {"cpu": "1"}}), mountinfo=mountinfo(unified))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_container_limits_alone_do_not_fail_where_cgroups_are_unavailable() -> None:
    make_pod_cgroup(PLAIN, pod_of(LIMITED))
    weigh_tiers(PLAIN, 100)


def test_cgroup_v2_limits_are_read_back_and_updated_in_part(unified: Path) -> None:
    """Row 116: resources that a resize does not name stay unchanged."""
    tier = cgroup(cgroup(unified / "syncpod", "cpu memory") / "burstable", "cpu memory")
    own = cgroup(tier / "poda", "cpu memory", "cpu.weight", "cpu.max", "memory.max", "memory.current")
    (own / "cpu.weight").write_text("20")
    (own / "cpu.max").write_text("max 100000")
    (own / "memory.max").write_text("max")
    (own / "memory.current").write_text("4096")
    pod, info = pod_of(LIMITED), mountinfo(unified)
    assert read_pod_cgroup(PLAIN, pod, mountinfo=info) == Enforced(memory_usage=4096, cpu_shares=500)
    change_pod_cgroup(PLAIN, pod, CgroupLimits(memory=MIB), mountinfo=info)
    assert read_pod_cgroup(PLAIN, pod, mountinfo=info) == Enforced(MIB, 4096, None, 500)
    (own / "cpu.max").write_text("")
    change_pod_cgroup(PLAIN, pod, CgroupLimits(cpu_quota=50_000), mountinfo=info)
    assert read_pod_cgroup(PLAIN, pod, mountinfo=info) == Enforced(MIB, 4096, 50_000, 500)
    (cgroup(own / "c1", "cpu memory", "memory.max") / "memory.max").write_text(str(MIB))
    assert read_memory_limit(PLAIN, pod, "c1", mountinfo=info) == MIB
    assert read_memory_limit(PLAIN, pod, "c2", mountinfo=info) is None


def test_an_unenforceable_pod_level_resize_is_refused() -> None:
    node, whole = replace(PLAIN, pod_cgroups=False), pod_of({}, resources={"limits": {"cpu": "1", "memory": "64Mi"}})
    assert read_pod_cgroup(node, whole) == Enforced()
    change_pod_cgroup(node, whole, CgroupLimits(cpu_shares=2))
    change_pod_cgroup(node, pod_of(LIMITED), CgroupLimits(memory=MIB))
    with pytest.raises(LimitsRefused, match=r"spec.resources.limits\[memory\].*this node makes no cgroups for pods"):
        change_pod_cgroup(node, whole, CgroupLimits(memory=MIB))


# --- this machine's ---------------------------------------------------------------------------------------------------

HERE = whole_hierarchies(read_mounts())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeContext]:
    """A node with a parent cgroup that does not exist yet."""
    if os.geteuid() != 0 or not HERE:
        pytest.skip("only root makes cgroups, and only where they are mounted")
    parent = f"syncpod-test-{os.getpid()}-{tmp_path.name}"
    yield replace(PLAIN, cgroup_parent=parent)
    for hierarchy in mounted_hierarchies():
        for directory, _, _ in os.walk(hierarchy.path / parent, topdown=False):
            Path(directory).rmdir()


def value(node: NodeContext, below: str, version_1: str, version_2: str) -> str | None:
    """The content of a file of a cgroup below the node's, in either version."""
    for hierarchy in HERE:
        file = hierarchy.path / node.cgroup_parent / below / (version_1 if hierarchy.version == 1 else version_2)
        if file.exists():
            return file.read_text().strip()
    return None


def limits(node: NodeContext, below: str) -> tuple[str | None, str | None, str | None]:
    """The kernel's weight, quota and memory limit, in the terms of version 1."""
    weight = value(node, below, "cpu.shares", "cpu.weight")
    quota = value(node, below, "cpu.cfs_quota_us", "cpu.max")
    if kernel_limits.IS_UNIFIED and weight and quota:
        weight, quota = kernel_limits.Weight(weight), quota.split()[0].replace("max", "-1")
    return weight, quota, value(node, below, "memory.limit_in_bytes", "memory.max")


def read_back(shares: int) -> int:
    """The shares that are read back from the kernel, which keeps only their weight in version 2."""
    return 2 + (kernel_limits.linear(shares) - 1) * 262142 // 9999 if kernel_limits.IS_UNIFIED else shares


NO_MEMORY_LIMIT = (None, kernel_limits.UNLIMITED, "max")
"""The memory limits that count as no limit; None: there is no cgroup of ours."""


def unlimited(memory: str | None) -> bool:
    return memory in NO_MEMORY_LIMIT


by_cgroups_of_the_kernel = pytest.mark.skipif(
    not kernel_limits.IS_THERE, reason="the CPU controller is not mounted here"
)

GUARANTEED = {"limits": {"cpu": "250m", "memory": "32Mi"}}


@by_cgroups_of_the_kernel
def test_a_pod_cgroup_has_the_sum_of_container_limits(node: NodeContext) -> None:
    make_pod_cgroup(node, pod_of(GUARANTEED, GUARANTEED))
    assert limits(node, "poda") == ("512", "50000", str(64 * MIB))
    make_pod_cgroup(node, pod_of(LIMITED, LIMITED))
    assert limits(node, "burstable/poda") == ("512", "100000", str(128 * MIB))


def test_all_pods_are_limited_to_the_nodes_capacity_and_to_less_if_it_shrinks(node: NodeContext) -> None:
    """Row 52: as the kernel has it; an empty one goes as if it had no limits."""
    whole = replace(node, capacity={**SIZE, "hugepages-2Mi": 0}, host=replace(node.host, max_pids=30000))
    make_pod_cgroup(whole, pod_of(LIMITED))
    for size in (2000, 1000):
        lacks = limit_all_pods(replace(whole, capacity={"cpu": size, "memory": size * MIB}))
        assert lacks == ""
        weight = {2000: ("2048", "79"), 1000: ("1024", "39")}[size]
        shares, quota, memory = limits(node, "")
        assert shares in weight
        assert memory == str(size * MIB)
        assert quota in (None, "-1", "max 100000"), "CPU is a weight: what nobody else wants is for the pods"
        assert value(node, "", "pids.max", "pids.max") == "27000"
    remove_pod_cgroup(node, "a")
    remove_empty_tiers(node)
    assert not any((each.path / node.cgroup_parent).exists() for each in HERE)


@by_cgroups_of_the_kernel
def test_a_pod_with_an_unlimited_container_has_no_limit(node: NodeContext) -> None:
    make_pod_cgroup(node, pod_of(LIMITED, {"limits": {"cpu": "1"}}))
    shares, quota, memory = limits(node, "burstable/poda")
    assert (shares, quota) == ("1280", "150000")
    assert unlimited(memory)
    make_pod_cgroup(node, pod_of({}))
    shares, quota, memory = limits(node, "besteffort/poda")
    assert (shares, quota) == ("2", "-1")
    assert unlimited(memory)


@by_cgroups_of_the_kernel
def test_pod_level_limits_apply_and_the_overhead_is_added(node: NodeContext) -> None:
    whole = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "100Mi"}}
    make_pod_cgroup(node, pod_of({}, LIMITED, resources=whole, overhead={"cpu": "500m", "memory": "28Mi"}))
    assert limits(node, "burstable/poda") == ("1536", "250000", str(128 * MIB))


@by_cgroups_of_the_kernel
def test_making_a_pod_cgroup_again_restores_its_limits(node: NodeContext) -> None:
    make_pod_cgroup(node, pod_of(LIMITED))
    own = kernel_limits.directory("cpu", str(pod_cgroup(node, pod_of(LIMITED))))
    (own / ("cpu.weight" if kernel_limits.IS_UNIFIED else "cpu.shares")).write_text("7")
    make_pod_cgroup(node, pod_of(LIMITED))
    assert limits(node, "burstable/poda")[0] == "256"


@by_cgroups_of_the_kernel
def test_pod_cgroup_limits_are_read_back_and_updated_in_part(node: NodeContext) -> None:
    pod = pod_of(LIMITED)
    assert read_pod_cgroup(node, pod) == Enforced()
    make_pod_cgroup(node, pod)
    assert read_pod_cgroup(node, pod) == Enforced(64 * MIB, 0, 50_000, read_back(256))
    change_pod_cgroup(node, pod, CgroupLimits(cpu_shares=512))
    change_pod_cgroup(node, pod, CgroupLimits(memory=MIB))
    assert read_pod_cgroup(node, pod) == Enforced(MIB, 0, 50_000, read_back(512))


@by_cgroups_of_the_kernel
def test_tier_weights_follow_their_pods_and_empty_tiers_are_removed(node: NodeContext) -> None:
    make_pod_cgroup(node, pod_of(LIMITED, uid="a"))
    make_pod_cgroup(node, pod_of({}, uid="b"))
    weigh_tiers(node, 3000)
    assert limits(node, "burstable")[0] == "3072"
    assert limits(node, "besteffort")[0] == "2"
    remove_pod_cgroup(node, "a")
    remove_empty_tiers(node)
    weigh_tiers(node, 0)
    assert limits(node, "burstable") == (None, None, None)
    assert limits(node, "besteffort")[0] == "2"
    remove_pod_cgroup(node, "b")
    remove_empty_tiers(node)
    assert not any((each.path / node.cgroup_parent).exists() for each in HERE)


def test_a_tier_may_be_removed_while_a_new_pod_is_added_to_it(node: NodeContext) -> None:
    def come_and_go(uid: str) -> None:
        for _ in range(30):
            make_pod_cgroup(node, pod_of(LIMITED, uid=uid))
            assert any((each.path / node.cgroup_parent / "burstable" / f"pod{uid}").exists() for each in HERE)
            remove_pod_cgroup(node, uid)
            remove_empty_tiers(node)

    with ThreadPoolExecutor() as threads:
        list(threads.map(come_and_go, "abc"))
    assert not any((each.path / node.cgroup_parent).exists() for each in HERE)


def test_a_preexisting_parent_cgroup_is_kept_when_empty(node: NodeContext) -> None:
    for hierarchy in HERE:
        (hierarchy.path / node.cgroup_parent).mkdir()
    make_pod_cgroup(node, pod_of(LIMITED))
    remove_pod_cgroup(node, "a")
    remove_empty_tiers(node)
    assert all((each.path / node.cgroup_parent).exists() for each in HERE)
    assert not any((each.path / node.cgroup_parent / "burstable").exists() for each in HERE)


def test_a_pod_without_huge_pages_gets_a_limit_of_zero(node: NodeContext) -> None:
    node = replace(node, host=replace(HOST, hugepage_sizes=("2MB",)))
    make_pod_cgroup(node, pod_of({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}))
    found = value(node, "burstable/poda", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max")
    assert found in (None, str(4 * MIB))  # None: a kernel without huge pages
    make_pod_cgroup(node, pod_of({}))
    assert value(node, "besteffort/poda", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max") in (None, "0")


def everywhere(node: NodeContext) -> list[Path]:
    """The cgroup above all pods in each hierarchy, also of controllers that have no limits of ours."""
    return [each.path / node.cgroup_parent for each in mounted_hierarchies() if os.access(each.path, os.W_OK)]


def test_a_purged_node_leaves_no_empty_cgroup_that_the_runtime_has_made(node: NodeContext) -> None:
    """The runtime makes a pod's cgroup, and those above it, in each hierarchy; it removes only the pod's."""
    made = everywhere(node)
    make_pod_cgroup(node, pod_of(LIMITED))
    for top in made:
        (top / "burstable" / "poda").mkdir(parents=True, exist_ok=True)
    remove_left_tiers(node)
    assert all((top / "burstable" / "poda").is_dir() for top in made), "in use"
    remove_pod_cgroup(node, "a")
    remove_left_tiers(node)
    assert not any(top.exists() for top in made)


def test_a_purged_node_leaves_the_cgroup_that_was_there_before_it(node: NodeContext) -> None:
    made = everywhere(node)
    for top in made:
        top.mkdir()
    make_pod_cgroup(node, pod_of(LIMITED))
    remove_pod_cgroup(node, "a")
    remove_left_tiers(node)
    assert all(top.is_dir() and not (top / "burstable").exists() for top in made)
