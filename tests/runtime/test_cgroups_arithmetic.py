"""The conversion between CRI's limits and the files of cgroups."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.runtime.cgroups.files import Memory, Pressure, parse_pressures
from syncpod.runtime.cgroups.limits import CgroupRefused, container_cgroup
from syncpod.runtime.cgroups.version2 import cpu_max, swap_max, weight_of

ID = "0123456789abcdef" * 4

WEIGHTS = {2: 1, 102: 17, 256: 35, 1024: 100, 262144: 10000, 999999: 10000}


@pytest.mark.parametrize(("shares", "weight"), WEIGHTS.items())
def test_cpu_shares_are_converted_to_a_weight(shares: int, weight: int) -> None:
    assert weight_of(shares) == weight


@given(st.integers(2, 262_144), st.integers(2, 262_144))
def test_more_shares_never_weigh_less(one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert 1 <= weight_of(fewer) <= weight_of(more) <= 10_000


CPU_MAX = {
    "a new container without a limit has the period all the same": (0, 100_000, "", "max 100000"),
    "half a core": (50_000, 100_000, "max 100000", "50000 100000"),
    "a quota alone keeps the period": (50_000, 0, "max 20000", "50000 20000"),
    "a period alone keeps the quota": (0, 50_000, "25000 100000", "25000 50000"),
    "a negative quota takes the limit away": (-1, 0, "25000 100000", "max 100000"),
    "nothing given, nothing written": (0, 0, "25000 100000", None),
}


@pytest.mark.parametrize(("quota", "period", "now", "written"), CPU_MAX.values(), ids=CPU_MAX.keys())
def test_cpu_quota_and_period(quota: int, period: int, now: str, written: str | None) -> None:
    assert cpu_max(LinuxContainerResources(cpu_quota=quota, cpu_period=period), now) == written


SWAP_MAX = {
    "nothing said": (1000, 0, None),
    "both the same: no swap": (1000, 1000, "0"),
    "the difference is for swap": (1000, 1500, "500"),
    "swap without limit": (1000, -1, "max"),
    "swap alone without limit": (0, -1, "max"),
    "memory without limit takes swap's away too": (-1, 0, "max"),
}


@pytest.mark.parametrize(("memory", "together", "written"), SWAP_MAX.values(), ids=SWAP_MAX.keys())
def test_the_swap_limit_is_memory_and_swap_minus_memory(memory: int, together: int, written: str | None) -> None:
    resources = LinuxContainerResources(memory_limit_in_bytes=memory, memory_swap_limit_in_bytes=together)
    assert swap_max(resources) == written


@pytest.mark.parametrize(("memory", "together"), [(1000, 999), (0, 1000), (-1, 1000)])
def test_a_limit_on_memory_and_swap_that_memory_alone_exceeds_is_refused(memory: int, together: int) -> None:
    resources = LinuxContainerResources(memory_limit_in_bytes=memory, memory_swap_limit_in_bytes=together)
    with pytest.raises(CgroupRefused, match=f"memory swap limit {together}: "):
        swap_max(resources)


def test_pressure_is_reported_in_nanoseconds() -> None:
    text = "some avg10=1.50 avg60=0.25 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n"
    read = parse_pressures(text)
    assert read.some == Pressure(123_000, 1.5, 0.25, 0.0)
    assert read.full == Pressure(4_000, 0.0, 0.0, 0.0)


def test_the_remainder_of_a_limit_is_never_negative() -> None:
    memory = Memory(
        usage=90, working_set=70, limit=100, resident=60, page_faults=1, major_page_faults=0, swap_usage=9, swap_limit=8
    )
    assert memory.available == 30
    over = replace(memory, working_set=110)
    assert over.available == 0


PATHS = {
    ("/syncpod/pod1", ID): f"/syncpod/pod1/{ID}",
    ("/syncpod/pod1/", ID): f"/syncpod/pod1/{ID}",
    ("", ID): f"/syncpod-embedded/{ID}",
    ("/", ID): f"/{ID}",
}


@pytest.mark.parametrize(("given", "path"), PATHS.items())
def test_the_cgroup_path_of_a_container(given: tuple[str, str], path: str) -> None:
    assert container_cgroup(*given) == path


REFUSED = {
    "relative": ("syncpod/pod1", ID, "must be an absolute path"),
    "upwards": ("/syncpod/../..", ID, "must be an absolute path"),
    "of systemd": ("/kubepods.slice/kubepods-pod1.slice", ID, "names a slice of systemd"),
    "of systemd, by its name alone": ("kubepods-pod1.slice", ID, "names a slice of systemd"),
    "with a line's end": ("/syncpod/pod\n1", ID, "must be an absolute path"),
    "with a NUL": ("/syncpod/pod\0", ID, "must be an absolute path"),
    "with a part too long": ("/" + "a" * 256, ID, "is too long"),
    "too long": ("/a" * 1025, ID, "is too long"),
    "an id that leads upwards": ("/syncpod/pod1", "..", "must be an absolute path"),
    "an id that is none of ours": ("/syncpod/pod1", "web", "must end in the id"),
    "no id": ("/syncpod/pod1", "", "must end in the id"),
}


@pytest.mark.parametrize(("parent", "container", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_cgroup_parents_are_refused(parent: str, container: str, why: str) -> None:
    with pytest.raises(CgroupRefused, match=why):
        container_cgroup(parent, container)
