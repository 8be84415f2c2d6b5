"""A process's cgroups, by the kernel's files, and the limits that can be enforced with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from protos.cri.v1.api_pb2 import HugepageLimit, LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.kernel.mountinfo import parse_mounts
from syncpod.runtime.cgroups.limits import CgroupRefused, Cgroups
from syncpod.runtime.cgroups.mounts import Mounted, find, mounted_hierarchies
from syncpod.runtime.cgroups.version1 import Version1
from syncpod.runtime.cgroups.version2 import Version2

HYBRID = rb"""
24 1 0:22 / /proc rw,nosuid shared:5 - proc proc rw
30 24 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/with\040space rw shared:11 master:2 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
35 30 0:31 / /sys/fs/cgroup/net_cls rw - cgroup cgroup rw,net_cls
36 30 0:29 / /mnt/memory-again rw - cgroup cgroup rw,memory
37 30 0:32 /another/container /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
""".strip()
HYBRID_OWN = """9:pids:/mine
4:memory:/process/1
1:cpu,cpuacct:/
2:name=systemd:/init.scope
0::/init.scope
"""
UNIFIED = b"29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot"


def test_each_usable_hierarchy_is_found_once_and_only_if_it_contains_this_process() -> None:
    found = mounted_hierarchies(parse_mounts(HYBRID), HYBRID_OWN)
    assert [(mount.version, str(mount.own_directory), sorted(mount.controllers)) for mount in found] == [
        (1, "/sys/fs/cgroup/cpu,cpuacct", ["cpu", "cpuacct"]),
        (1, "/sys/fs/cgroup/systemd/init.scope", ["name=systemd"]),
        (1, "/sys/fs/cgroup/with space/process/1", ["memory"]),
        (2, "/sys/fs/cgroup/unified/init.scope", []),
    ]


def test_a_partial_mount_of_a_hierarchy_is_usable_if_it_contains_this_process() -> None:
    mounts = parse_mounts(UNIFIED.replace(b" / ", b" /machine/1 "))
    own = "/machine/1/web"
    assert mounted_hierarchies(mounts, f"0::{own}\n") == (
        Mounted(2, Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/web"), frozenset()),
    )
    assert mounted_hierarchies(mounts, "0::/machine/10\n") == ()


def test_missing_cgroup_mounts_are_given_as_the_reason() -> None:
    assert (
        find(parse_mounts(b"24 1 0:22 / /proc rw - proc proc rw"), "", root=True).why_not
        == "no cgroups are mounted here"
    )


CLOSED = Cgroups(why_not="cgroups are closed to this user", remedy="run as root")
BARE_V2 = Cgroups((Version2(Path("/nowhere"), frozenset()),))
V1 = Cgroups((Version1(Path("/nowhere"), frozenset({"cpu", "memory", "hugetlb"})),))
V2 = Cgroups((Version2(Path("/nowhere"), frozenset({"memory", "pids"})),))

MEMORY = LinuxContainerResources(memory_limit_in_bytes=1 << 30)
QUOTA = LinuxContainerResources(cpu_quota=50_000, cpu_period=100_000)
NO_LIMIT = LinuxContainerResources(
    cpu_shares=512,
    cpu_period=100_000,
    oom_score_adj=900,
    hugepage_limits=[HugepageLimit(page_size="2MB", limit=0)],
    unified={"memory.oom.group": "1", "memory.swap.max": "0", "cpu.weight": "10"},
)

REFUSED = {
    "memory, closed": (
        CLOSED,
        MEMORY,
        "memory limit: cannot be enforced, since cgroups are closed to this user: "
        "remove spec.containers[].resources.limits, or run as root",
    ),
    "cpu, closed": (
        CLOSED,
        QUOTA,
        "cpu limit: cannot be enforced, since cgroups are closed to this user: "
        "remove spec.containers[].resources.limits, or run as root",
    ),
    "huge pages, without their controller": (
        V2,
        LinuxContainerResources(hugepage_limits=[HugepageLimit(page_size="2MB", limit=1 << 21)]),
        "hugepages-2MB limit: cannot be enforced, since no hugetlb controller is available here: "
        "remove spec.containers[].resources.limits",
    ),
    "a page size that is none": (
        V1,
        LinuxContainerResources(hugepage_limits=[HugepageLimit(page_size="../x", limit=0)]),
        'linux.resources.hugepage_limits: page size "../x": must be like 2MB',
    ),
    "processors, without their controller": (
        V1,
        LinuxContainerResources(cpuset_cpus="0"),
        "cpuset: cannot be enforced, since no cpuset controller is available here: "
        "remove linux.resources.cpuset_cpus and cpuset_mems",
    ),
    "a file of version 2, with version 1": (
        V1,
        LinuxContainerResources(unified={"memory.high": "1"}),
        'linux.resources.unified["memory.high"]: cannot be enforced, since cgroups are of version 1 here: remove it',
    ),
    "a file of a controller that is not there": (
        V2,
        LinuxContainerResources(unified={"io.max": "8:0 rbps=1"}),
        'linux.resources.unified["io.max"]: cannot be enforced, since no io controller is available here: remove it',
    ),
    "a file that belongs to no controller": (
        V2,
        LinuxContainerResources(unified={"cgroup.procs": "1"}),
        'linux.resources.unified["cgroup.procs"]: must name a controller\'s file, such as memory.high',
    ),
    "a file elsewhere": (
        V2,
        LinuxContainerResources(unified={"memory.x/../../memory.max": "1"}),
        'linux.resources.unified["memory.x/../../memory.max"]: must name a controller\'s file, such as memory.high',
    ),
    "less memory with swap than without": (
        V1,
        LinuxContainerResources(memory_limit_in_bytes=2000, memory_swap_limit_in_bytes=1000),
        "memory swap limit 1000: must not be below the memory limit 2000",
    ),
}


@pytest.mark.parametrize(("cgroups", "resources", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_unenforceable_limits_are_refused(
    cgroups: Cgroups, resources: LinuxContainerResources, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cgroups.refusal(resources) == sentence
    with pytest.raises(CgroupRefused):
        cgroups.make("/syncpod/pod1/" + "a" * 64, resources)


def test_the_refusal_to_an_ordinary_user_says_that_root_could(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert BARE_V2.refusal(MEMORY) == (
        "memory limit: cannot be enforced, since the memory controller is not delegated to this user: "
        "remove spec.containers[].resources.limits, or run as root"
    )


@pytest.mark.parametrize(
    ("cgroups", "unenforced"),
    [
        (CLOSED, dict.fromkeys(("cpu", "memory", "hugepages"), "cgroups are closed to this user: run as root")),
        (
            V2,
            {
                "cpu": "the cpu controller is not delegated to this user: run as root",
                "hugepages": "the hugetlb controller is not delegated to this user: run as root",
            },
        ),
        (V1, {}),
    ],
    ids=["closed", "without cpu", "open"],
)
def test_unenforceable_limits_are_listed_in_advance(
    cgroups: Cgroups, unenforced: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cgroups.unenforced == unenforced
    pages = LinuxContainerResources(hugepage_limits=[HugepageLimit(page_size="2MB", limit=1)])
    asked = {"cpu": QUOTA, "memory": MEMORY, "hugepages": pages}
    assert {name for name, resources in asked.items() if cgroups.refusal(resources)} == set(unenforced)


@pytest.mark.parametrize("cgroups", [CLOSED, BARE_V2, V1, V2])
def test_a_container_without_limits_is_never_refused(cgroups: Cgroups) -> None:
    assert cgroups.refusal(NO_LIMIT) is None


def test_with_both_versions_each_limit_is_enforced_by_the_one_that_has_its_controller() -> None:
    both = replace(V1, hierarchies=(*V1.hierarchies, Version2(Path("/nowhere"), frozenset({"pids"}))))
    assert both.controllers == ("cpu", "hugetlb", "memory", "pids")
    assert both.refusal(LinuxContainerResources(memory_limit_in_bytes=1, unified={"pids.max": "9"})) is None


def test_without_usable_cgroups_a_container_has_none_and_no_error() -> None:
    path = "/syncpod/pod1/" + "a" * 64
    CLOSED.make(path, NO_LIMIT)
    CLOSED.update(path, NO_LIMIT, NO_LIMIT)
    CLOSED.kill(path)
    CLOSED.remove(path)
    assert (CLOSED.procs(path), CLOSED.usage(path), CLOSED.oom_killed(path)) == ((), None, False)


CONTAINER = "c1" * 32


def test_a_parent_that_is_made_anew_meanwhile_has_the_controllers_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In version 2. A removal takes an empty parent, and another container's start makes it again."""
    for directory in (tmp_path, tmp_path / "pod1", tmp_path / "pod1" / CONTAINER):
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.subtree_control").touch()
    make = cgroupfs.make

    def make_after_another(directory: Path, *, mark: str = "") -> bool:
        if directory.name == CONTAINER:
            (directory.parent / "cgroup.subtree_control").write_text("")
        return make(directory, mark=mark)

    monkeypatch.setattr(cgroupfs, "make", make_after_another)
    Cgroups(hierarchies=(Version2(tmp_path, frozenset({"pids"})),)).make(
        f"/pod1/{CONTAINER}", LinuxContainerResources()
    )
    assert [(each / "cgroup.subtree_control").read_text() for each in (tmp_path, tmp_path / "pod1")] == ["+pids"] * 2
